"""What the speed model says of a deployment at many loads: the curve that measured points are laid beside."""

from collections.abc import Sequence
from dataclasses import dataclass

from holddown.base.evidence import Fact, Known, Unknown, derived
from holddown.facts.kv_cache import KvDtype
from holddown.facts.model import ModelFacts
from holddown.facts.workload import Workload
from holddown.plan.estimate import Speed
from holddown.plan.plan import Plan
from holddown.plan.rig import named_rig
from holddown.plan.speed import closed_loop, predict
from holddown.plan.step import StepTime
from holddown.plan.work import model_work
from holddown.remember.run import BenchRun


@dataclass(frozen=True, slots=True)
class Predicted:
    """With so many requests at once. step: one decode step, term by term."""

    concurrency: int
    speed: Speed
    step: StepTime


def curve(
    plan: Plan, model: ModelFacts, input_tokens: int, output_tokens: int, loads: Sequence[int]
) -> Fact[tuple[Predicted, ...]]:
    """Of requests of these lengths, before any calibration."""
    work = model_work(model)
    if plan.hardware is None or plan.kv_cache is None:
        return Unknown(plan.speed.why if isinstance(plan.speed, Unknown) else "its plan rests on no known GPU")
    if not isinstance(work, Known):
        return work
    rig = named_rig(plan.hardware)
    kv = KvDtype(plan.kv_cache.dtype, plan.kv_cache.element_bytes)
    points = []
    for load in loads:
        workload = Workload("measured", max(1, input_tokens), max(1, output_tokens), load)
        asked = (work.value, rig, plan.parallelism, kv, workload, load, plan.kv_cache.tokens)
        points.append(Predicted(load, predict(*asked), closed_loop(*asked).step))
    return derived(tuple(points), "the speed model of the plan")


def lengths(run: BenchRun) -> tuple[int, int] | None:
    """Tokens in and out of a run's requests, in the mean; None where none succeeded."""
    traces = [each for phase in run.phases for each in phase.traces if not each.fault]
    if not traces:
        return None
    return (
        round(sum(each.input_tokens for each in traces) / len(traces)),
        round(sum(each.output_tokens for each in traces) / len(traces)),
    )
