"""How right the prediction was for a side of a comparison, and what calibration made of it."""

from collections.abc import Iterable
from dataclasses import dataclass

from holddown.measure.run import Closed
from holddown.plan.calibration import calibration_of
from holddown.plan.estimate import Estimate
from holddown.remember.calibrate import calibrations
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
    if plan.hardware is None:
        return ()
    rows = side.bench.comparisons if side.bench is not None else side.deployment.status.comparisons
    limited = {sample.arrival for sample in side.samples if sample.limited}
    made = calibrations(each for each in others if each.birth.id != birth.id)
    by = calibration_of(made, plan.model_digest, plan.hardware, plan.parallelism)
    return tuple(
        Foretold(one.concurrency, one.predicted, one.measured, by.factor(one.concurrency) if by is not None else None)
        for one in rows
        if Closed(one.concurrency) not in limited
    )
