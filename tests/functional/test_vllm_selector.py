"""A child process that is asked about kernels: within its bounds whatever it does, and asked once."""

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.engine import an_engine, engine_facts
from holddown.base.evidence import Fact, Known, Unknown
from holddown.edges.probes.bounded import Bounds, run_bounded
from holddown.edges.probes.vllm_selector import VllmSelector
from holddown.facts.asked import Asked, MoeQuery, Questions
from holddown.facts.attention_backends import AttentionQuery

ATTENTION = AttentionQuery("12.0", "fp8", True, False, 576, 8, False, False, False, (("kv_lora_rank", 512),))
MOE = MoeQuery("12.0", "kimi_k2", "fp8", "fp8-block", 0, 384, 8, 7168, 2048, 8, 1, False, "silu", "DeepSeekV3")
SOUND = """
import json, sys
asked = json.load(sys.stdin)
open(COUNT, "a").write("x")
for question in asked["questions"]:
    if question["kind"] == "moe":
        print(json.dumps({"chosen": "TRITON", "refused": [["AITER", "no"]], "what": "", "oracle": "fp8.py"}))
    elif question["compute_capability"] == "9.0":
        print(json.dumps({"error": "RuntimeError: no"}))
    else:
        print(json.dumps({"backends": [["TRITON_MLA", "mla.py", ["kv"]], ["FLASHMLA", "f.py", None]]}))
"""


class Asking:
    """A selector whose script is the test's own."""

    def __init__(self, folder: Path, script: str, bounds: Bounds | None = None) -> None:
        self.count = folder / "count"
        self.script = folder / "script.py"
        self.script.write_text(f"COUNT = {str(self.count)!r}\n{script}", encoding="utf-8")
        self.selector = VllmSelector(folder / "cache", self.script, bounds)
        self.said: list[str] = []
        self.facts = replace(engine_facts("cuda"), fingerprint="f1")

    def ask(self, *queries: AttentionQuery | MoeQuery) -> Fact[Asked]:
        engine = replace(an_engine(), python=sys.executable)
        return self.selector.ask(engine, self.facts, Questions(queries), self.said.append)

    def why(self) -> str:
        found = self.ask(ATTENTION)
        assert isinstance(found, Unknown), found
        return found.why

    @property
    def runs(self) -> int:
        return len(self.count.read_text()) if self.count.exists() else 0


def test_answers_come_back_to_their_questions(tmp_path: Path) -> None:
    """Attention and experts, two compute capabilities: a child for each, since modules keep what they saw first."""
    asking = Asking(tmp_path, SOUND)
    other = replace(ATTENTION, compute_capability="9.0")

    found = asking.ask(ATTENTION, MOE, other)

    assert isinstance(found, Known)
    attention, moe = found.value.attention_said(ATTENTION), found.value.moe_said(MOE)
    assert attention is not None
    assert [each.name for each in attention.backends] == ["TRITON_MLA", "FLASHMLA"]
    assert attention.unsure == ("FLASHMLA",)
    assert isinstance(moe, Known)
    assert (moe.value.chosen, moe.value.refused[0].name) == ("TRITON", "AITER")
    assert found.value.attention_said(other) is None
    assert asking.runs == 2


def test_a_question_is_asked_once_per_build(tmp_path: Path) -> None:
    """A second time it comes from the cache; after a change of the installation, or another question, it is asked."""
    asking = Asking(tmp_path, SOUND)

    first, again = asking.ask(ATTENTION), asking.ask(ATTENTION)
    assert isinstance(first, Known)
    assert isinstance(again, Known)
    assert (asking.runs, len(asking.said)) == (1, 1)
    assert again.value == first.value

    asking.ask(MOE)
    assert asking.runs == 2
    asking.facts = replace(asking.facts, fingerprint="f2")
    asking.ask(ATTENTION)
    assert asking.runs == 3
    folders = [each for each in (tmp_path / "cache").iterdir() if each.is_dir()]
    assert [len(list(each.iterdir())) for each in folders] == [1]  # the old installation's answers are gone


def test_a_failure_is_not_kept(tmp_path: Path) -> None:
    """After a repair it answers."""
    asking = Asking(tmp_path, "raise SystemExit('no libcuda.so.1')")
    assert "exit code 1; no libcuda.so.1" in asking.why()

    asking.script.write_text(f"COUNT = {str(asking.count)!r}\n{SOUND}", encoding="utf-8")

    assert isinstance(asking.ask(ATTENTION), Known)


def test_one_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    """Its own children too, found by its process group."""
    script = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "open(COUNT, 'w').write(f'{os.getpid()} {child.pid}')\ntime.sleep(600)\n"
    )
    asking = Asking(tmp_path, script, Bounds(seconds=2))

    assert asking.why().startswith("it did not end within 2 s")

    for pid in map(int, asking.count.read_text().split()):
        assert _gone(pid)


def test_one_that_eats_memory_is_refused_it(tmp_path: Path) -> None:
    """The machine's memory is not its own; what it says about it is passed on."""
    asking = Asking(tmp_path, "x = bytearray(2 * 1024**3)", Bounds(data_bytes=1024**3))

    assert "MemoryError" in asking.why()


@pytest.mark.parametrize(
    "printed",
    ["rubbish", "[]", "{}", '{"backends": [["A"]]}', '{"backends": [["A", "p", [1]]]}', '{"backends": 3}', "[1\n]", ""],
)
def test_one_that_prints_rubbish_is_no_answer(tmp_path: Path, printed: str) -> None:
    """Whatever it is, it is shown and the static answer stands."""
    asking = Asking(tmp_path, f"print({printed!r})")

    assert asking.why().startswith("what it printed is no answer")


def test_one_that_prints_without_end_is_ended(tmp_path: Path) -> None:
    """Neither our memory nor the disk is filled."""
    asking = Asking(tmp_path, "while True: print('x' * 10**6)", Bounds(output_bytes=5 * 10**6))

    assert "Error" in asking.why() or "SIGXFSZ" in asking.why()


def test_one_that_dies_of_a_signal_is_named(tmp_path: Path) -> None:
    """As a library made for another CPU does."""
    asking = Asking(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGILL)")

    assert asking.why() == "it was ended by SIGILL; it printed nothing"


def test_a_python_that_is_gone_is_named(tmp_path: Path) -> None:
    """No exception of ours comes out of it."""
    asking = Asking(tmp_path, SOUND)

    found = asking.selector.ask(an_engine(), asking.facts, Questions((ATTENTION,)), asking.said.append)

    assert isinstance(found, Unknown)
    assert found.why.startswith("its Python does not run")


def test_a_build_that_is_only_recorded_is_not_asked(tmp_path: Path) -> None:
    """Nor one of an engine that has no selector."""
    asking = Asking(tmp_path, SOUND)

    for engine in (replace(an_engine(), recorded=True), replace(an_engine("sglang", "0.5.23"), kind="sglang")):
        found = asking.selector.ask(engine, asking.facts, Questions((ATTENTION,)), asking.said.append)
        assert isinstance(found, Unknown)
    assert asking.said == []


def test_the_child_sees_no_gpu(tmp_path: Path) -> None:
    """Not even for a moment: somebody else's work may fill it."""
    seen = run_bounded(
        [sys.executable, "-c", "import os, sys; sys.stdout.write(os.getcwd() + sys.stdin.read())"],
        {"PATH": os.environ["PATH"]},
        "x",
        Bounds(),
    )
    assert (seen.trouble, seen.output) == ("", "/x")
    asking = Asking(tmp_path, "import os; raise SystemExit(repr(os.environ['CUDA_VISIBLE_DEVICES']))")

    assert asking.why().endswith("; ''")


def _gone(pid: int) -> bool:
    """Whether it ended; init may take a moment to reap an orphan."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state in "ZX":
            return True
        time.sleep(0.05)
    return False
