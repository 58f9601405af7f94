"""The figures of a load run, from traces that are known."""

import pytest

from fakes.load import a_trace
from fakes.runs import a_phase
from holddown.base.evidence import Unknown, from_probe
from holddown.facts.workload import NO_SLO, Slo
from holddown.measure.figures import figures, meets, pooled, sound
from holddown.measure.pauses import Pauses
from holddown.measure.run import Figure, Trace
from holddown.measure.stats import mean_interval, percentile_interval

NO_ENERGY = Unknown("a test")


def found(traces: list[Trace], held_s: float, slo: Slo = NO_SLO) -> dict[tuple[str, int], Figure]:
    given = figures(traces, held_s, Pauses(3, ((10.0, 20.0, 30.0),)), slo, NO_ENERGY)
    return {(one.metric, one.percentile): one for one in given}


def test_one_request() -> None:
    """First token after 100 ms, ten more each 20 ms: 300 ms in all."""
    got = found([a_trace()], 0.3)
    assert got["ttft", 50].value == pytest.approx(100)
    assert got["tpot", 50].value == pytest.approx(20)
    assert got["e2e", 50].value == pytest.approx(300)
    assert got["user_speed", 50].value == pytest.approx(50)
    assert got["itl", 50].value == 20
    assert got["output_throughput", 0].value == pytest.approx(11 / 0.3)
    assert got["total_throughput", 0].value == pytest.approx((64 + 11) / 0.3)
    assert got["request_rate", 0].value == pytest.approx(1 / 0.3)


def test_latency_counts_from_when_it_was_due() -> None:
    """A request that was sent late was late for its user."""
    late = Trace(due_s=0.0, sent_s=0.5, first_s=0.6, ended_s=0.8, input_tokens=4, output_tokens=5, deltas=5)
    assert found([late], 1.0)["ttft", 50].value == pytest.approx(600)


def test_what_comes_after_the_load_does_not_count_in_rates() -> None:
    """Half of this answer's tokens came after 0.2 s."""
    got = found([a_trace(ttft_s=0.1, token_s=0.02)], 0.2)
    assert got["output_throughput", 0].value == pytest.approx(11 * 0.5 / 0.2)
    assert got["request_rate", 0].value == pytest.approx(0.2 / 0.3 / 0.2)


def test_no_figure_from_a_request_with_a_fault() -> None:
    """It is neither fast nor slow; and nothing at all comes of nothing but faults."""
    good, bad = a_trace(), a_trace(fault="cut")
    assert found([good, bad], 1.0).keys() == found([good], 1.0).keys()
    assert found([good, bad], 1.0)["output_throughput", 0] == found([good], 1.0)["output_throughput", 0]
    assert figures([bad], 1.0, Pauses(0, ()), NO_SLO, NO_ENERGY) == ()
    assert sound([bad, good]) == (good,)


def test_reasoning_is_counted_apart() -> None:
    """Only where there is any: the answer begins 200 ms after its first thought."""
    assert ("answer", 50) not in found([a_trace()], 1.0)
    thought = Trace(0.0, 0.0, 0.1, 0.5, 4, 5, 5, "", answer_s=0.3)
    got = found([thought], 1.0)
    assert (got["ttft", 50].value, got["answer", 50].value) == (pytest.approx(100), pytest.approx(300))


def test_goodput_counts_what_kept_every_limit() -> None:
    """One request is late, one slow, one failed, one good."""
    traces = [a_trace(ttft_s=0.9), a_trace(token_s=0.08), a_trace(fault="cut"), a_trace()]
    slo = Slo(ttft_ms=500, tpot_ms=50)
    assert [meets(trace, slo) for trace in traces] == [False, False, False, True]
    assert found(traces, 1.0, slo)["goodput", 0].value == pytest.approx(1.0)
    assert ("goodput", 0) not in found(traces, 1.0)


def test_energy_where_it_is_told() -> None:
    """22 J for 22 tokens."""
    given = figures([a_trace(), a_trace()], 1.0, Pauses(0, ()), NO_SLO, from_probe(22.0, "a meter"))
    assert next(one.value for one in given if one.metric == "energy") == pytest.approx(1.0)


def test_an_answer_of_one_token_has_no_pauses() -> None:
    """It has a first token and an end, and no time per further token."""
    got = found([a_trace(tokens=1)], 1.0)
    assert ("tpot", 50) not in got and got["output_throughput", 0].value == pytest.approx(1.0)


def test_intervals_hold_what_they_are_for() -> None:
    """The interval of a median lies around it and needs eight values; the mean's needs two."""
    traces = [a_trace(number * 0.3, ttft_s=0.1 + number / 1000) for number in range(100)]
    median = found(traces, 30.0)["ttft", 50]
    assert median.low is not None and median.high is not None
    assert median.low < median.value < median.high
    rate = found(traces, 30.0)["output_throughput", 0]
    assert rate.low is not None and rate.high is not None and rate.low <= rate.value <= rate.high
    assert percentile_interval([1.0] * 7, 50) is None and percentile_interval([1.0] * 8, 50) == (1.0, 1.0)
    assert percentile_interval(list(range(100)), 99) is None
    assert mean_interval([1.0]) is None
    # t with one degree of freedom: 12.706 standard errors of 1
    assert mean_interval([1.0, 3.0]) == (pytest.approx(2 - 12.706), pytest.approx(2 + 12.706))


def test_repetitions_are_pooled() -> None:
    """Rates are means with the spread of the repetitions; percentiles rest on all requests."""
    together = pooled([a_phase(1, 30.0), a_phase(1, 50.0)])
    rate = next(one for one in together if one.metric == "output_throughput")
    assert (rate.value, rate.n) == (40.0, 2) and rate.low is not None and rate.low < 30
    assert next(one.n for one in together if (one.metric, one.percentile) == ("ttft", 50)) == 4
    assert pooled([a_phase()]) == a_phase().figures
