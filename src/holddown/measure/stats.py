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
    ordered = sorted(values)
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
