"""One way to run a checkpoint on some GPUs: does it fit, how long a context and how many sequences does it hold."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from holddown.base.units import GIB, MIB, size_text
from holddown.facts.kv_cache import KvDtype
from holddown.facts.machine import Gpu
from holddown.facts.model import ModelFacts
from holddown.facts.workload import Workload
from holddown.plan.memory import (
    DRIVER_RESERVED_BYTES,
    Batch,
    Loaded,
    MemoryBudget,
    activation_bytes,
    context_bytes,
    graph_bytes,
    non_torch_bytes,
    rank_weights,
)
from holddown.plan.parallelism import Parallelism
from holddown.plan.plan import Rejected
from holddown.plan.room import SHORTEST_CONTEXT, Cache, Wanted, cache_of, context_in
from holddown.tables.speed import Drafting

_SHARED_MARGIN_BYTES = GIB
"""Left to whoever else holds memory of a GPU that is not wholly free."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What all options of one question have in common.

    gpus: that may be taken, in order. kv_of: the dtype that a split's cache is kept in. graphs_beyond: this build
    captures CUDA graphs outside its share of the memory. second_runner: as in plan/memory. profiled: the memory of
    this release was profiled on such GPUs. kv_pool_bytes: what the user fixed the KV cache to, 0 where nothing is
    fixed. drafting: what guessing with the checkpoint's draft layer gains, None where it has none, the build cannot,
    or the user decided.
    """

    model: ModelFacts
    gpus: tuple[Gpu, ...]
    kv_of: Callable[[Parallelism], KvDtype]
    wanted: Wanted
    workload: Workload
    loaded: Loaded
    graphs_beyond: bool = False
    second_runner: bool = False
    profiled: bool = False
    kv_pool_bytes: int = 0
    drafting: Drafting | None = None
    static_share: bool = False


@dataclass(frozen=True, slots=True)
class Option:
    """budgets: one per GPU, in the order of `gpus`. sequences: of the workload's length that fit at once, all replicas
    together; 0 where that is not known. kv_cache_tokens: of the fullest rank, as an engine logs it. drafts: its draft
    layer is loaded and guesses a token at each step.
    """

    parallelism: Parallelism
    gpus: tuple[int, ...]
    share: float
    batch: Batch
    cache: Cache
    budgets: tuple[MemoryBudget, ...]
    context: int
    why_context: str
    sequences: int
    kv_cache_tokens: int
    drafts: bool

    @property
    def fullest(self) -> MemoryBudget:
        """The GPU that has the least KV cache: the others follow it."""
        return min(self.budgets, key=lambda budget: budget.kv_cache_bytes)


def option(terms: Terms, split: Parallelism, share: float, batch: Batch) -> Option | Rejected:
    """The split with this share of each GPU's memory; or the limit that forbids it."""
    gpus = terms.gpus[: split.world_size]
    smallest = min(gpus, key=lambda gpu: gpu.free_bytes)
    share = share if terms.static_share else possible_share(smallest, share)
    cache = cache_of(terms.model, terms.kv_of(split), split)
    stages = tuple(
        _budget(terms, split, stage, batch, (smallest, share)) for stage in range(split.pipeline_parallel_size)
    )
    worst = min(stages, key=lambda budget: budget.kv_cache_bytes)
    pool = worst.kv_cache_bytes
    least = max(cache.sequence_bytes(SHORTEST_CONTEXT), MIB)
    if pool < least:
        return _no_room(split, worst, smallest, share, least)
    context, why = context_in(cache, pool, terms.wanted)
    asked = terms.workload.input_tokens + terms.workload.output_tokens
    if context and context < asked and not terms.wanted.by_user:
        request = f"one request of the workload {terms.workload.name} has {asked}"
        if terms.wanted.tokens < asked:
            what = f"the context is {terms.wanted.tokens} tokens, {terms.wanted.whose}; {request}"
            return Rejected(split.text, what, "workload.context", split)
        return Rejected(split.text, f"only {context} tokens of context fit; {request}", "memory.context", split)
    return Option(
        parallelism=split,
        gpus=tuple(gpu.index for gpu in gpus),
        share=share,
        batch=batch,
        cache=cache,
        budgets=tuple(_per_gpu(stages, split)),
        context=context,
        why_context=why,
        sequences=cache.sequences(pool, asked) * split.data_parallel_size,
        kv_cache_tokens=cache.tokens(pool, context or asked),
        drafts=terms.loaded.draft,
    )


def possible_share(gpu: Gpu, share: float) -> float:
    """`share`, or what is free beside somebody else's memory, as it is written on a command line: two decimals."""
    most = (gpu.free_bytes - _SHARED_MARGIN_BYTES) / gpu.total_bytes
    return share if most >= share else math.floor(most * 100) / 100


def _budget(terms: Terms, split: Parallelism, stage: int, batch: Batch, taken: tuple[Gpu, float]) -> MemoryBudget:
    """Of one rank of this stage. taken: the GPU, and the share of its memory."""
    gpu, share = taken
    weights = rank_weights(terms.model, split, stage, terms.loaded)
    weights_bytes = max(0, sum(each.size_bytes for each in weights) - terms.loaded.offload_bytes)
    activation = activation_bytes(terms.model, split, batch, terms.second_runner)
    graphs = graph_bytes(terms.model, split, batch)
    context, non_torch = context_bytes(terms.model, split), non_torch_bytes(split)
    every = weights_bytes + activation + non_torch + context + graphs
    if terms.static_share:
        # context and communicators are there before the engine looks at what is free
        capacity = int((gpu.free_bytes - DRIVER_RESERVED_BYTES - context - non_torch) * share)
        beyond = every - weights_bytes
    else:
        capacity = int((gpu.total_bytes - DRIVER_RESERVED_BYTES) * share)
        beyond = context + (graphs if terms.graphs_beyond else 0)
    # what lies beyond the share must find room on the GPU too
    pool = min(capacity - (every - beyond), gpu.free_bytes - DRIVER_RESERVED_BYTES - every)
    return MemoryBudget(
        capacity_bytes=capacity,
        weights_bytes=weights_bytes,
        kv_cache_bytes=terms.kv_pool_bytes or pool,
        runtime_bytes=context,
        activation_bytes=activation,
        graph_bytes=graphs,
        communication_bytes=non_torch,
        device_bytes=gpu.total_bytes,
        beyond_bytes=beyond,
        weights=weights,
    )


def _per_gpu(stages: tuple[MemoryBudget, ...], split: Parallelism) -> Iterator[MemoryBudget]:
    """Ranks in vLLM's order: replicas of stages of tensor parallel ranks."""
    for _ in range(split.data_parallel_size):
        for stage in stages:
            for _ in range(split.tensor_parallel_size):
                yield stage


def _no_room(split: Parallelism, budget: MemoryBudget, gpu: Gpu, share: float, least: int) -> Rejected:
    capacity = f"{size_text(budget.capacity_bytes)} ({share:.0%} of GPU {gpu.index}, {size_text(gpu.free_bytes)} free)"
    if budget.weights_bytes > budget.capacity_bytes:
        what = f"{size_text(budget.weights_bytes)} of weights per GPU alone exceed {capacity}"
        return Rejected(split.text, what, "memory.weights", split)
    what = (
        f"{size_text(budget.weights_bytes)} of weights per GPU and {size_text(budget.other_bytes)} beside leave "
        f"{size_text(max(0, budget.kv_cache_bytes))} of KV cache in {capacity}; {size_text(least)} are the least"
    )
    return Rejected(split.text, what, "memory.kv-cache", split)
