"""How fast a deployment will be, with the band that measurements of other deployments gave.

A closed loop: so many requests are in flight, each reads its prompt once and then gets one token per step; a prompt's
chunks run in the same passes as the others' decoding. docs/explanation/speed.md has the model on one page.
"""

from dataclasses import dataclass, fields
from math import ceil

from holddown.facts.kv_cache import KvDtype
from holddown.facts.workload import Workload
from holddown.plan.estimate import Estimate, Share, Speed
from holddown.plan.parallelism import Parallelism
from holddown.plan.rig import Rig, generation
from holddown.plan.step import StepTime, decode_step, prefill_chunk
from holddown.plan.work import ModelWork
from holddown.tables.speed import Band

_LEAST_PREFILL_SHARE = 0.25
"""Of a prefill's time, what it costs at least beside a decode step that streams the same weights."""


@dataclass(frozen=True, slots=True)
class Loop:
    """In steady state. running: sequences that decode at once; the others wait for room in the KV cache.

    step: one decode step. prefill_s: of one prompt, alone. tpot_s: between a request's tokens, with the prompts of
    others in between. ttft_s: waiting for room, the prompt itself, and the step that is under way.
    """

    running: float
    step: StepTime
    prefill_s: float
    tpot_s: float
    requests_per_s: float
    ttft_s: float


def predict(
    work: ModelWork,
    rig: Rig,
    split: Parallelism,
    kv: KvDtype,
    workload: Workload,
    concurrency: int,
    kv_cache_tokens: int = 0,
) -> Speed:
    """At the workload's lengths. concurrency: requests in flight. kv_cache_tokens: of one replica, 0 for unknown."""
    alone = decode_step(work, rig, split, kv, 1, _middle(workload)).total
    loop = closed_loop(work, rig, split, kv, workload, concurrency, kv_cache_tokens)
    few, first = _band(rig, split, "few-users"), _band(rig, split, "ttft")
    these = few if concurrency <= rig.table.few_users else _band(rig, split, "many-users")
    return Speed(
        single_stream_tok_s=_speed(1 / alone, few),
        throughput_tok_s=_speed(loop.requests_per_s * workload.output_tokens, these),
        tpot_ms=_time(1e3 * loop.tpot_s, these),
        ttft_ms=_time(1e3 * loop.ttft_s, first),
        dominated_by=_shares(loop.step),
    )


def closed_loop(
    work: ModelWork,
    rig: Rig,
    split: Parallelism,
    kv: KvDtype,
    workload: Workload,
    concurrency: int,
    kv_cache_tokens: int = 0,
) -> Loop:
    """Steady state with `concurrency` requests in flight."""
    replicas, output = split.data_parallel_size, workload.output_tokens
    running = float(concurrency)
    if kv_cache_tokens:
        running = max(1.0, min(running, replicas * kv_cache_tokens / _middle(workload)))
    step = decode_step(work, rig, split, kv, running, _middle(workload))
    prefill_s = prefill(work, rig, split, workload.input_tokens)
    # a chunk runs in one pass with the decoding sequences: what a step of one token costs is paid once for both
    chunks = ceil(workload.input_tokens / rig.table.constants.prefill_chunk_tokens)
    shared = chunks * decode_step(work, rig, split, kv, 1, 1).total
    added = max(prefill_s - shared, _LEAST_PREFILL_SHARE * prefill_s) / split.pipeline_parallel_size
    per_replica = running / replicas
    requests_per_s = running / (output * step.total + per_replica * added)
    waiting = max(0.0, concurrency - running) / requests_per_s
    return Loop(
        running=running,
        step=step,
        prefill_s=prefill_s,
        tpot_s=step.total + max(0.0, per_replica - 1) / output * added,
        requests_per_s=requests_per_s,
        ttft_s=waiting + _first_token_s(rig, per_replica, prefill_s) + step.total,
    )


def _first_token_s(rig: Rig, per_replica: float, prefill_s: float) -> float:
    """A new request's prompt shares its passes with who decodes, and waits for prompts that came just before it."""
    constants = rig.table.constants
    others = constants.prompts_ahead * max(0.0, per_replica - 1)
    return constants.request_us * 1e-6 + prefill_s * (constants.prompt_stretch + others)


def prefill(work: ModelWork, rig: Rig, split: Parallelism, prompt: int) -> float:
    """Seconds to read a prompt of so many tokens in chunks, with nothing else running."""
    size = rig.table.constants.prefill_chunk_tokens
    return sum(
        prefill_chunk(work, rig, split, min(size, prompt - before), before).total for before in range(0, prompt, size)
    )


def _middle(workload: Workload) -> float:
    """The context halfway through the answer: what a step sees on average."""
    return workload.input_tokens + workload.output_tokens / 2


def _shares(step: StepTime) -> tuple[Share, ...]:
    total = step.total
    shares = [Share(field.name, getattr(step, field.name) / total) for field in fields(step)]
    return tuple(sorted((share for share in shares if share.fraction > 0), key=lambda share: -share.fraction))


def _band(rig: Rig, split: Parallelism, figure: str) -> Band:
    where = "one-gpu"
    if split.world_size > 1 and rig.fabric is not None:
        where = rig.fabric.name.partition("-")[0].rstrip("0123456789")
    if not _measured(rig):
        where = "unmeasured"
    bands = {band.where: band for band in rig.table.bands if band.figure == figure}
    return bands.get(where, bands["unmeasured"])


def _measured(rig: Rig) -> bool:
    table = rig.table
    return generation(rig.gpu) in table.measured_generations and rig.engine in table.measured_engines


def _speed(value: float, band: Band) -> Estimate:
    return Estimate(value, value * band.low, value * band.high)


def _time(value: float, band: Band) -> Estimate:
    return Estimate(value, value / band.high, value / band.low)
