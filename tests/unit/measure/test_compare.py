"""A difference is shown where there is one, and is not where there is none."""

from dataclasses import replace

import pytest

from fakes.reports import a_load
from holddown.measure.compare import Difference, Method, Sample, compare, sample_of
from holddown.measure.run import Arrival, Closed, Figure, Open, Spacing
from holddown.measure.stats import student_t


def a_sample(arrival: Arrival = Closed(4), n: int = 40, token_ms: float = 10.0, shift: int = 0) -> Sample:
    return sample_of(a_load(arrival, n, token_ms, shift=shift))


def differences(a: list[Sample], b: list[Sample]) -> dict[tuple[str, int], Difference]:
    (load,) = compare(a, b)
    return {(one.metric, one.percentile): one for one in load.differences}


def test_a_run_does_not_differ_from_itself() -> None:
    """Every interval holds zero, and says how small a difference would have been seen."""
    found = differences([a_sample()], [a_sample()])
    assert set(found) == {
        ("output_throughput", 0),
        ("ttft", 50),
        ("ttft", 95),
        ("tpot", 50),
        ("tpot", 95),
        ("itl", 50),
        ("itl", 95),
        ("e2e", 50),
    }
    for one in found.values():
        assert one.change == 0 and not one.is_shown
        assert one.method is (Method.SLICES if one.metric == "itl" else Method.BOOTSTRAP)
        assert one.would_show is not None and 0 < one.would_show < 0.2


def test_a_slower_token_is_shown_in_what_rests_on_tokens() -> None:
    """By how much, within the interval; the first token is as it was."""
    found = differences([a_sample()], [a_sample(token_ms=12.0, shift=1)])
    for metric in ("tpot", "e2e"):
        one = found[metric, 50]
        assert one.is_shown and one.low is not None and one.high is not None
        assert one.low < one.change < one.high and 0.1 < one.change < 0.25
    rate = found["output_throughput", 0]
    assert rate.is_shown and rate.change < -0.1
    assert not found["ttft", 50].is_shown


def test_a_longer_pause_is_shown_by_its_own_interval() -> None:
    """By hand: each side known to 2 %, runs to 2 %: 20 % is beyond 1.96 * sqrt(2) * hypot(1.02 %, 2 %) = 6.2 %."""
    one = differences([a_sample()], [a_sample(token_ms=12.0)])["itl", 95]
    assert one.is_shown and one.low is not None and one.high is not None
    assert one.low == pytest.approx(1.2 / 1.0642 - 1, abs=1e-3) and one.high == pytest.approx(
        1.2 * 1.0642 - 1, abs=1e-3
    )
    assert not differences([a_sample()], [a_sample(token_ms=10.5)])["itl", 95].is_shown
    plain = replace(a_sample(), figures=tuple(replace(each, low=None, high=None) for each in a_sample().figures))
    assert differences([plain], [a_sample(token_ms=12.0)])["itl", 95].method is Method.NONE


def test_which_side_comes_first_turns_the_sign() -> None:
    """b / a - 1 against a / b - 1."""
    fast, slow = [a_sample()], [a_sample(token_ms=12.0, shift=1)]
    there, back = differences(fast, slow)["tpot", 50], differences(slow, fast)["tpot", 50]
    assert (1 + there.change) * (1 + back.change) == pytest.approx(1)
    assert there.is_shown and back.is_shown


def test_the_interval_lies_around_what_the_run_itself_reports() -> None:
    """A run's throughput leaves its fading out; the requests give the spread, not the value."""
    own = a_sample()
    other = replace(own, figures=tuple(_scaled(each, 1.5) for each in own.figures))
    one = differences([own], [other])["output_throughput", 0]
    assert one.change == pytest.approx(0.5)
    assert one.low is not None and one.high is not None and one.low < 0.5 < one.high


def _scaled(figure: Figure, by: float) -> Figure:
    return replace(figure, value=figure.value * by) if figure.metric == "output_throughput" else figure


def test_repeated_loads_are_held_against_each_other_as_wholes() -> None:
    """From three on: their spread holds what differs from run to run."""
    three = [a_sample(shift=shift) for shift in range(3)]
    slower = [a_sample(token_ms=11.0, shift=shift) for shift in (3, 4, 5)]
    found = differences(three, slower)
    assert {one.method for one in found.values()} == {Method.WELCH}
    assert found["tpot", 50].is_shown and not found["ttft", 50].is_shown
    assert differences(three[:2], slower)["tpot", 50].method is Method.BOOTSTRAP


def test_repeated_loads_that_are_equal_to_the_last_digit_are_equal() -> None:
    """No spread at all is no division by zero."""
    same = [a_sample()] * 3
    assert not any(one.is_shown for one in differences(same, same).values())
    slower = [a_sample(token_ms=12.0)] * 3
    assert differences(same, slower)["tpot", 50].is_shown


def test_only_loads_that_both_had_are_compared() -> None:
    """Eight users here and sixteen there say nothing of each other."""
    found = compare([a_sample(Closed(1)), a_sample(Closed(8))], [a_sample(Closed(8)), a_sample(Closed(16))])
    assert [one.arrival for one in found] == [Closed(8)]


def test_what_the_client_limited_is_said_and_not_compared() -> None:
    """Of either side."""
    late = replace(a_sample(), limited="event loop 41 ms late")
    for sides, said in ((([late], [a_sample()]), "A: "), (([a_sample()], [late]), "B: ")):
        (load,) = compare(*sides)
        assert load.differences == () and load.limited == f"{said}event loop 41 ms late"


def test_the_throughput_of_an_open_loop_is_what_was_sent() -> None:
    """So it is no figure of the server's; latencies are."""
    arrival = Open(Spacing.POISSON, 4.0)
    found = differences([a_sample(arrival)], [a_sample(arrival)])
    assert ("output_throughput", 0) not in found and ("ttft", 50) in found


def test_too_few_requests_show_a_change_and_claim_nothing() -> None:
    """Fifteen of four users, whose fate is shared, or none on record: other tools keep figures alone."""
    for sample in (a_sample(n=15), replace(a_sample(), traces=())):
        one = differences([sample], [a_sample(token_ms=20.0)])["tpot", 50]
        assert one.change > 0.5
        assert (one.method, one.low, one.high, one.would_show, one.is_shown) == (Method.NONE, None, None, None, False)


def test_a_percentile_that_the_sample_does_not_carry_gets_no_interval() -> None:
    """The 95th of ten requests is their maximum under another name."""
    found = differences([a_sample(Closed(1), n=10)], [a_sample(Closed(1), n=10)])
    assert found["ttft", 95].method is Method.NONE
    assert found["ttft", 50].method is Method.BOOTSTRAP


def test_requests_that_failed_do_not_count() -> None:
    """Nor do answers of one token, which have no pause between two."""
    sound = a_sample()
    more = [replace(sound.traces[0], fault="cut"), replace(sound.traces[0], first_s=None)]
    short = replace(sound.traces[0], output_tokens=1)
    with_failed = replace(sound, traces=(*sound.traces, *more, short))
    assert differences([sound], [sound]) == differences([with_failed], [with_failed])


@pytest.mark.parametrize(("freedom", "expected"), [(1, 12.706), (2, 4.303), (3, 3.182), (8, 2.306), (30, 2.042)])
def test_students_points_are_those_of_the_tables(freedom: float, expected: float) -> None:
    """97.5 %, as any table of the distribution has them."""
    assert student_t(freedom) == pytest.approx(expected, rel=2e-3)
