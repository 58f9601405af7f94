"""Percentiles, and which of them a sample can carry."""

import math
from collections.abc import Sequence

_PERCENTILES = (50, 90, 95, 99)


def percentile(values: Sequence[float], rank: float) -> float:
    """Linear interpolation between the two closest ranks. rank: 0 to 100.

    Source: numpy.percentile's default method ("linear"; Hyndman and Fan 1996, definition 7), which vLLM's and SGLang's
    benchmarks use, so that figures can be laid side by side. Raises: ValueError for no values or a rank out of range.
    """
    if not values:
        raise ValueError("a percentile needs at least one value")
    if not 0 <= rank <= 100:
        raise ValueError(f"a percentile's rank is 0 to 100, got {rank}")
    return _of_ordered(sorted(values), rank)


def quantiles(values: Sequence[float]) -> tuple[float, ...]:
    """The percentiles 0 to 100 in steps of one; none of no values."""
    ordered = sorted(values)
    return tuple(_of_ordered(ordered, rank) for rank in range(101)) if ordered else ()


def _of_ordered(ordered: Sequence[float], rank: float) -> float:
    position = (len(ordered) - 1) * rank / 100
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    low, high = ordered[below], ordered[above]
    # a rounding error must not carry it out of the interval
    return min(max(low + (position - below) * (high - low), low), high)


def carried_percentiles(n: int) -> tuple[int, ...]:
    """p50 always; p90 from 10 values, p95 from 20, p99 from 100.

    Above the percentile p there must be room for at least one value of its own, n * (1 - p/100) >= 1: a p99 of ten
    requests is only their maximum under another name.
    """
    return tuple(rank for rank in _PERCENTILES if n and (rank == 50 or n * (100 - rank) >= 100))


_Z = 1.959963984540054
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
"""97.5 % points of Student's t with 1, 2, ... degrees of freedom."""


def mean_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """95 % confidence interval of the mean of independent values, by Student's t; None for fewer than two."""
    n = len(values)
    if n < 2:
        return None
    mean = sum(values) / n
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / (n - 1) / n)
    # beyond the table: the first term of t's expansion around the normal distribution, within 0.3 % from 16 degrees on
    t = _T[n - 2] if n - 2 < len(_T) else _Z + (_Z**3 + _Z) / (4 * (n - 1))
    return mean - t * spread, mean + t * spread


def percentile_interval(values: Sequence[float], rank: float) -> tuple[float, float] | None:
    """95 % confidence interval of a percentile of independent values, from their order alone: how many of n lie below
    it is binomial. None where the sample is too small to hold it between two of its values.

    Source: Conover, Practical Nonparametric Statistics, 3rd ed., section 3.2.
    """
    n, share = len(values), rank / 100
    spread = _Z * math.sqrt(n * share * (1 - share))
    below, above = math.floor(n * share - spread), math.ceil(n * share + spread)
    if below < 1 or above >= n:
        return None
    ordered = sorted(values)
    return ordered[below - 1], ordered[above]
