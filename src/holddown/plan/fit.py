"""Whether it fits, how it is split, and how long a context there is room for."""

import math
from dataclasses import dataclass, replace

from holddown.base.evidence import Known, known_or
from holddown.base.units import GIB, MIB, size_text
from holddown.facts.machine import Gpu, MachineFacts
from holddown.facts.model import ModelFacts
from holddown.plan.memory import CPU_OTHER_BYTES, GPU_OTHER_BYTES, KV_DTYPE_BYTES, kv_bytes_per_token
from holddown.plan.plan import MemoryBudget, Parallelism, Rejected
from holddown.plan.wishes import Wishes

SHORTEST_CONTEXT = 1024
"""Tokens. A deployment with less answers hardly any request; it is not offered."""
_BLOCK_TOKENS = 128
"""What a KV cache is counted in. Source: vLLM's CPU backend; GPU backends have smaller blocks."""
CPU_SEQUENCES = 8
"""Whole-context sequences a CPU build gets KV cache for where RAM allows; more than it can compute at once."""
UTILIZATION = 0.9
"""Of a GPU's memory, where the build's own default is not known. Source: vLLM's default for years."""
SHARED_MARGIN_BYTES = 1 * GIB
_ONE_BYTE_KV = ("fp8", "fp8_e4m3", "fp8_e5m2")
"""Values of `kv-cache-dtype` that halve the cache. Source: vLLM's CacheDType; those with scales inside take more."""


@dataclass(frozen=True, slots=True)
class Fit:
    """context: tokens per sequence, 0 when it is not known how many fit. why_*: for the settings that follow."""

    gpus: tuple[int, ...]
    parallelism: Parallelism
    budget: MemoryBudget
    context: int
    why_context: str
    why_kv: str
    why_parallel: str
    utilization: float | None = None
    rejected: tuple[Rejected, ...] = ()


def fit_cpu(model: ModelFacts, machine: MachineFacts, wishes: Wishes) -> Fit | str:
    """On the machine's RAM; the KV cache is ours to size. What fits the machine, but not beside what holds its memory
    now, gets the least that will do: preflight names the holders."""
    capacity = machine.memory.available_bytes
    room = capacity - model.weights_bytes - CPU_OTHER_BYTES
    per_token = kv_bytes_per_token(model, dtype_bytes=_kv_dtype_bytes(wishes))
    wanted, whose = _wanted(model, wishes)
    wished_kv = wished_number(wishes, "kv-cache-memory-bytes")
    if wished_kv:
        least = kv = wished_kv
        why_kv = "you set it"
    elif isinstance(per_token, Known):
        least = per_token.value * SHORTEST_CONTEXT
        kv = min(room // 2, CPU_SEQUENCES * (wanted or SHORTEST_CONTEXT) * per_token.value)
        # whole MiB, never less than one sequence needs where that much is there
        kv = max(least, min(room, _up(max(kv, min(room, wanted * per_token.value)), MIB)))
        why_kv = f"{size_text(kv)} for {kv // per_token.value} tokens: {per_token.source.where} each"
    else:
        least = MIB
        kv = max(least, min(room // 2, 4 * GIB))
        why_kv = f"bytes per token are not known ({per_token.why}); half of the free RAM, 4 GiB at most"
    if model.weights_bytes + CPU_OTHER_BYTES + least > machine.memory.limit_bytes:
        return (
            f"{size_text(model.weights_bytes)} of weights, {size_text(CPU_OTHER_BYTES)} for the engine and at least "
            f"{size_text(least)} of KV cache do not fit {size_text(machine.memory.limit_bytes)} of RAM"
        )
    context, why_context = _context(wanted, whose, kv, per_token.value if isinstance(per_token, Known) else 0)
    return Fit(
        gpus=(),
        parallelism=Parallelism(),
        budget=MemoryBudget(capacity, model.weights_bytes, kv, CPU_OTHER_BYTES),
        context=context,
        why_context=why_context,
        why_kv=why_kv,
        why_parallel="one process: the CPU build shards over NUMA nodes only when asked to",
    )


def fit_gpus(model: ModelFacts, gpus: tuple[Gpu, ...], wishes: Wishes, usual: float = UTILIZATION) -> Fit | str:
    """The fewest GPUs that hold the weights and one sequence of full context; failing that, the most there are.

    usual: the share of a GPU's memory that the build takes unasked.
    """
    # a pipeline stage or a replica is the user's to ask for, and takes as many GPUs again
    stages = wished_number(wishes, "pipeline-parallel-size") or 1
    replicas = wished_number(wishes, "data-parallel-size") or 1
    sizes = _sizes(model, len(gpus) // (stages * replicas), wishes)
    if isinstance(sizes, str):
        return sizes
    if not sizes:
        return (
            f"{stages} pipeline stages x {replicas} replicas need {stages * replicas} GPUs; {len(gpus)} are free here"
        )
    wanted, _ = _wanted(model, wishes)
    rejected: list[Rejected] = []
    best: Fit | None = None
    for size in sizes:
        outcome = _fit_size(model, gpus, Parallelism(size, stages, replicas), wishes, usual)
        if isinstance(outcome, str):
            rejected.append(Rejected(f"tensor-parallel-size {size}", outcome))
            continue
        if best is not None:
            rejected.append(Rejected(f"tensor-parallel-size {best.parallelism.tensor_parallel_size}", best.why_context))
        best = outcome
        if outcome.context == wanted:
            break
    if best is None:
        return "; ".join(f"{each.candidate}: {each.why}" for each in rejected)
    return replace(best, rejected=tuple(rejected))


def _sizes(model: ModelFacts, count: int, wishes: Wishes) -> list[int] | str:
    heads = known_or(model.num_attention_heads, 0)
    kv_heads = known_or(model.num_key_value_heads, 0)
    named = dict(wishes.settings).get("tensor-parallel-size")
    if named is not None:
        if not named.isdecimal() or int(named) < 1:
            return f"--set tensor-parallel-size={named} is no count of GPUs"
        if int(named) > count:
            return f"--set tensor-parallel-size={named}, and there are free GPUs here for {count}"
        return [int(named)]

    def splits(size: int) -> bool:
        # Source: vLLM ModelConfig.verify_with_parallel_config; QKVParallelLinear repeats KV heads when there are fewer
        even = heads % size == 0
        return even and (not kv_heads or kv_heads % size == 0 or size % kv_heads == 0)

    return [size for size in range(1, count + 1) if splits(size)]


def _fit_size(model: ModelFacts, free: tuple[Gpu, ...], split: Parallelism, wishes: Wishes, usual: float) -> Fit | str:
    gpus = free[: split.world_size]
    smallest = min(gpus, key=lambda gpu: gpu.free_bytes)
    utilization = min(usual, (smallest.free_bytes - SHARED_MARGIN_BYTES) / smallest.total_bytes)
    wished = dict(wishes.settings).get("gpu-memory-utilization", "")
    if _is_fraction(wished):
        utilization = float(wished)
    elif utilization < usual:
        utilization = math.floor(utilization * 100) / 100  # as it is given to the engine, and never more than is free
    capacity = int(smallest.total_bytes * utilization)
    ranks = split.tensor_parallel_size * split.pipeline_parallel_size
    weights = -(-model.weights_bytes // ranks)
    # a size that the user gives is taken whatever the share says
    room = wished_number(wishes, "kv-cache-memory-bytes") or capacity - weights - GPU_OTHER_BYTES
    per_token = kv_bytes_per_token(model, split.tensor_parallel_size, _kv_dtype_bytes(wishes))
    # each stage keeps its own layers' part of a token
    each = -(-per_token.value // split.pipeline_parallel_size) if isinstance(per_token, Known) else 0
    if room < max(SHORTEST_CONTEXT * each, MIB):
        return (
            f"{size_text(weights)} of weights per GPU and {size_text(GPU_OTHER_BYTES)} beside leave no KV cache in "
            f"{size_text(capacity)} ({utilization:.0%} of GPU {smallest.index}, {size_text(smallest.free_bytes)} free)"
        )
    wanted, whose = _wanted(model, wishes)
    context, why_context = _context(wanted, whose, room, each)
    which = "the fewest GPUs that hold" if context == wanted else "the most GPUs that are free, for"
    return Fit(
        gpus=tuple(gpu.index for gpu in gpus),
        parallelism=split,
        budget=MemoryBudget(capacity, weights, room, GPU_OTHER_BYTES),
        context=context,
        why_context=why_context,
        why_kv="what the engine finds free after its profiling run",
        why_parallel=f"{which} {size_text(model.weights_bytes)} of weights and one sequence of full context",
        utilization=utilization if utilization < usual and not wished else None,
    )


def _wanted(model: ModelFacts, wishes: Wishes) -> tuple[int, str]:
    """Tokens of context, 0 where nobody says, and who says so."""
    wished, limit = wished_number(wishes, "max-model-len"), model.max_position_embeddings
    if wished:
        return wished, "yours (--set max-model-len)"
    return known_or(limit, 0), f"the checkpoint's own ({limit.source.where if isinstance(limit, Known) else limit.why})"


def _context(wanted: int, whose: str, kv_bytes: int, per_token: int) -> tuple[int, str]:
    if not wanted or not per_token:
        return wanted, f"{whose}; how many tokens fit is not known"
    fits = kv_bytes // per_token
    if fits >= wanted:
        return wanted, f"{whose}; {fits / wanted:.1f} sequences of it fit the KV cache"
    step = SHORTEST_CONTEXT if fits >= SHORTEST_CONTEXT else _BLOCK_TOKENS
    lowered = fits // step * step
    return (
        lowered,
        f"{wanted} tokens, {whose}, need {size_text(wanted * per_token)} of KV cache, {size_text(kv_bytes)} are there",
    )


def wished_number(wishes: Wishes, name: str) -> int:
    """`--set NAME=N`, 0 when it was not given or is no number (vLLM also takes `8k` and `auto`)."""
    text = dict(wishes.settings).get(name, "")
    return int(text) if text.isdecimal() else 0


def _kv_dtype_bytes(wishes: Wishes) -> int:
    return 1 if dict(wishes.settings).get("kv-cache-dtype", "") in _ONE_BYTE_KV else KV_DTYPE_BYTES


def _is_fraction(text: str) -> bool:
    whole, _, part = text.partition(".")
    return whole in ("0", "1", "") and part.isdecimal() and 0 < float(text) <= 1


def _up(size_bytes: int, to: int) -> int:
    return -(-size_bytes // to) * to
