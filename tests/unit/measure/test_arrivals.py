"""When requests of an open loop are due."""

from itertools import pairwise

import pytest

from holddown.base.errors import UsageError
from holddown.measure.arrivals import dues
from holddown.measure.run import Open, Spacing


def gaps(times: tuple[float, ...]) -> list[float]:
    return [later - earlier for earlier, later in pairwise(times)]


@pytest.mark.parametrize(
    "arrival", [Open(Spacing.POISSON, 50.0), Open(Spacing.CONSTANT, 50.0), Open(Spacing.BURSTS, 50.0, burst=10)]
)
def test_each_has_its_rate(arrival: Open) -> None:
    """Within what chance allows of 10,000 requests, and none after the end."""
    times = dues(arrival, 200.0, seed=1)
    assert abs(len(times) - 10_000) < 400
    assert times == tuple(sorted(times)) and times[0] >= 0 and times[-1] < 200


def test_poisson_gaps_vary_as_they_are_long() -> None:
    """Standard deviation and mean of exponential gaps are the same; those of even ones differ by all."""
    between = gaps(dues(Open(Spacing.POISSON, 10.0), 500.0, seed=3))
    mean = sum(between) / len(between)
    spread = (sum((gap - mean) ** 2 for gap in between) / len(between)) ** 0.5
    assert abs(spread / mean - 1) < 0.08
    even = gaps(dues(Open(Spacing.CONSTANT, 10.0), 5.0, seed=3))
    assert max(even) - min(even) < 1e-9


def test_bursts_come_at_once() -> None:
    """Eight at the same time, then none for the time of eight."""
    times = dues(Open(Spacing.BURSTS, 4.0, burst=8), 6.0, seed=0)
    assert times == (0.0,) * 8 + (2.0,) * 8 + (4.0,) * 8


def test_a_seed_says_all() -> None:
    """The same again, and another for another."""
    arrival = Open(Spacing.POISSON, 5.0)
    assert dues(arrival, 10.0, 1) == dues(arrival, 10.0, 1) != dues(arrival, 10.0, 2)


def test_too_many_are_refused() -> None:
    """A slip of the hand must not fill the memory."""
    with pytest.raises(UsageError, match="more than"):
        dues(Open(Spacing.CONSTANT, 1e6), 1e3, 0)
