"""What load comes next, and when enough is known: the knee of the curve of throughput over load."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

_MOST_USERS = 1024
_MOST_RATE = 4096.0
_LEAST_GAIN = 1.05
_MOST_MET = 0.9
_MOST_FAILED = 0.1
_REFINEMENTS = 2


@dataclass(frozen=True, slots=True)
class Step:
    """One load that was tried. load: users, or requests per second. throughput: tokens, or requests, per second.
    slo_met: share of its requests within the limits; 1 where there are none. behind: it did not keep up with a rate."""

    load: float
    throughput: float
    failed_share: float = 0.0
    slo_met: float = 1.0
    limited: bool = False
    behind: bool = False


@dataclass(frozen=True, slots=True)
class Enough:
    why: str


def next_users(steps: Sequence[Step]) -> int | Enough:
    """1, 2, 4, ... until more users bring no more tokens: twice in a row less than 5 % for twice the users."""
    if not steps:
        return 1
    if spoilt := _spoilt(steps[-1]):
        return spoilt
    best = [max(step.throughput for step in steps[: count + 1]) for count in range(len(steps))]
    if len(steps) >= 3 and best[-1] < _LEAST_GAIN * best[-3]:
        return Enough(f"more than {steps[-3].load:g} users bring no more tokens")
    users = int(steps[-1].load) * 2
    return users if users <= _MOST_USERS else Enough(f"{_MOST_USERS} users are the most that are tried")


def next_rate(steps: Sequence[Step], first: float) -> float | Enough:
    """From `first` on doubled until it falls behind, then halved in between: the last rate that it keeps up with, and
    the first that it does not, come within a quarter of each other."""
    if not steps:
        return first
    if steps[-1].limited or steps[-1].failed_share > _MOST_FAILED:
        return _spoilt(steps[-1]) or Enough("")
    kept = [step.load for step in steps if _keeps_up(step)]
    lost = [step.load for step in steps if not _keeps_up(step)]
    if not lost and max(kept) * 2 > _MOST_RATE:
        return Enough(f"it keeps up with {max(kept):g} requests a second, and no more are tried")
    if not lost:
        return max(kept) * 2
    if not kept:
        halved = min(lost) / 2
        return halved if len(lost) < 6 else Enough("it keeps up with no rate that was tried")
    low, high = max(kept), min(lost)
    tried = sum(1 for step in steps if low / 2 <= step.load <= high) - 2
    if tried >= _REFINEMENTS or high / low < 1.25:
        return Enough(f"it keeps up with {low:g} requests a second, and not with {high:g}")
    return round(math.sqrt(low * high), 3)


def _keeps_up(step: Step) -> bool:
    return not step.behind and step.slo_met >= _MOST_MET


def _spoilt(step: Step) -> Enough | None:
    if step.limited:
        return Enough("the client is the limit")
    if step.failed_share > _MOST_FAILED:
        return Enough(f"{step.failed_share:.0%} of the requests failed")
    if step.slo_met < 0.5:
        return Enough(f"only {step.slo_met:.0%} of the requests were within the limits")
    return None
