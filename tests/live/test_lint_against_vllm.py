"""What `lint` says of options against what the engine's own parser does with them."""

import json
import subprocess
from pathlib import Path

import pytest

from fakes.engine import an_engine
from fakes.lint import command
from holddown.edges.engines import EngineFolders
from holddown.edges.probes.vllm import VllmProbe
from holddown.lint.judge import Ground, judged
from holddown.plan.wishes import Candidate

HERE = Path(__file__).parent
LINES = (HERE / "vllm_command_lines.txt").read_text(encoding="utf-8").splitlines()
OF_THE_PARSER = {"unknown", "ambiguous", "value", "value-missing", "choice", "stray"}


@pytest.mark.live
def test_lint_refuses_what_the_parser_refuses(vllm_python: str, tmp_path: Path) -> None:
    """Every way to write an option, right and wrong: the two agree on each line."""
    script = [vllm_python, str(HERE / "parse_lines.py")]
    done = subprocess.run(script, input="\n".join(LINES), capture_output=True, text=True, cwd="/", timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    ends = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("[")))
    facts = VllmProbe(tmp_path / "cache").read(EngineFolders(tmp_path / "engines").add(None, vllm_python, ""))

    wrong = {}
    for line, end in zip(LINES, ends, strict=True):
        found = judged(command(f"vllm serve m {line}"), Candidate(an_engine(), facts), Ground())
        codes = {each.code.removeprefix("flag.") for each in found.findings if each.blocks}
        if bool(codes & OF_THE_PARSER) != bool(end):
            wrong[line] = (codes, end)

    assert wrong == {}
    assert sum(map(bool, ends)) > 20
