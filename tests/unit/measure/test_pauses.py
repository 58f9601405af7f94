"""Percentiles of the pauses between tokens, and what their intervals rest on."""

from random import Random

import pytest

from holddown.measure.pauses import Pauses, itl_figures, ordered, pauses_between
from holddown.measure.run import Figure


def median(pauses: Pauses) -> Figure:
    return next(one for one in itl_figures(pauses) if one.percentile == 50)


def test_pauses_are_cut_into_slices_of_equal_time() -> None:
    """By when each ended: the last one lies in the last slice, and what came together lies together."""
    pauses = pauses_between([5.0, 5.4, 6.0, 15.0, 5.5], [30.0, 10.0, 20.0, 40.0, 5.0], 9)
    assert pauses.count == 9
    assert (
        pauses.slices_ms[0] == (5.0, 10.0, 30.0) and pauses.slices_ms[1] == (20.0,) and pauses.slices_ms[9] == (40.0,)
    )
    assert sum(map(len, pauses.slices_ms)) == 5 and ordered(pauses) == [5.0, 10.0, 20.0, 30.0, 40.0]
    assert pauses_between([3.0, 3.0], [1.0, 2.0], 2).slices_ms[0] == (1.0, 2.0)
    assert ordered(pauses_between([], [], 0)) == [] and itl_figures(pauses_between([], [], 0)) == []


def test_an_interval_is_as_wide_as_the_slices_differ() -> None:
    """By hand: two slices at 10 and 30 around 20, t of one degree is 12.706, the error sqrt(200 / 1 / 2)."""
    one = median(Pauses(2, ((10.0,), (30.0,))))
    assert (one.value, one.low) == (20.0, 0.0) and one.high == pytest.approx(20 + 12.706 * 10)
    alike = median(Pauses(40, ((20.0,) * 4,) * 10))
    assert (alike.low, alike.high) == (20.0, 20.0)


def test_a_percentile_that_a_slice_does_not_carry_has_no_interval() -> None:
    """Forty values in slices of four: the 95th is given, and how sure it is is not."""
    found = {one.percentile: one for one in itl_figures(Pauses(40, ((1.0, 2.0, 3.0, 4.0),) * 10))}
    assert set(found) == {50, 90, 95}
    assert found[50].low is not None and found[90].low is None and found[95].high is None
    assert median(Pauses(3, ((1.0, 2.0, 3.0), ()))).low is None


def test_streams_that_wait_together_do_not_make_it_surer() -> None:
    """Eight streams see each step: 95 of 100 intervals still hold the median; of independent values too few would."""
    chance = Random(7)
    held = 0
    for _ in range(100):
        steps = [20 * chance.lognormvariate(0, 0.2) for _ in range(200)]
        times = [float(number) for number in range(200) for _ in range(8)]
        one = median(pauses_between(times, [step for step in steps for _ in range(8)], 1600))
        assert one.low is not None and one.high is not None
        held += one.low <= 20 <= one.high
    assert 90 <= held <= 100
