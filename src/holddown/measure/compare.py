"""Whether two load runs differ: each figure's difference with its 95 % interval, or that none is shown.

Requests that run side by side share the engine's steps, so they are resampled in blocks of such. By how much a second
run of the same would differ is in no single run: only loads that were repeated tell it, and where there are none, so
much is allowed for as servers usually have.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import exp, log, sqrt
from statistics import NormalDist, mean, variance
from typing import TYPE_CHECKING

from holddown.measure.figures import e2e_ms, sound, tpot_ms, ttft_ms
from holddown.measure.run import Arrival, Closed, Figure, Phase, Trace
from holddown.measure.stats import NORMAL_95, carried_percentiles, student_t

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Values = NDArray[np.float64]

RESAMPLES = 1000
RERUN = 0.02
"""By how much one load of one server differs from run to run, as a standard deviation: clocks, heat, neighbours, which
requests meet. Assumed where it was not measured: without it, throughputs of equal servers that differ by 3 % from run
to run seemed to differ in six of ten comparisons (simulated)."""
_FEWEST_REQUESTS, _FEWEST_EACH = 8, 4
"""Of all users together, and of each: what users ask at the same time shares its fate, and counts as little more than
one request."""
_FEWEST_REPEATS = 3
_FOUR_OF_FIVE = NormalDist().inv_cdf(0.8)
"""Standard errors beyond its interval's half, at which four of five such comparisons show a difference."""


class Method(StrEnum):
    """What an interval rests on: repeated loads (Welch's t-test on the logarithms); one load of each, widened by RERUN:
    its requests (bootstrap), or how it went from one slice of its time to the next; or nothing, where there is too
    little."""

    WELCH = "welch"
    BOOTSTRAP = "bootstrap"
    SLICES = "slices"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Sample:
    """One load of one side. figures: for what its traces do not give. limited: why its figures are the client's."""

    arrival: Arrival
    figures: tuple[Figure, ...]
    traces: tuple[Trace, ...] = ()
    limited: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """change: b / a - 1, with its interval between low and high. would_show: the smallest change that four of five such
    comparisons would have shown. All None where the method is none, but for the change."""

    metric: str
    percentile: int
    unit: str
    a: float
    b: float
    change: float
    method: Method
    low: float | None = None
    high: float | None = None
    would_show: float | None = None

    @property
    def is_shown(self) -> bool:
        """Whether b differs from a, as far as these samples can tell."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


@dataclass(frozen=True, slots=True)
class LoadDifference:
    """Of one load that both sides had. limited: why it is not compared; differences are empty then."""

    arrival: Arrival
    differences: tuple[Difference, ...]
    limited: str = ""


def sample_of(phase: Phase) -> Sample:
    return Sample(phase.arrival, phase.figures, phase.traces, phase.client.limited)


def compare(a: Iterable[Sample], b: Iterable[Sample]) -> tuple[LoadDifference, ...]:
    """A load of a is held against the same load of b, as often as each was repeated; what only one had is left out."""
    left, right = _by_arrival(a), _by_arrival(b)
    return tuple(_load(arrival, left[arrival], right[arrival]) for arrival in left if arrival in right)


def _by_arrival(samples: Iterable[Sample]) -> dict[Arrival, list[Sample]]:
    found: dict[Arrival, list[Sample]] = {}
    for one in samples:
        found.setdefault(one.arrival, []).append(one)
    return found


def _load(arrival: Arrival, a: Sequence[Sample], b: Sequence[Sample]) -> LoadDifference:
    limits = [f"{side}: {one.limited}" for side, samples in (("A", a), ("B", b)) for one in samples if one.limited]
    if limits:
        return LoadDifference(arrival, (), limits[0])
    found = []
    for metric, percentile, unit in _METRICS:
        if isinstance(arrival, Closed) or metric != "output_throughput":  # an open loop's is what was sent
            one = _difference(_Quantity(metric, percentile, unit), a, b)
            found += [one] if one is not None else []
    return LoadDifference(arrival, tuple(found))


_METRICS = (
    ("output_throughput", 0, "tok/s"),
    ("ttft", 50, "ms"),
    ("ttft", 95, "ms"),
    ("tpot", 50, "ms"),
    ("tpot", 95, "ms"),
    ("itl", 50, "ms"),
    ("itl", 95, "ms"),
    ("e2e", 50, "ms"),
)


@dataclass(frozen=True, slots=True)
class _Quantity:
    metric: str
    percentile: int
    unit: str

    def of(self, sample: Sample) -> Figure | None:
        """As its run gives it."""
        wanted = (self.metric, self.percentile)
        return next((each for each in sample.figures if (each.metric, each.percentile) == wanted), None)


def _difference(what: _Quantity, a: Sequence[Sample], b: Sequence[Sample]) -> Difference | None:
    figures = [[figure for one in side if (figure := what.of(one)) is not None] for side in (a, b)]
    lefts, rights = ([figure.value for figure in side] for side in figures)
    if not lefts or not rights or min(*lefts, *rights) <= 0:
        return None
    left, right = exp(mean(map(log, lefts))), exp(mean(map(log, rights)))
    plain = Difference(what.metric, what.percentile, what.unit, left, right, right / left - 1, Method.NONE)
    if min(len(lefts), len(rights)) >= _FEWEST_REPEATS:
        return _with(plain, Method.WELCH, *_welch([log(each) for each in lefts], [log(each) for each in rights]))
    if what.metric in _READ:
        method, error = Method.BOOTSTRAP, _bootstrap(what, a, b, log(right / left))
    else:
        method, error = Method.SLICES, _of_slices(figures, log(right / left))
    return _with(plain, method, *error) if error is not None else plain


def _with(plain: Difference, method: Method, low: float, high: float, would_show: float) -> Difference:
    """low, high, would_show: of the logarithm of b / a."""
    return replace(plain, method=method, low=exp(low) - 1, high=exp(high) - 1, would_show=exp(would_show) - 1)


# --- repeated loads ---------------------------------------------------------------------------------------------------


def _welch(a: Sequence[float], b: Sequence[float]) -> tuple[float, float, float]:
    """Source: Welch 1947; degrees of freedom after Satterthwaite."""
    parts = [variance(side) / len(side) for side in (a, b)]
    error = sqrt(sum(parts))
    difference = mean(b) - mean(a)
    if not error:
        return difference, difference, 0.0
    freedom = sum(parts) ** 2 / sum(part**2 / (len(side) - 1) for part, side in zip(parts, (a, b), strict=True))
    half = student_t(freedom) * error
    return difference - half, difference + half, half + _FOUR_OF_FIVE * error


# --- one load of each -------------------------------------------------------------------------------------------------


def _bootstrap(
    what: _Quantity, a: Sequence[Sample], b: Sequence[Sample], center: float
) -> tuple[float, float, float] | None:
    """center: the logarithm of b / a. Source: Efron and Tibshirani 1993, 13.3, percentiles; Kuensch 1989, blocks."""
    import numpy as np

    left, right = _draws(what, a, 1), _draws(what, b, 2)
    if left is None or right is None:
        return None
    reruns = np.random.default_rng(0).normal(0, RERUN * sqrt(2), len(left))
    changes = right - left + center + reruns
    low, high = np.percentile(changes, [2.5, 97.5])
    return float(low), float(high), (NORMAL_95 + _FOUR_OF_FIVE) * float(np.std(changes))


def _of_slices(sides: Sequence[Sequence[Figure]], center: float) -> tuple[float, float, float] | None:
    """Of pauses, which no request keeps: from the figures' own intervals. center: the logarithm of b / a."""
    error = 2 * RERUN**2
    for side in sides:
        for figure in side:
            if not figure.low or not figure.high:
                return None
            error += (log(figure.high / figure.low) / 2 / NORMAL_95 / len(side)) ** 2
    half = NORMAL_95 * sqrt(error)
    return center - half, center + half, half + _FOUR_OF_FIVE * sqrt(error)


def _draws(what: _Quantity, side: Sequence[Sample], seed: int) -> "Values | None":
    """By how much the logarithm of the quantity differs in each resample from that of the requests themselves; None
    where they do not carry it."""
    import numpy as np

    # of one token alone there is no pause
    good = [trace for one in side for trace in sound(one.traces) if trace.output_tokens > 1]
    traces = sorted(good, key=lambda each: each.sent_s)
    count = len(traces)
    together = side[0].arrival.concurrency if isinstance(side[0].arrival, Closed) else 1
    too_few = count < max(_FEWEST_REQUESTS, _FEWEST_EACH * together)
    if too_few or (what.percentile and what.percentile not in carried_percentiles(count)):
        return None
    columns = np.array([[read(trace) for trace in traces] for read in _READ[what.metric]])
    block = max(1, min(together, count // _FEWEST_REQUESTS))
    chosen = np.random.default_rng(seed)
    found = []
    for rows in _rows(count):
        starts = chosen.integers(0, count, (rows, -(-count // block), 1))
        picked = ((starts + np.arange(block)) % count).reshape(rows, -1)[:, :count]
        found.append(_reduced(what, columns[:, picked]))
    drawn, own = np.concatenate(found), _reduced(what, columns[:, None, :])
    if drawn.min() <= 0 or own.min() <= 0:
        return None  # of a clock that is too coarse
    changes: Values = np.log(drawn) - np.log(own)
    return changes


def _rows(count: int) -> Iterable[int]:
    """Resamples at a time: so many that some millions of values are in memory, whatever a run's size."""
    at_once = max(1, 1_000_000 // count)
    return [min(at_once, RESAMPLES - done) for done in range(0, RESAMPLES, at_once)]


def _reduced(what: _Quantity, drawn: "Values") -> "Values":
    """drawn: column, resample, request."""
    import numpy as np

    if what.percentile:
        percentiles: Values = np.percentile(drawn[0], what.percentile, axis=1)
        return percentiles
    # a closed loop keeps so many under way: its throughput goes with tokens per second that a request is under way
    rates: Values = drawn[0].sum(axis=1) / drawn[1].sum(axis=1)
    return rates


_READ: dict[str, tuple[Callable[[Trace], float | None], ...]] = {
    "ttft": (ttft_ms,),
    "tpot": (tpot_ms,),
    "e2e": (e2e_ms,),
    "output_throughput": (lambda trace: trace.output_tokens, lambda trace: trace.ended_s - trace.sent_s),
}
