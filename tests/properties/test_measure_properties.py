"""What holds for any sample."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from holddown.measure.stats import carried_percentiles, percentile

SAMPLES = st.lists(st.floats(min_value=0, max_value=1e6), min_size=1, max_size=200)


@given(SAMPLES, st.floats(min_value=0, max_value=100))
def test_a_percentile_lies_within_its_sample(values: list[float], rank: float) -> None:
    """It is never below the least or above the greatest value."""
    assert min(values) <= percentile(values, rank) <= max(values)


@given(SAMPLES)
def test_percentiles_rise_with_their_rank(values: list[float]) -> None:
    """p50 <= p90 <= p95 <= p99."""
    figures = [percentile(values, rank) for rank in (0, 50, 90, 95, 99, 100)]
    assert all(later >= earlier or abs(later - earlier) <= 1e-9 * earlier for earlier, later in pairwise(figures))


@given(SAMPLES)
def test_order_does_not_matter(values: list[float]) -> None:
    """Requests may end in any order."""
    assert percentile(values, 90) == percentile(sorted(values, reverse=True), 90)


@given(st.integers(min_value=1, max_value=10_000))
def test_a_larger_sample_carries_no_less(n: int) -> None:
    """And each carried percentile above the median leaves at least one value above it."""
    assert set(carried_percentiles(n)) <= set(carried_percentiles(n + 1))
    assert all(n * (100 - rank) >= 100 for rank in carried_percentiles(n) if rank > 50)
