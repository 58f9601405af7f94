"""What limited a phase, in one sentence."""

from dataclasses import replace

import pytest

from fakes.load import IDLE_CLIENT, a_trace
from fakes.runs import a_phase
from holddown.base.evidence import Known, from_probe
from holddown.measure.run import ClientSide, Closed, EngineSide, Figure, Open, Phase, Spacing
from holddown.measure.why import behind, judged, limit

FIGURES = (Figure("ttft", 50.0, "ms", 50, 9), Figure("itl", 20.0, "ms", 50, 99))


@pytest.mark.parametrize(
    ("client", "word"),
    [
        (replace(IDLE_CLIENT, cpu_share=0.97), "97 % of a core".replace(" %", "%")),
        (replace(IDLE_CLIENT, send_lag_ms=30.0), "30.0 ms late"),
        (replace(IDLE_CLIENT, loop_lag_ms=9.0), "9.0 ms late"),
    ],
)
def test_a_client_that_is_the_limit_says_so(client: ClientSide, word: str) -> None:
    """Before anything else is looked at: the figures are not the server's."""
    spoilt = judged(client, FIGURES)
    assert word in spoilt.limited
    assert limit(replace(a_phase(), client=spoilt))[0] == "CLIENT"


def test_lateness_is_judged_by_what_is_measured() -> None:
    """Half a millisecond spoils nothing, and neither do 5 ms where the first token takes a second."""
    assert judged(IDLE_CLIENT, FIGURES).limited == ""
    slow = (Figure("ttft", 1000.0, "ms", 50, 9), Figure("itl", 200.0, "ms", 50, 99))
    assert judged(replace(IDLE_CLIENT, send_lag_ms=5.0, loop_lag_ms=5.0), slow).limited == ""


def told(waiting: float, kv: float, preemptions: float = 0.0) -> Phase:
    def fact(value: float) -> Known[float]:
        return from_probe(value, "/metrics")

    engine = EngineSide(fact(8.0), fact(waiting), fact(kv), fact(preemptions), fact(0.0), fact(0.0))
    return replace(a_phase(8), engine=engine, arrival=Closed(8))


@pytest.mark.parametrize(
    ("phase", "word"),
    [
        (told(0.0, 0.2), "users"),
        (told(3.0, 0.4), "queue"),
        (told(0.7, 0.4), "users"),
        (told(3.0, 0.99), "KV cache"),
        (told(0.0, 0.9, preemptions=4), "KV cache"),
        (replace(a_phase(1), arrival=Closed(1)), "one user"),
        (replace(a_phase(8), arrival=Closed(8)), "not told"),
        (replace(a_phase(), traces=(a_trace(), a_trace(fault="cut"))), "failures"),
    ],
)
def test_the_engines_own_counters_say_why(phase: Phase, word: str) -> None:
    """What waited, what was full, what was thrown out; else what was asked of it."""
    assert limit(phase)[0] == word


def test_an_open_loop_that_falls_behind() -> None:
    """Its requests take longer and longer; one whose requests take long from the first on keeps up."""
    slow = tuple(a_trace(float(number), ttft_s=0.1 + number) for number in range(9))
    phase = replace(a_phase(), arrival=Open(Spacing.POISSON, 1.0), traces=slow)
    assert limit(phase)[0] == "server" and "fell behind" in limit(phase)[1]
    steady = tuple(a_trace(float(number), ttft_s=9.0) for number in range(9))
    assert limit(replace(phase, traces=steady)) == ("none", "")
    assert behind(slow[:5]) is None
