"""Two sides in, the comparison as text out, whole.

After a wanted change: `HOLDDOWN_REWRITE_GOLDEN=1 pytest tests/golden/test_compare_texts.py`, and read the difference.
"""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.reports import a_deployment, a_gpu_birth, a_load, a_status, a_sweep
from fakes.store import FakeStore
from holddown.app.compare import Doors, compare_all
from holddown.base.evidence import Source, SourceKind
from holddown.cli.compare import compared_text
from holddown.launch.lifecycle import State
from holddown.measure.run import Closed, Phase
from holddown.plan.estimate import Estimate
from holddown.plan.plan import Setting
from holddown.remember.record import Comparison, Deployment
from holddown.remember.run import BenchRun

_FOLDER = Path(__file__).parent / "compare"


def an_fp8_one() -> Deployment:
    """The same with an FP8 cache, measured before: what it calibrates."""
    birth = a_gpu_birth("11111111", "m-fp8", created_at=20_000.0)
    source = Source(SourceKind.USER, "--set kv-cache-dtype=fp8")
    because = "you set it, since the cache holds twice as many tokens so, and the answers were held against the other's"
    plan = replace(birth.plan, settings=(*birth.plan.settings, Setting("kv-cache-dtype", "fp8", because, source)))
    comparisons = (Comparison(1, 512, 64, Estimate(200, 150, 260), 180.0),)
    return Deployment(replace(birth, plan=plan), replace(a_status(State.STOPPED), comparisons=comparisons))


def repeated(token_ms: float, first_shift: int) -> tuple[Phase, ...]:
    return tuple(
        a_load(Closed(users), token_ms=token_ms + users, shift=first_shift + at) for at in range(3) for users in (1, 8)
    )


def a_run(id: str, deployment: str, phases: tuple[Phase, ...]) -> BenchRun:
    users = sorted({each.arrival.concurrency for each in phases if isinstance(each.arrival, Closed)})
    compared = tuple(Comparison(each, 512, 64, Estimate(400, 300, 520), 380.0) for each in users)
    run = a_sweep(id, deployment, phases)
    return replace(run, at=1_790_000_000.0, comparisons=compared if deployment else ())


def told(a: BenchRun, b: BenchRun) -> str:
    store = FakeStore(kept_runs=[a, b])
    for each in (a_deployment(), an_fp8_one()):
        store.births[each.birth.id], store.statuses[each.birth.id] = each.birth, each.status
    return compared_text(compare_all((a.id, b.id), Doors(store, lambda path: None))) + "\n"


CASES = {
    # three of each load: the interval holds what differs from run to run
    "repeated_and_slower": (
        a_run("aaaaaaaa", "0123abcd", repeated(10.0, 0)),
        a_run("bbbbbbbb", "11111111", repeated(11.0, 3)),
    ),
    # nothing is claimed of five requests, nor where the client was the limit, nor of a load that one side alone had
    "little_to_say": (
        a_run("aaaaaaaa", "0123abcd", (a_load(Closed(1), n=5), a_load(Closed(64), limited="event loop 41 ms late"))),
        a_run("bbbbbbbb", "0123abcd", (a_load(Closed(1), n=5), a_load(Closed(64)), a_load(Closed(2)))),
    ),
    "no_load_in_common": (
        a_run("aaaaaaaa", "", (a_load(Closed(1)),)),
        a_run("bbbbbbbb", "", (a_load(Closed(2)),)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_comparison_reads_as_it_did(name: str) -> None:
    """What differs, each figure with its interval, what is not compared and why, predicted and measured."""
    text = told(*CASES[name])
    expected = _FOLDER / f"{name}.txt"
    if os.environ.get("HOLDDOWN_REWRITE_GOLDEN"):
        expected.write_text(text, encoding="utf-8")
    assert text == expected.read_text(encoding="utf-8")
    assert max(map(len, text.splitlines())) <= 100
