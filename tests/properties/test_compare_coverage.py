"""What "95 %" promises, over many pairs of runs drawn with a fixed seed."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.reports import a_load
from holddown.measure.compare import RERUN, Method, Sample, compare, sample_of
from holddown.measure.run import Closed, Figure, Trace
from holddown.measure.stats import percentile

PAIRS = 120


def drawn(chance: Random, n: int = 40, token_s: float = 0.02) -> Sample:
    """n requests at four at once; log-normal times, and a run as a whole that is a little faster or slower than another
    of the same server."""
    token_s *= chance.lognormvariate(0, RERUN)
    ends = [0.0] * 4
    traces = []
    for _ in range(n):
        user = ends.index(min(ends))
        first = ends[user] + 0.01 * chance.lognormvariate(0, 0.3)
        last = first + 63 * token_s * chance.lognormvariate(0, 0.1)
        traces.append(Trace(ends[user], ends[user], first, last, 100, 64, 64))
        ends[user] = last
    whole = [1000 * (trace.ended_s - trace.due_s) for trace in traces]
    rate = 4 * 64 * n / sum(whole) * 1000
    figures = (Figure("e2e", percentile(whole, 50), "ms", 50, n), Figure("output_throughput", rate, "tok/s", 0, n))
    return Sample(Closed(4), figures, tuple(traces))


def shown(pairs: list[tuple[list[Sample], list[Sample]]]) -> tuple[int, int, set[Method]]:
    """How many differences are shown, of how many, and by which methods."""
    found = [one for a, b in pairs for load in compare(a, b) for one in load.differences]
    return sum(one.is_shown for one in found), len(found), {one.method for one in found}


def test_of_equal_servers_one_in_twenty_seems_to_differ() -> None:
    """Not one in five, nor none at all: the interval is as wide as it says."""
    chance = Random(1)
    count, of, methods = shown([([drawn(chance)], [drawn(chance)]) for _ in range(PAIRS)])
    assert methods == {Method.BOOTSTRAP} and of == 2 * PAIRS
    assert 0.01 <= count / of <= 0.10


def test_repeated_loads_of_equal_servers_seldom_seem_to_differ() -> None:
    """By Welch's test: three of each."""
    chance = Random(2)
    count, of, methods = shown(
        [([drawn(chance) for _ in range(3)], [drawn(chance) for _ in range(3)]) for _ in range(PAIRS)]
    )
    assert methods == {Method.WELCH}
    assert count / of <= 0.08


def test_a_server_that_is_a_fifth_slower_is_found() -> None:
    """And the smallest difference that would show is said rightly: this one is above it."""
    chance = Random(3)
    pairs = [([drawn(chance)], [drawn(chance, token_s=0.024)]) for _ in range(20)]
    count, of, _ = shown(pairs)
    assert count / of >= 0.8
    would = [one.would_show for a, b in pairs for load in compare(a, b) for one in load.differences]
    assert all(each is not None and 0.01 < each < 0.15 for each in would)


@settings(max_examples=25, deadline=None)
@given(st.integers(8, 60), st.sampled_from([1, 2, 8, 64]), st.floats(0.1, 1000), st.floats(0.1, 1000))
def test_any_two_runs_can_be_compared(n: int, users: int, a_ms: float, b_ms: float) -> None:
    """An interval holds the change it is of, and swapping the sides turns it round."""
    a, b = (sample_of(a_load(Closed(users), n, token_ms, shift=users)) for token_ms in (a_ms, b_ms))
    for load in compare([a], [b]):
        for one in load.differences:
            if one.low is not None and one.high is not None:
                assert one.low <= one.high
                assert one.would_show is not None and one.would_show >= 0
