"""How long the ranks of a group take to exchange data, from the measured curve of their fabric."""

from bisect import bisect_right
from functools import cache
from math import exp, log

from holddown.base.units import KIB
from holddown.tables.gpu import AllReduceCurve, FabricRow


def all_reduce_s(fabric: FabricRow, ranks: int, payload_bytes: float) -> float:
    """One all-reduce of `payload_bytes` per rank inside a CUDA graph, in seconds.

    Between measured points log-log; beyond the last one bandwidth alone. A number of ranks without a curve has the
    next larger one's, or the largest one's.
    """
    if ranks <= 1:
        return 0.0
    sizes, times = _log_curve(_curve(fabric, ranks))
    at = log(max(payload_bytes, 1.0))
    if at <= sizes[0]:
        return exp(times[0])
    if at >= sizes[-1]:
        return exp(times[-1] + at - sizes[-1])
    right = bisect_right(sizes, at)
    part = (at - sizes[right - 1]) / (sizes[right] - sizes[right - 1])
    return exp(times[right - 1] + part * (times[right] - times[right - 1]))


def _curve(fabric: FabricRow, ranks: int) -> AllReduceCurve:
    enough = [curve for curve in fabric.curves if curve.gpus >= ranks]
    return enough[0] if enough else fabric.curves[-1]


@cache
def _log_curve(curve: AllReduceCurve) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return tuple(log(kib * KIB) for kib in curve.kib), tuple(log(us * 1e-6) for us in curve.us)
