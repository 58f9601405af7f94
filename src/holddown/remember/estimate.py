"""How long a start will take, from what earlier ones on this machine took."""

from collections.abc import Iterable
from statistics import median

from holddown.base.evidence import Fact, Known, Source, SourceKind, Unknown
from holddown.launch.phases import Phase
from holddown.plan.plan import Plan
from holddown.remember.record import Deployment

_TELLING_BYTES = 64 * 1024**2
"""A load of less says how long opening files takes, and nothing about the disk."""


def start_seconds(past: Iterable[Deployment], plan: Plan) -> Fact[float]:
    """Seconds from the spawn to the server, as the median of earlier starts of this engine with this checkpoint.

    Failing these, of this engine with any checkpoint: its own phases as they were, the weights by their bytes.
    """
    starts = [(each.birth.plan, times) for each in past if (times := _times(each)) and _server(times) is not None]
    same_engine = [(other, times) for other, times in starts if other.engine == plan.engine]
    same = [times[Phase.SERVER] for other, times in same_engine if other.model_digest == plan.model_digest]
    if same:
        return Known(median(same), Source(SourceKind.MEASURED, f"{_starts(len(same))} of this checkpoint"))
    if not same_engine:
        return Unknown(f"{plan.engine} was not started here before")
    scaled = [_scaled(other, times, plan) for other, times in same_engine]
    return Known(median(scaled), Source(SourceKind.DERIVED, f"{_starts(len(scaled))} of {plan.engine}"))


def usual_seconds(past: Iterable[Deployment], plan: Plan, phase: Phase) -> Fact[float]:
    """The longest that this phase took of the starts of this checkpoint by this engine that came to their end."""
    took = [
        ended - times[phase]
        for each in past
        if (each.birth.plan.engine, each.birth.plan.model_digest) == (plan.engine, plan.model_digest)
        and (times := _times(each)).keys() >= {phase, Phase.SERVER}
        and (ended := min((at_s for at_s in times.values() if at_s > times[phase]), default=None)) is not None
    ]
    if not took:
        return Unknown(f"no earlier start of this checkpoint by {plan.engine} tells")
    return Known(max(took), Source(SourceKind.MEASURED, f"the longest of {_starts(len(took))}"))


def _starts(count: int) -> str:
    return "one earlier start" if count == 1 else f"{count} earlier starts"


def _times(deployment: Deployment) -> dict[Phase, float]:
    return {entered.phase: entered.at_s for entered in deployment.status.phases}


def _server(times: dict[Phase, float]) -> float | None:
    return times.get(Phase.SERVER)


def _scaled(other: Plan, times: dict[Phase, float], plan: Plan) -> float:
    total = times[Phase.SERVER]
    begun = times.get(Phase.WEIGHTS)
    if begun is None or other.load_bytes < _TELLING_BYTES:
        return total
    ended = min(at_s for at_s in times.values() if at_s > begun) if any(at > begun for at in times.values()) else begun
    return total + (ended - begun) * (plan.load_bytes / other.load_bytes - 1)
