"""What a model's attention layers ask of an engine's attention backends."""

from dataclasses import dataclass
from typing import assert_never

from holddown.base.evidence import Fact, Known, Unknown, derived, known_or
from holddown.facts.attention import (
    Attention,
    BlockSparse,
    CompressedAttention,
    FullAttention,
    LinearAttention,
    Mla,
    SlidingWindow,
    SparseMla,
)
from holddown.facts.attention_backends import AttentionQuery
from holddown.facts.model import ModelFacts
from holddown.plan.parallelism import Parallelism
from holddown.tables.load import families_of


@dataclass(frozen=True, slots=True)
class Layers:
    """One kind of a model's attention layers, asked about. kind: for a person, `MLA` or `sliding window of 128`."""

    kind: str
    query: AttentionQuery


def attention_layers(
    model: ModelFacts, compute_capability: str, kv_cache_dtype: str, split: Parallelism
) -> Fact[tuple[Layers, ...]]:
    """A query for each kind of layer that the engine chooses a backend for; recurrent layers need none.

    Unknown where the layers are, or where the model's own code chooses (DeepSeek V4, MiniMax-M3).
    Source: vLLM 0.33.0 models/deepseek_v4/sparse_mla.py, models/minimax_m3/common/sparse_attention.py.
    """
    if isinstance(model.attention, Unknown):
        return model.attention
    found = []
    for each in model.attention.value:
        layers = _layers(each, model, compute_capability, kv_cache_dtype, split)
        if isinstance(layers, Unknown):
            return layers
        if layers is not None:
            found.append(layers)
    return derived(tuple(found), "attention layers of config.json")


def _layers(
    kind: Attention, model: ModelFacts, compute_capability: str, kv_cache_dtype: str, split: Parallelism
) -> Layers | Unknown | None:
    is_mla = is_sparse = sliding = False
    fields: tuple[tuple[str, int], ...] = ()
    match kind:
        case FullAttention(head_dim=head_size):
            name = "attention"
        case SlidingWindow(head_dim=head_size, window=window):
            name, sliding = f"sliding window of {window}", True
        case Mla():
            name, is_mla, head_size = "MLA", True, kind.kv_lora_rank + kind.qk_rope_head_dim
            fields = _latent_fields(kind)
        case SparseMla():
            name, is_mla, is_sparse, head_size = "sparse MLA", True, True, kind.kv_lora_rank + kind.qk_rope_head_dim
            fields = (*_latent_fields(kind), ("index_topk", kind.index_topk))
        case BlockSparse() | CompressedAttention():
            return Unknown("the engine's code for this architecture chooses its attention backend itself")
        case LinearAttention():
            return None
        case _:
            assert_never(kind)
    tp, dcp = split.tensor_parallel_size, split.decode_context_parallel_size
    query = AttentionQuery(
        compute_capability=compute_capability,
        kv_cache_dtype=kv_cache_dtype,
        is_mla=is_mla,
        is_sparse=is_sparse,
        head_size=head_size,
        heads_per_gpu=max(1, kind.num_attention_heads // tp),
        sinks=has_sinks(model),
        sliding_window=sliding,
        decode_context_parallel=dcp > 1,
        fields=(*fields, ("decode_context_parallel_size", dcp), ("tensor_parallel_size", tp)),
    )
    return Layers(name, query)


def _latent_fields(kind: Mla | SparseMla) -> tuple[tuple[str, int], ...]:
    return (
        ("kv_lora_rank", kind.kv_lora_rank),
        ("qk_nope_head_dim", kind.qk_nope_head_dim),
        ("qk_rope_head_dim", kind.qk_rope_head_dim),
        ("v_head_dim", kind.v_head_dim),
    )


def has_sinks(model: ModelFacts) -> bool:
    """Whether its attention has sinks: the architecture implies it, config.json does not say."""
    architectures: tuple[str, ...] = known_or(model.architectures, ())
    rows = families_of(architectures, known_or(model.model_type, ""))
    return any(row.attention_sinks for row in rows)


def is_latent(model: ModelFacts) -> bool:
    """Whether any of its layers is MLA."""
    return isinstance(model.attention, Known) and any(
        isinstance(each, Mla | SparseMla) for each in model.attention.value
    )
