"""What we read of vLLM's options and registries from its source against what they are when it is imported."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from holddown.base.evidence import known_or
from holddown.edges.engines import EngineFolders
from holddown.edges.probes.vllm import VllmProbe
from holddown.facts.engine import EngineFacts, Flag, Takes

SCRIPT = Path(__file__).with_name("ask_parser.py")
TAKES = {"int": Takes.INTEGER, "float": Takes.NUMBER, "human_readable_int": Takes.SIZE, "loads": Takes.JSON}


@pytest.fixture(scope="module")
def both(vllm_python: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[EngineFacts, dict[str, Any]]:
    """Read from the files, and asked of the imported engine."""
    folder = tmp_path_factory.mktemp("engine")
    engine = EngineFolders(folder / "engines").add(None, vllm_python, "")
    done = subprocess.run([vllm_python, str(SCRIPT)], capture_output=True, text=True, cwd="/", timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    said = next(line for line in done.stdout.splitlines() if line.startswith("{"))
    return VllmProbe(folder / "cache").facts(engine, lambda line: None), json.loads(said)


def by_name(said: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Positional words have no name with two dashes."""
    options = [each for each in said["options"] if any(name.startswith("--") for name in each["names"])]
    return {next(name for name in each["names"] if name.startswith("--")): each for each in options}


@pytest.mark.live
def test_the_options_are_those_of_the_parser(both: tuple[EngineFacts, dict[str, Any]]) -> None:
    """Not one is missed or made up, under any of its names."""
    facts, said = both
    ours = {frozenset((flag.name, *flag.aliases)) for flag in facts.flags}

    assert ours == {frozenset(each["names"]) for each in by_name(said).values()}


@pytest.mark.live
def test_what_each_option_takes_is_what_the_parser_takes(both: tuple[EngineFacts, dict[str, Any]]) -> None:
    """Choices, type, number of values and default, wherever we claim to know them."""
    facts, said = both
    theirs = by_name(said)

    wrong = [(flag, theirs[flag.name]) for flag in facts.flags if not agrees(flag, theirs[flag.name])]

    assert wrong == []
    assert sum(flag.default is not None for flag in facts.flags) > 0.9 * len(facts.flags)


def agrees(flag: Flag, said: dict[str, Any]) -> bool:
    choices = said["choices"] or (["true", "false"] if said["switch"] else [])
    listed = not flag.choices or flag.takes is Takes.NOTHING or sorted(flag.choices) == sorted(choices)
    # `--mm-processor-device` puts its choices together at start
    complete = bool(flag.choices) or not said["choices"] or flag.name == "--mm-processor-device"
    takes = flag.takes is Takes.UNKNOWN or (flag.takes is Takes.NOTHING) == said["switch"]
    typed = said["type"] not in TAKES or flag.takes in (TAKES[said["type"]], Takes.UNKNOWN)
    counts = (flag.several, flag.optional) == (said["several"], said["optional"])
    return listed and complete and takes and typed and counts and flag.default in (None, said["default"])


@pytest.mark.live
def test_the_registries_are_those_of_the_engine(both: tuple[EngineFacts, dict[str, Any]]) -> None:
    """Parsers, architectures and environment variables, name by name."""
    facts, said = both

    assert sorted(known_or(facts.tool_parsers, ())) == said["tool_parsers"]
    assert sorted(known_or(facts.reasoning_parsers, ())) == said["reasoning_parsers"]
    assert sorted(facts.architectures) == said["architectures"]
    assert [each.name for each in facts.environment] == said["environment"]
