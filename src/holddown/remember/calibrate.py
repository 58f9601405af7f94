"""Predicted and measured side by side, and what that says about the next prediction."""

from collections.abc import Iterable
from math import exp, log
from statistics import mean

from holddown.base.evidence import Known
from holddown.facts.kv_cache import KvDtype
from holddown.facts.model import ModelFacts
from holddown.facts.workload import Workload
from holddown.measure.metrics import Measurement
from holddown.plan.calibration import Calibration
from holddown.plan.plan import Plan
from holddown.plan.rig import Hardware, named_rig
from holddown.plan.speed import predict
from holddown.plan.work import model_work
from holddown.remember.record import Comparison, Deployment


def comparisons(plan: Plan, model: ModelFacts, measurements: Iterable[Measurement]) -> tuple[Comparison, ...]:
    """What would have been predicted for the load that was measured, and what was measured.

    Nothing where no prediction can be made: a CPU, a GPU that is in no table, attention that is not understood.
    """
    work = model_work(model)
    if plan.hardware is None or plan.kv_cache is None or not isinstance(work, Known):
        return ()
    made = named_rig(plan.hardware)
    kv = KvDtype(plan.kv_cache.dtype, plan.kv_cache.element_bytes)
    compared = []
    for one in measurements:
        if one.metric != "output_throughput":
            continue
        load = Workload("measured", max(1, one.input_tokens), max(1, one.output_tokens), one.concurrency)
        speed = predict(work.value, made, plan.parallelism, kv, load, one.concurrency, plan.kv_cache.tokens)
        compared.append(
            Comparison(one.concurrency, one.input_tokens, one.output_tokens, speed.throughput_tok_s, one.value)
        )
    return tuple(compared)


def calibrations(deployments: Iterable[Deployment]) -> tuple[Calibration, ...]:
    """One for each configuration that was measured here: the geometric mean of measured over predicted."""
    ratios: dict[tuple[str, Hardware, object], list[float]] = {}
    plans: dict[tuple[str, Hardware, object], Plan] = {}
    for each in deployments:
        plan = each.birth.plan
        if plan.hardware is None:
            continue
        key = (plan.model_digest, plan.hardware, plan.parallelism)
        found = [log(one.measured / one.predicted.value) for one in each.status.comparisons if one.measured > 0]
        if found:
            ratios.setdefault(key, []).append(mean(found))
            plans[key] = plan
    return tuple(
        Calibration(digest, hardware, plans[key].parallelism, exp(mean(logs)), _because(len(logs), exp(mean(logs))))
        for key, logs in ratios.items()
        for digest, hardware, _ in (key,)
    )


def _because(count: int, factor: float) -> str:
    runs = "one deployment" if count == 1 else f"{count} deployments"
    return f"scaled by {factor:.2f}: {runs} of this checkpoint were measured here, so split"
