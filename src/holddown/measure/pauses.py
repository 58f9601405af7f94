"""The pauses between the tokens of a load: their percentiles, and how sure they are.

Streams that are under way together wait for the same step of the engine, so their pauses are no independent values:
how sure a percentile is, is told by how it differs from one slice of the time to the next.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import sqrt

from holddown.measure.run import Figure
from holddown.measure.stats import carried_percentiles, percentile_of_ordered, student_t

SLICES = 10


@dataclass(frozen=True, slots=True)
class Pauses:
    """count: of all. slices_ms: a sample of them by when they came, each slice in order of size."""

    count: int
    slices_ms: tuple[tuple[float, ...], ...]


def pauses_between(at_s: Sequence[float], pauses_ms: Sequence[float], count: int) -> Pauses:
    """pauses_ms: a sample of `count` pauses. at_s: when each ended. They are cut into ten slices of equal time."""
    slices: list[list[float]] = [[] for _ in range(SLICES)]
    begin = min(at_s, default=0.0)
    width = (max(at_s, default=0.0) - begin) / SLICES
    for at, pause in zip(at_s, pauses_ms, strict=True):
        slices[min(int((at - begin) / width), SLICES - 1) if width else 0].append(pause)
    return Pauses(count, tuple(tuple(sorted(one)) for one in slices))


def ordered(pauses: Pauses) -> list[float]:
    """All of the sample."""
    return sorted(chain.from_iterable(pauses.slices_ms))


def itl_figures(pauses: Pauses) -> list[Figure]:
    """Each percentile that the sample carries, with its 95 % interval where each slice carries it, too."""
    of_all = ordered(pauses)
    found = []
    for rank in carried_percentiles(len(of_all)):
        value = percentile_of_ordered(of_all, rank)
        half = _half(pauses, rank, value)
        low, high = (None, None) if half is None else (max(0.0, value - half), value + half)
        found.append(Figure("itl", value, "ms", rank, pauses.count, low, high))
    return found


def _half(pauses: Pauses, rank: int, value: float) -> float | None:
    """Half of the interval, by sectioning. Source: Asmussen and Glynn, Stochastic Simulation, 2007, III.5a."""
    count = len(pauses.slices_ms)
    if count < 2 or any(rank not in carried_percentiles(len(one)) for one in pauses.slices_ms):
        return None
    spread = sum((percentile_of_ordered(one, rank) - value) ** 2 for one in pauses.slices_ms)
    return student_t(count - 1) * sqrt(spread / (count - 1) / count)
