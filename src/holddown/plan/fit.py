"""What of one engine build's options is taken: on GPUs the best of a search, on a CPU the one there is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holddown.base.evidence import Fact, Unknown, known_or
from holddown.base.finding import Finding
from holddown.base.units import GIB, MIB, size_text
from holddown.facts.kv_cache import KvDtype
from holddown.facts.machine import Gpu, MachineFacts
from holddown.facts.model import ModelFacts
from holddown.plan.estimate import Speed
from holddown.plan.layouts import layouts
from holddown.plan.memory import CPU_OTHER_BYTES, Batch, Loaded, MemoryBudget, batch_defaults
from holddown.plan.option import Option, Terms, possible_share
from holddown.plan.parallelism import SIZE_SETTINGS, Parallelism
from holddown.plan.plan import Alternative, KvCache, Rejected, Setting
from holddown.plan.rig import Hardware
from holddown.plan.room import SHORTEST_CONTEXT, Cache, cache_of, context_in, wanted_context
from holddown.plan.search import Found, LimitsOf, SpeedOf, Variations, search
from holddown.plan.wishes import Wishes, fraction_in, offloaded_bytes, wished, wished_number
from holddown.tables.gpu import FabricRow
from holddown.tables.speed import Drafting

CPU_SEQUENCES = 8
"""Whole-context sequences a CPU build gets KV cache for where RAM allows; more than it can compute at once."""
UTILIZATION = 0.9
"""Of a GPU's memory, where the build's own default is not known. Source: vLLM's default for years."""
_MOST_UTILIZATION = 0.95
"""Source: what people run large models with on GPUs that are wholly theirs; above it graph capture and sampling have
died of memory that no profile saw (vllm-project/vllm issues on 0.97 and more)."""
_MOST_SEQUENCES = 1024
"""Source: vLLM's own default on large GPUs; it refuses more than tokens in a batch."""
_SEQUENCES = 256
"""Enough for most endpoints. vLLM's own 1024 on large GPUs costs its sampler gigabytes (see plan/memory)."""
_BAND_BYTES = (int(1.1 * GIB), int(1.1 * GIB))
"""Less and more KV cache than planned. Source: the first start of a model, which compiles, against its second, in
tests/captures/vllm/0.25.1-h200/memory."""
_UNMEASURED_BAND_BYTES = (int(4.5 * GIB), GIB)
"""On a release or GPU generation of which no profile was read. Source: six published runs on RTX PRO 6000, of which
MiniMax-M2.5 TP4 had 3.8 GiB less (local-inference-lab/rtx6kpro)."""
_ONE_DEVICE = Unknown("one device alone")
_NO_CPU_SPEED = Unknown("no prediction for a CPU: its memory bandwidth is not known")


@dataclass(frozen=True, slots=True)
class Fit:
    """What the settings follow from. context: tokens per sequence, 0 when it is not known how many fit.

    share: of a GPU's memory; None where the build's own default stays. max_num_seqs: 0 where it is the engine's.
    """

    gpus: tuple[int, ...]
    parallelism: Parallelism
    budgets: tuple[MemoryBudget, ...]
    kv_cache: KvCache
    context: int
    why_context: str
    why_kv: str
    why_parallel: str
    share: float | None = None
    why_share: str = ""
    max_num_seqs: int = 0
    drafts: bool = False
    speed: Fact[Speed] = _NO_CPU_SPEED
    alternatives: tuple[Alternative, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    attention_backends: tuple[str, ...] = ()
    experts_backend: str = ""
    selector: str = ""
    settings: tuple[Setting, ...] = ()
    findings: tuple[Finding, ...] = ()
    why_seqs: str = ""
    fabric: Fact[FabricRow] = _ONE_DEVICE
    hardware: Hardware | None = None

    @property
    def budget(self) -> MemoryBudget:
        """Of the device that is fullest before it has a KV cache."""
        return max(self.budgets, key=lambda budget: budget.used_bytes - budget.kv_cache_bytes)


def fit_cpu(model: ModelFacts, machine: MachineFacts, wishes: Wishes, kv: KvDtype) -> Fit | str:
    """On the machine's RAM; the KV cache is ours to size. What fits the machine, but not beside what holds its memory
    now, gets the least that will do: preflight names the holders."""
    capacity = machine.memory.available_bytes
    room = capacity - model.weights_bytes - CPU_OTHER_BYTES
    cache = cache_of(model, kv, Parallelism())
    wanted = wanted_context(model, wishes)
    least, pool, why_kv = _cpu_pool(cache, wanted.tokens, room, wished_number(wishes, "kv-cache-memory-bytes"))
    if model.weights_bytes + CPU_OTHER_BYTES + least > machine.memory.limit_bytes:
        return (
            f"{size_text(model.weights_bytes)} of weights, {size_text(CPU_OTHER_BYTES)} for the engine and at least "
            f"{size_text(least)} of KV cache do not fit {size_text(machine.memory.limit_bytes)} of RAM"
        )
    context, why_context = context_in(cache, pool, wanted)
    tokens = cache.tokens(pool, context)
    return Fit(
        gpus=(),
        parallelism=Parallelism(),
        budgets=(MemoryBudget(capacity, model.weights_bytes, pool, CPU_OTHER_BYTES, device_bytes=capacity),),
        kv_cache=KvCache(
            kv.name, kv.element_bytes, cache.bytes_per_token, tokens, tokens, tokens, cache.sequences(pool, context)
        ),
        context=context,
        why_context=why_context,
        why_kv=why_kv,
        why_parallel="one process: the CPU build shards over NUMA nodes only when asked to",
    )


def _cpu_pool(cache: Cache, wanted_tokens: int, room: int, wished_bytes: int) -> tuple[int, int, str]:
    """The least that will do, how much is taken, and why."""
    if wished_bytes:
        return wished_bytes, wished_bytes, "you set it"
    shortest = cache.sequence_bytes(SHORTEST_CONTEXT)
    if not shortest:
        pool = max(MIB, min(room // 2, 4 * GIB))
        return MIB, pool, f"bytes per token are not known ({cache.why_unknown}); half of the free RAM, 4 GiB at most"
    one = cache.sequence_bytes(wanted_tokens or SHORTEST_CONTEXT)
    pool = min(room // 2, CPU_SEQUENCES * one)
    # whole MiB, never less than one sequence needs where that much is there
    pool = max(shortest, min(room, _up(max(pool, min(room, one)), MIB)))
    each = known_or(cache.bytes_per_token, 0)
    tokens = cache.tokens(pool, wanted_tokens or SHORTEST_CONTEXT)
    return shortest, pool, f"{size_text(pool)} for {tokens} tokens of {each} bytes"


@dataclass(frozen=True, slots=True)
class Rules:
    """What the engine build says: the dtype that it keeps the cache of a split in, its own share of a GPU's memory,
    whether it captures CUDA graphs beyond that share, which runner it has for the model, whether its memory was
    profiled on such GPUs, its limits on a split, and what guessing tokens gains.
    """

    kv_of: Callable[[Parallelism], KvDtype]
    usual_share: float
    graphs_beyond: bool
    second_runner: bool
    profiled: bool
    limits_of: LimitsOf
    drafting: Drafting | None = None
    static_share: bool = False
    """As `option.Terms` has it."""
    most_share: float = _MOST_UTILIZATION
    """Beyond the usual one, where that leaves less KV cache than is wanted."""
    batch_tokens: int = 0
    """Of one step, where the engine has a number of its own."""


def fit_gpus(
    model: ModelFacts, gpus: tuple[Gpu, ...], wishes: Wishes, rules: Rules, speed_of: SpeedOf
) -> Fit | tuple[Rejected, ...]:
    """The best way to use some of `gpus`, or what stands against each."""
    wanted = wanted_context(model, wishes)
    terms = Terms(
        model=model,
        gpus=gpus,
        kv_of=rules.kv_of,
        wanted=wanted,
        workload=wishes.workload,
        loaded=_loaded(wishes),
        graphs_beyond=rules.graphs_beyond,
        second_runner=rules.second_runner,
        profiled=rules.profiled,
        kv_pool_bytes=wished_number(wishes, "kv-cache-memory-bytes"),
        drafting=rules.drafting,
        static_share=rules.static_share,
    )
    fixed = _fixed(wishes)
    splits = tuple(layouts(len(gpus), moe=model.moe is not None, fixed=fixed))
    if not splits:
        sizes = " x ".join(f"{name.replace('_', '-')} {size}" for name, size in fixed.items())
        return (Rejected(sizes, f"GPUs free here: {len(gpus)}; no split of those sizes uses so few", "parallel.gpus"),)
    found = search(terms, splits, _variations(gpus, wishes, rules), rules.limits_of, speed_of)
    return _fit(terms, found, wishes, rules) if isinstance(found, Found) else found


def _fit(terms: Terms, found: Found, wishes: Wishes, rules: Rules) -> Fit:
    best = found.best.option
    by_user = fraction_in(wished(wishes, "gpu-memory-utilization")) is not None
    return Fit(
        gpus=best.gpus,
        parallelism=best.parallelism,
        budgets=best.budgets,
        kv_cache=_kv_cache(terms, best),
        context=best.context,
        why_context=best.why_context,
        why_kv="what the engine finds free after its profiling run",
        why_parallel=found.because,
        share=None if by_user or best.share == rules.usual_share else best.share,
        why_share=_why_share(best, rules.usual_share),
        max_num_seqs=best.batch.max_num_seqs,
        drafts=best.drafts and not terms.loaded.draft,
        why_seqs=_why_seqs(terms, best),
        speed=found.best.speed,
        alternatives=found.alternatives,
        rejected=found.rejected,
    )


def _why_share(best: Option, usual: float) -> str:
    if best.share < usual:
        return "another process holds part of this GPU; the engine takes its fraction of the whole"
    return f"the GPUs are wholly free, and {usual:.2f} would leave less KV cache than is wanted"


def _why_seqs(terms: Terms, best: Option) -> str:
    asked = terms.workload.input_tokens + terms.workload.output_tokens
    room = f"; the KV cache has room for {best.sequences} of {asked} tokens" if best.sequences else ""
    return f"more at once wait{room}, and each of them costs the sampler memory, whether it is used or not"


def _kv_cache(terms: Terms, best: Option) -> KvCache:
    """With its band: activations and graphs are what a prediction knows least."""
    budget, asked = best.fullest, terms.workload.input_tokens + terms.workload.output_tokens
    less, more = _BAND_BYTES if terms.profiled else _UNMEASURED_BAND_BYTES
    changes = (0, 0) if terms.kv_pool_bytes else (-less, more)
    low, high = (best.cache.tokens(budget.kv_cache_bytes + change, best.context or asked) for change in changes)
    dtype = best.cache.dtype
    return KvCache(
        dtype.name,
        dtype.element_bytes,
        best.cache.bytes_per_token,
        best.kv_cache_tokens,
        low,
        high,
        best.sequences,
    )


def _loaded(wishes: Wishes) -> Loaded:
    return Loaded(
        draft=bool(wished(wishes, "speculative-config")),
        vision=wished(wishes, "language-model-only") != "true",
        vision_copies=wished(wishes, "mm-encoder-tp-mode") == "data",
        offload_bytes=offloaded_bytes(wishes),
    )


def _fixed(wishes: Wishes) -> dict[str, int]:
    fixed = {field: number for name, field in SIZE_SETTINGS.items() if (number := wished_number(wishes, name))}
    experts = wished(wishes, "enable-expert-parallel")
    if experts in ("true", "false"):
        fixed["expert_parallel_size"] = 2 if experts == "true" else 1
    return fixed


def _variations(gpus: Sequence[Gpu], wishes: Wishes, rules: Rules) -> Variations:
    usual = batch_defaults(gpus[0].total_bytes, gpus[0].name)
    own = rules.batch_tokens or usual.max_num_batched_tokens
    tokens = wished_number(wishes, "max-num-batched-tokens") or own
    graphs = wished(wishes, "enforce-eager") != "true"
    users = wishes.workload.concurrency
    fewer = 1 << max(3, (2 * users - 1).bit_length()) if users else _SEQUENCES
    asked = wished_number(wishes, "max-num-seqs")
    most = min(max(users, _SEQUENCES), _MOST_SEQUENCES, tokens)
    seqs = (asked,) if asked else (most, min(most, max(users, fewer)))
    batches = tuple(Batch(tokens, each, graphs) for each in dict.fromkeys(seqs))
    share = fraction_in(wished(wishes, "gpu-memory-utilization"))
    if share is not None:
        return Variations((share,), batches)
    larger = rules.most_share
    free = rules.static_share or all(possible_share(gpu, larger) == larger for gpu in gpus)
    shares = (rules.usual_share, larger) if free and rules.usual_share < larger else None
    return Variations(shares or (rules.usual_share,), batches)


def _up(size_bytes: int, to: int) -> int:
    return -(-size_bytes // to) * to
