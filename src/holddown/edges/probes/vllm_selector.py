"""Asks an installed vLLM's own selectors, in a child process of its own Python, which kernels they would take."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from holddown.base.codec import dump, dumps, loads
from holddown.base.evidence import Fact, Unknown, from_probe, known_or
from holddown.edges.probes.bounded import Bounds, run_bounded
from holddown.edges.probes.facts_cache import key_of, write_whole
from holddown.facts.asked import (
    NOT_ASKED,
    Asked,
    AskedAttention,
    AskedMoe,
    AttentionSaid,
    MoeAnswer,
    MoeQuery,
    MoeRefusal,
    Query,
    Questions,
)
from holddown.facts.attention_backends import BackendAnswer
from holddown.facts.engine import Engine, EngineFacts
from holddown.launch.environment import NOT_INHERITED
from holddown.ports import Progress

SCRIPT = Path(__file__).parent / "inside_vllm" / "ask.py"
_ASKER = "1"
"""Grows when the script or the meaning of its answers changes, so that what an older holddown kept is asked anew."""
_BEARING = ("VLLM_", "FLASHINFER_", "TORCH_", "LD_")
_COMPLAINT_LINES = 5


class VllmSelector:
    """Answers are kept per installation and set of questions; a failure is not, so a repair is seen.

    script: what the engine's Python runs; another in tests.
    """

    def __init__(self, cache_dir: Path, script: Path = SCRIPT, bounds: Bounds | None = None) -> None:
        self._cache_dir = cache_dir
        self._script = script
        self._bounds = bounds or Bounds()

    def ask(self, engine: Engine, facts: EngineFacts, questions: Questions, progress: Progress) -> Fact[Asked]:
        if engine.kind != "vllm" or engine.recorded:
            return Unknown(f"{engine.ref} is not installed here" if engine.recorded else f"{engine.kind} has none")
        where = f"asked {engine.ref}'s own selector"
        file = self._file(engine, facts, questions)
        kept = _kept(file)
        if kept is not None:
            return from_probe(kept, where)
        progress(f"asking {engine.ref} which kernels it would take (once per build and question; about 20 s) ...")
        found = NOT_ASKED
        in_order = sorted(questions.queries, key=_capability)
        for _, alike in groupby(in_order, key=_capability):
            said = self._run(engine, facts, tuple(alike), dict(questions.environment))
            if isinstance(said, Unknown):
                return said
            found += said.value
        _keep(file, found)
        return from_probe(found, where)

    def _run(
        self, engine: Engine, facts: EngineFacts, queries: Sequence[Query], more: Mapping[str, str]
    ) -> Fact[Asked]:
        """queries: of one compute capability, since modules keep what it can when they are imported."""
        asked = {
            "pretend": known_or(facts.device, "") == "cpu",
            "deadline_s": int(self._bounds.seconds) + 60,
            "questions": [{"kind": _kind(query), **dump(query)} for query in queries],
        }
        argv = [engine.python, "-B", str(self._script)]
        try:
            done = run_bounded(argv, _environment(engine, more), json.dumps(asked), self._bounds)
        except OSError as error:
            return Unknown(f"its Python does not run: {error}")
        if done.trouble:
            tail = "\n".join(done.complaint.strip().splitlines()[-_COMPLAINT_LINES:])
            return Unknown(f"{done.trouble}; {tail or 'it printed nothing'}")
        try:
            return from_probe(_answers(queries, done.output), self._script.name)
        except (ValueError, LookupError, TypeError) as error:
            return Unknown(f"what it printed is no answer: {type(error).__name__}: {error}; {done.output[:200]!r}")

    def _file(self, engine: Engine, facts: EngineFacts, questions: Questions) -> Path:
        """A folder for each state of the installation, a file for each set of questions."""
        environment = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith(_BEARING)]
        stamp = _digest(_ASKER, facts.fingerprint)
        name = _digest(dumps(questions), *environment)
        return self._cache_dir / f"asked-{key_of(engine)}" / stamp / f"{name}.json"


def _environment(engine: Engine, more: Mapping[str, str]) -> dict[str, str]:
    """Without a GPU: nothing of it is to be taken, not even for a moment."""
    inherited = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
    return {
        **inherited,
        **({"PYTHONPATH": engine.pythonpath} if engine.pythonpath else {}),
        **more,
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
    }


def _capability(query: Query) -> str:
    return query.compute_capability


def _kind(query: Query) -> str:
    return "moe" if isinstance(query, MoeQuery) else "attention"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


# --- what was kept -----------------------------------------------------------------------------------------------


def _kept(file: Path) -> Asked | None:
    try:
        return loads(Asked, file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _keep(file: Path, found: Asked) -> None:
    """What an earlier state of the installation said is of no use any more."""
    for stale in (each for each in _folders(file.parent.parent) if each != file.parent):
        shutil.rmtree(stale, ignore_errors=True)
    write_whole(file, dumps(found))


def _folders(folder: Path) -> list[Path]:
    return [each for each in folder.iterdir() if each.is_dir()] if folder.is_dir() else []


# --- what was printed --------------------------------------------------------------------------------------------


def _answers(queries: Sequence[Query], output: str) -> Asked:
    """Raises: ValueError, LookupError, TypeError where it is not what the script prints."""
    lines = [json.loads(line) for line in output.splitlines()]
    attention, moe = [], []
    for query, said in zip(queries, lines, strict=True):
        if isinstance(query, MoeQuery):
            moe.append(AskedMoe(query, _moe(said)))
        else:
            attention.append(AskedAttention(query, _attention(said)))
    return Asked(tuple(attention), tuple(moe))


def _attention(said: Mapping[str, Any]) -> Fact[AttentionSaid]:
    if "error" in said:
        return Unknown(_text(said["error"]))
    rows = said["backends"]
    backends = tuple(BackendAnswer(_text(name), _text(path), tuple(_texts(why))) for name, path, why in rows)
    unsure = tuple(_text(name) for name, _, why in rows if why is None)
    return from_probe(AttentionSaid(backends, unsure), "platforms/cuda.py")


def _moe(said: Mapping[str, Any]) -> Fact[MoeAnswer]:
    if "error" in said:
        return Unknown(_text(said["error"]))
    refused = tuple(MoeRefusal(_text(name), _text(why)) for name, why in said["refused"])
    path = _text(said["oracle"])
    return from_probe(MoeAnswer(_text(said["chosen"]), refused, _text(said["what"]), path), path)


def _texts(values: Any) -> Iterator[str]:
    return (_text(value) for value in values or ())


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{str(value)[:40]} is no text")
    return value
