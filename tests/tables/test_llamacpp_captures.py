"""What llama.cpp b11434 printed, read; and what we say to it, found there."""

from pathlib import Path

import pytest

from holddown.facts.engine import Flag, Takes
from holddown.facts.llamacpp_help import read_devices, read_help, read_version
from holddown.tables.engine import GoneFlag, OwnedFlag
from holddown.tables.load import engine_table

HERE = Path(__file__).resolve().parents[1] / "captures" / "llamacpp" / "b11434-cpu"
EMITTED = (
    "--ctx-size", "--parallel", "--kv-unified", "--fit", "--n-gpu-layers", "--split-mode", "--tensor-split",
    "--threads", "--cache-ram", "--model", "--alias", "--host", "--port",
)  # fmt: skip


def captured(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def flags() -> tuple[Flag, ...]:
    return read_help(captured("help.txt")).flags


def names() -> set[str]:
    return {name for flag in flags() for name in (flag.name, *flag.aliases)}


def test_every_option_that_the_shell_completes_is_read() -> None:
    """And nothing else but the negative forms, which the completion leaves out."""
    completed = set(captured("completion-options.txt").split())
    further = names() - completed

    assert completed <= names()
    assert all(name.startswith(("--no-", "-n")) for name in further), further


def test_every_option_has_what_it_takes() -> None:
    """Only numbers whose default is a word are left open."""
    assert len(flags()) == 283
    assert sum(flag.takes is Takes.UNKNOWN for flag in flags()) < 30


@pytest.mark.parametrize("name", EMITTED)
def test_what_holddown_emits_is_there(name: str) -> None:
    """No setting of ours is unknown to this build."""
    assert name in names()


@pytest.mark.parametrize("row", engine_table("llamacpp").owned_flags, ids=lambda row: row.name)
def test_what_holddown_keeps_to_itself_is_there(row: OwnedFlag) -> None:
    """A name that the build does not have would guard nothing."""
    assert {f"--{row.name}", f"-{row.name}"} & names()


@pytest.mark.parametrize("row", engine_table("llamacpp").gone_flags, ids=lambda row: row.name)
def test_the_words_of_other_engines_are_not(row: GoneFlag) -> None:
    """They would be taken for ours."""
    assert f"--{row.name}" not in names()


def test_variables_are_read_with_their_defaults() -> None:
    """The server's own LLAMA_ARG_ names, and those of its key and token."""
    variables = {each.name: each for each in read_help(captured("help.txt")).environment}

    assert variables["LLAMA_ARG_CTX_SIZE"].default == "0"
    assert "LLAMA_ARG_NO_KV_UNIFIED" in variables
    assert {"LLAMA_API_KEY", "HF_TOKEN"} <= set(variables)


def test_a_source_without_its_history_tells_its_name() -> None:
    """Its build number is 0."""
    told = read_version(captured("version.txt"))

    assert told is not None
    assert told.version == "0.6.0-dev"
    assert read_devices(captured("list-devices.txt")) == ()
