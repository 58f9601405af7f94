"""How right the prediction was for a side of a comparison, and what calibration made of it."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import mean

from holddown.base.evidence import Unknown
from holddown.measure.run import Closed
from holddown.plan.calibration import calibration_of
from holddown.plan.estimate import Estimate
from holddown.remember.calibrate import calibrations
from holddown.remember.curve import curve, lengths
from holddown.remember.record import Deployment
from holddown.remember.side import Side


@dataclass(frozen=True, slots=True)
class Foretold:
    """Output tokens a second. factor: by which measurements of other deployments here scale the prediction; None where
    there are none of this configuration."""

    concurrency: int
    predicted: Estimate
    measured: float
    factor: float | None


def foretold(side: Side, others: Iterable[Deployment]) -> tuple[Foretold, ...]:
    """Nothing where nothing can be predicted, or nothing was measured. others: all on record; its own measurements
    would confirm themselves, and do not count."""
    if side.deployment is None:
        return ()
    birth = side.deployment.birth
    plan = birth.plan
    found = [(one.concurrency, one.predicted, one.measured) for one in side.deployment.status.comparisons]
    if side.bench is not None:
        found = _of_run(side)
    if plan.hardware is None:
        return ()
    made = calibrations(each for each in others if each.birth.id != birth.id)
    by = calibration_of(made, plan.model_digest, plan.hardware, plan.parallelism)
    return tuple(Foretold(*one, by.factor(one[0]) if by is not None else None) for one in found)


def _of_run(side: Side) -> list[tuple[int, Estimate, float]]:
    assert side.bench is not None and side.deployment is not None
    sizes = lengths(side.bench)
    measured: dict[int, list[float]] = {}
    for phase in side.bench.phases:
        rates = [figure.value for figure in phase.figures if figure.metric == "output_throughput"]
        if isinstance(phase.arrival, Closed) and not phase.client.limited and rates:
            measured.setdefault(phase.arrival.concurrency, []).extend(rates)
    if sizes is None or not measured:
        return []
    birth = side.deployment.birth
    points = curve(birth.plan, birth.model, *sizes, list(measured))
    if isinstance(points, Unknown):
        return []
    return [(each.concurrency, each.speed.throughput_tok_s, mean(measured[each.concurrency])) for each in points.value]
