"""When requests of an open loop are due."""

import math
from collections.abc import Iterator
from hashlib import shake_128

from holddown.base.errors import UsageError
from holddown.measure.run import Open, Spacing

_MOST = 1_000_000


def uniform(seed: str) -> Iterator[float]:
    """Numbers above 0 and up to 1, always the same for a seed."""
    block = 0
    while True:
        data = shake_128(f"{seed} {block}".encode()).digest(8 * 512)
        for at in range(0, len(data), 8):
            yield (int.from_bytes(data[at : at + 8]) / 2**64) or 1.0
        block += 1


def dues(arrival: Open, seconds: float, seed: int) -> tuple[float, ...]:
    """Within `seconds`, in order. A trace has dues of its own. Raises: UsageError for more than a million."""
    if arrival.rate_per_s * seconds > _MOST:
        what = f"{arrival.rate_per_s:g} requests a second for {seconds:g} s are more than {_MOST}"
        raise UsageError(what, code="usage.bench", do="a lower --rate, or a shorter --duration")
    if arrival.spacing is not Spacing.POISSON:
        burst = max(1, arrival.burst) if arrival.spacing is Spacing.BURSTS else 1
        gap = burst / arrival.rate_per_s
        # what rounding leaves above a whole number is no further one
        return tuple(number * gap for number in range(math.ceil(seconds / gap - 1e-9)) for _ in range(burst))
    found: list[float] = []
    at = 0.0
    for number in uniform(f"arrivals {seed}"):
        at -= math.log(number) / arrival.rate_per_s
        if at >= seconds:
            break
        found.append(at)
    return tuple(found)
