"""What a checkpoint is."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holddown.base.evidence import Fact, Known, Unknown, derived, known_or
from holddown.base.finding import Finding
from holddown.facts.kv_cache import BF16, FP8, KvDtype, kv_bytes_per_sequence, kv_bytes_per_token
from holddown.facts.model import Inspection, ModelFacts
from holddown.facts.weight_groups import Component, WeightGroup

if TYPE_CHECKING:
    from holddown.ports import Checkpoints


@dataclass(frozen=True, slots=True)
class Share:
    """Part of the weights. formats: how it is stored, most bytes first."""

    name: str
    size_bytes: int
    formats: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cache:
    """Of one copy that is not split. kv_dtype: `bfloat16` or `fp8`. per_sequence: what a sequence takes beside what
    grows with each token: windows when they are full, and recurrent states."""

    kv_dtype: str
    bytes_per_token: Fact[int]
    bytes_per_sequence: Fact[int]


@dataclass(frozen=True, slots=True)
class Inspected:
    """The facts with what follows from them. cache: in the dtype that the checkpoint asks for, 16 bit where it asks for
    none; caches: in each that we know."""

    model: ModelFacts
    by_component: tuple[Share, ...]
    by_dtype: tuple[Share, ...]
    by_format: tuple[Share, ...]
    cache: Cache
    caches: tuple[Cache, ...]
    faults: tuple[Finding, ...]


def inspect(checkpoints: "Checkpoints", path: str) -> Inspected:
    """Facts and faults, from headers alone. Raises: CheckpointError when there is no checkpoint to speak of."""
    return summed(checkpoints.inspect(path))


def summed(inspection: Inspection) -> Inspected:
    """The same with the sums that people and scripts ask for."""
    model = inspection.model
    caches = _cache(model, BF16), _cache(model, FP8)
    return Inspected(
        model,
        _components(model.weights),
        tuple(Share(part.dtype, part.size_bytes) for part in model.by_dtype),
        _formats(model.weights),
        _asked_for(model, *caches),
        caches,
        inspection.findings,
    )


def _components(groups: tuple[WeightGroup, ...]) -> tuple[Share, ...]:
    """Most bytes first."""
    shares = []
    for component in Component:
        stored = _formats(group for group in groups if group.component is component)
        if stored:
            size = sum(part.size_bytes for part in stored)
            shares.append(Share(component, size, tuple(part.name for part in stored)))
    return tuple(sorted(shares, key=lambda share: -share.size_bytes))


def _formats(groups: Iterable[WeightGroup]) -> tuple[Share, ...]:
    sums: dict[str, int] = {}
    for group in groups:
        sums[group.format] = sums.get(group.format, 0) + group.size_bytes
    return tuple(Share(name, size) for name, size in sorted(sums.items(), key=lambda item: (-item[1], item[0])))


def _asked_for(model: ModelFacts, plain: Cache, fp8: Cache) -> Cache:
    asked = known_or(model.kv_cache_quantization, "none")
    if asked == "none":
        return plain
    if asked.startswith("fp8"):
        return fp8
    why = Unknown(f"holddown has no rule for what a KV cache in {asked[:40]} takes")
    return Cache(asked, why, why)


def _cache(model: ModelFacts, dtype: KvDtype) -> Cache:
    if isinstance(model.attention, Unknown):
        return Cache(dtype.name, model.attention, model.attention)
    kinds = model.attention.value
    context = model.max_position_embeddings
    # no longer sequence than the context can be asked for; a window is never longer than it
    tokens = context.value if isinstance(context, Known) else 2**31
    each = derived(kv_bytes_per_token(kinds, dtype), f"attention by layer, {dtype.name}")
    fixed = derived(kv_bytes_per_sequence(kinds, tokens, dtype), f"windows and recurrent states, {dtype.name}")
    return Cache(dtype.name, each, fixed)
