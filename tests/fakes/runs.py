"""Runs on record, built to order."""

from holddown.base.evidence import Unknown, from_probe
from holddown.facts.served import Subject
from holddown.measure.run import ClientSide, Closed, EngineSide, Figure, Phase, Trace
from holddown.remember.run import BenchRun

_UNTOLD = Unknown("a fake")


def a_subject(deployment: str = "0123abcd", name: str = "m") -> Subject:
    return Subject(
        name=name,
        base_url="http://127.0.0.1:8000",
        model="m",
        deployment=deployment,
        engine=from_probe("vllm", "its record"),
        version=from_probe("0.32.0", "its record"),
        checkpoint=from_probe("d1", "its record"),
        machine=_UNTOLD,
    )


def a_phase(concurrency: int = 1, tokens_per_second: float = 40.0) -> Phase:
    """Two requests of four tokens each, one after the other at 100 ms a token."""
    return Phase(
        arrival=Closed(concurrency),
        began_at=10_000.0,
        seconds=1.0,
        traces=(Trace(0.0, 0.0, 0.1, 0.5, 10, 4, 4), Trace(0.5, 0.5, 0.6, 1.0, 10, 4, 4)),
        itl_quantiles_ms=(100.0,) * 101,
        itl_count=6,
        figures=(
            Figure("ttft", 100.0, "ms", 50, 2),
            Figure("itl", 100.0, "ms", 50, 6),
            Figure("output_throughput", tokens_per_second, "tok/s", 0, 2),
        ),
        engine=EngineSide(_UNTOLD, _UNTOLD, _UNTOLD, _UNTOLD, _UNTOLD, _UNTOLD),
        client=ClientSide(1, 0.02, 0.1, 0.2),
        energy_joules=_UNTOLD,
    )


def a_bench_run(id: str = "be0c0001", at: float = 10_001.0, phases: tuple[Phase, ...] = ()) -> BenchRun:
    return BenchRun(id, at, a_subject(), "chat", 0, phases or (a_phase(),))
