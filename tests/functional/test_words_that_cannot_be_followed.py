"""What a person can say by mistake: an answer in words, never a traceback."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("inspect", "~nobody-of-that-name/model"), 3),
        (("engine", "add", "~nobody-of-that-name/python"), 3),
        (("up", "/", "--api-key-file", "~nobody-of-that-name/key"), 2),
        (("up", "/", "--api-key-file", ""), 2),
        (("up", "/tmp/b\udcffd"), 2),
        (("up", "/", "--name", "m", "--gpus", "²"), 2),
        (("up", "/", "--name", "m", "--gpus", "0,00"), 2),
    ],
)
def test_a_mistake_is_no_bug_of_ours(holddown: Run, words: tuple[str, ...], code: int) -> None:
    """Usage, or a fact that could not be had."""
    done = holddown(*words)
    assert done.returncode == code, done.stderr


def test_a_link_to_itself_is_on_the_disk_where_it_lies(holddown: Run, tmp_path: Path) -> None:
    """`--path` of a loop."""
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    done = holddown("node", "--path", str(loop))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("key", ["schlüssel", "two words", "two\nlines"])
def test_a_key_that_no_client_could_send_is_refused(holddown: Run, tmp_path: Path, key: str) -> None:
    """The engine would take it, and every request of ours would fail for it."""
    file = tmp_path / "key"
    file.write_text(key, encoding="utf-8")
    done = holddown("up", "/", "--name", "m", "--api-key-file", str(file))
    assert done.returncode == 2
    assert "printable ASCII" in done.stderr and key not in done.stderr


def test_a_key_in_the_environment_is_asked_for_as_a_file(holddown: Run) -> None:
    """The engine would inherit it, and the checks of ours would be refused for want of it."""
    done = holddown("up", "/", "--name", "m", env={"VLLM_API_KEY": "sk-inherited"})
    assert done.returncode == 2
    assert "--api-key-file" in done.stderr and "sk-inherited" not in done.stderr


@pytest.mark.parametrize(
    "words", [("up", "/", "--port", "99999"), ("up",), ("upp",), ("status", "--nope"), ("logs", "m", "-f")]
)
def test_words_that_cannot_be_followed_are_a_document_too(holddown: Run, words: tuple[str, ...]) -> None:
    """With --json stdout is one document, also where the command line itself is at fault."""
    done = holddown(*words, "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["what"]


@pytest.mark.parametrize(("no_colour", "coloured"), [("", True), ("1", False)])
def test_no_color_is_heeded(home: Any, no_colour: str, coloured: bool) -> None:
    """On a terminal an error is coloured, unless NO_COLOR is set."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "holddown", "down", "nobody"]
    subprocess.run(command, env={**home.env, "NO_COLOR": no_colour}, stdin=theirs, stderr=theirs, check=False)
    said = os.read(ours, 4096)
    os.close(ours)
    os.close(theirs)
    assert b"usage.no-deployment" in said
    assert (b"\x1b[" in said) is coloured
