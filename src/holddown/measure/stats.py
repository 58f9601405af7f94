"""Percentiles, and which of them a sample can carry."""

import math
from collections.abc import Sequence
from statistics import NormalDist

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
    return percentile_of_ordered(sorted(values), rank)


def quantiles(values: Sequence[float]) -> tuple[float, ...]:
    """The percentiles 0 to 100 in steps of one; none of no values."""
    ordered = sorted(values)
    return tuple(percentile_of_ordered(ordered, rank) for rank in range(101)) if ordered else ()


def percentile_of_ordered(ordered: Sequence[float], rank: float) -> float:
    """As `percentile`, of values that are in order of size already."""
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


NORMAL_95 = NormalDist().inv_cdf(0.975)
"""Half of a 95 % interval of the normal distribution, in standard errors."""


def student_t(freedom: float) -> float:
    """The 97.5 % point of Student's distribution, within 0.2 %; between 1, 2 and 3 degrees that of the lower. Source:
    Abramowitz and Stegun 26.7.5."""
    if freedom < 3:
        return 12.706 if freedom < 2 else 4.303
    z = NORMAL_95
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return sum(term / freedom**power for power, term in enumerate(terms))


def mean_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """95 % confidence interval of the mean of independent values, by Student's t; None for fewer than two."""
    n = len(values)
    if n < 2:
        return None
    mean = sum(values) / n
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / (n - 1) / n)
    half = student_t(n - 1) * spread
    return mean - half, mean + half


def percentile_interval(values: Sequence[float], rank: float) -> tuple[float, float] | None:
    """95 % confidence interval of a percentile of independent values, from their order alone: how many of n lie below
    it is binomial. None where the sample is too small to hold it between two of its values.

    Source: Conover, Practical Nonparametric Statistics, 3rd ed., section 3.2.
    """
    n, share = len(values), rank / 100
    spread = NORMAL_95 * math.sqrt(n * share * (1 - share))
    below, above = math.floor(n * share - spread), math.ceil(n * share + spread)
    if below < 1 or above >= n:
        return None
    ordered = sorted(values)
    return ordered[below - 1], ordered[above]
