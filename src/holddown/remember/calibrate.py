"""Predicted and measured side by side, and what that says about the next prediction."""

from collections.abc import Iterable, Sequence
from math import exp, log
from statistics import mean

from holddown.base.evidence import Known
from holddown.facts.kv_cache import KvDtype
from holddown.facts.model import ModelFacts
from holddown.facts.workload import Workload
from holddown.measure.metrics import Measurement
from holddown.plan.calibration import Calibration
from holddown.plan.parallelism import Parallelism
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
    """One for each configuration that was measured here: at each number of requests at once, the geometric mean of
    measured over predicted."""
    measured: dict[tuple[str, Hardware, Parallelism], list[tuple[int, float]]] = {}
    for each in deployments:
        plan = each.birth.plan
        found = [(one.concurrency, log(one.measured / one.predicted.value)) for one in _measured(each)]
        if plan.hardware is not None and found:
            measured.setdefault((plan.model_digest, plan.hardware, plan.parallelism), []).extend(found)
    return tuple(_calibration(*key, logs) for key, logs in measured.items())


def _measured(deployment: Deployment) -> list[Comparison]:
    return [each for each in deployment.status.comparisons if each.measured > 0]


def _calibration(digest: str, hardware: Hardware, split: Parallelism, logs: Sequence[tuple[int, float]]) -> Calibration:
    by_load: dict[int, list[float]] = {}
    for concurrency, value in sorted(logs):
        by_load.setdefault(concurrency, []).append(value)
    factors = {concurrency: exp(mean(values)) for concurrency, values in by_load.items()}
    said = ", ".join(f"{factor:.2f} times with {_at_once(each)}" for each, factor in factors.items())
    return Calibration(digest, hardware, split, factors, f"measured here, so split, against predicted: {said}")


def _at_once(concurrency: int) -> str:
    return "one request" if concurrency == 1 else f"{concurrency} requests at once"
