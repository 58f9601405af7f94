"""Consent to a checkpoint's code is remembered by what the files hold."""

from dataclasses import replace

from fakes.facts import model
from holddown.facts.model import CodeFile
from holddown.plan.wishes import Consent
from holddown.remember.trust import TrustedCode, consent

FILES = (CodeFile("configuration_x.py", "aa" * 32), CodeFile("modeling_x.py", "bb" * 32))
WITH_CODE = replace(model(), remote_code=FILES)
TRUSTED = TrustedCode("/models/llama", FILES, 1_795_900_000.0)


def test_nothing_is_trusted_unasked() -> None:
    """A checkpoint whose code nobody said yes to."""
    assert consent(WITH_CODE, ()) == Consent()


def test_the_same_files_are_trusted_wherever_they_lie() -> None:
    """A checkpoint that was moved, or another with the very same code."""
    moved = replace(WITH_CODE, path="/elsewhere/llama")
    assert consent(moved, (TRUSTED,)).because == "you trusted these 2 files on 2026-11-28: same sha256"


def test_a_changed_file_is_asked_about_again() -> None:
    """An update of the checkpoint brought another modeling file: it is named."""
    updated = replace(WITH_CODE, remote_code=(FILES[0], CodeFile("modeling_x.py", "cc" * 32)))
    assert consent(updated, (TRUSTED,)) == Consent("", ("modeling_x.py",))


def test_a_file_that_is_not_here_cannot_be_remembered() -> None:
    """Without its content there is no hash to know it by."""
    absent = (CodeFile("org/repo--modeling_x.py", ""),)
    same = TrustedCode("/models/llama", absent, 0.0)
    assert consent(replace(model(), remote_code=absent), (same,)) == Consent()
