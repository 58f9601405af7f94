"""How many bytes of cache one rank keeps: per token, and per sequence whatever its length."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

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


@dataclass(frozen=True, slots=True)
class KvDtype:
    """name: as `--kv-cache-dtype` has it. element_bytes: of one number. latent_entry_bytes: of one token and layer of
    an MLA cache that has a layout of its own, 0 for one that is latent vector + rotary key in elements."""

    name: str
    element_bytes: float
    latent_entry_bytes: int = 0


BF16 = KvDtype("bfloat16", 2)
FP8 = KvDtype("fp8", 1)
FP8_DS_MLA = KvDtype("fp8_ds_mla", 1, 656)
"""512 bytes of FP8 latent, 16 of scales, 128 of bf16 rotary key.

Source: vLLM v1/attention/backends/mla/flashmla_sparse.py.
"""


@dataclass(frozen=True, slots=True)
class CacheSplit:
    """Over how many ranks the cache is divided: heads by tensor parallel, tokens by decode context parallel, layers by
    pipeline parallel size."""

    tp: int = 1
    dcp: int = 1
    pp: int = 1


ONE_RANK = CacheSplit()


def kv_bytes_per_token(attention: Iterable[Attention], dtype: KvDtype = BF16, split: CacheSplit = ONE_RANK) -> int:
    """Of the fullest rank, for each token of a long sequence; what windows and recurrent states take is not in it.

    Key-value heads are divided while there are enough and then repeated; the latent vector of MLA serves all heads, so
    each tensor parallel rank keeps all of it.
    Source: vLLM v1/kv_cache_interface.py FullAttentionSpec, MLAAttentionSpec.
    """
    return math.ceil(sum(_per_token(kind, dtype, split) for kind in attention) / split.dcp)


def kv_bytes_per_sequence(
    attention: Iterable[Attention], tokens: int, dtype: KvDtype = BF16, split: CacheSplit = ONE_RANK
) -> int:
    """Of the fullest rank, for one sequence of `tokens`, beside what grows with every token: windows that are full
    sooner, and recurrent states."""
    return math.ceil(sum(_per_sequence(kind, tokens, dtype, split) for kind in attention))


def sequence_bytes(
    attention: Iterable[Attention], tokens: int, dtype: KvDtype = BF16, split: CacheSplit = ONE_RANK
) -> int:
    """All that one sequence of `tokens` takes on the fullest rank."""
    kinds = tuple(attention)
    return kv_bytes_per_token(kinds, dtype, split) * tokens + kv_bytes_per_sequence(kinds, tokens, dtype, split)


def _stage(layers: int, split: CacheSplit) -> int:
    return -(-layers // split.pp)


def _heads_bytes(kind: FullAttention | SlidingWindow | BlockSparse, dtype: KvDtype, split: CacheSplit) -> float:
    heads = -(-kind.num_key_value_heads // split.tp)
    return heads * (kind.head_dim + kind.v_head_dim) * dtype.element_bytes


def _index_bytes(index_head_dim: int) -> int:
    """An indexer's key: 8 bit, with a 4-byte scale per 128.

    Source: vLLM model_executor/layers/sparse_attn_indexer.py.
    """
    return index_head_dim + -(-index_head_dim // 128) * 4


def _per_token(kind: Attention, dtype: KvDtype, split: CacheSplit) -> float:
    layers = _stage(kind.layers, split)
    match kind:
        case FullAttention():
            return layers * _heads_bytes(kind, dtype, split)
        case BlockSparse():
            return layers * (_heads_bytes(kind, dtype, split) + kind.index_head_dim * dtype.element_bytes)
        case Mla():
            return layers * _latent_bytes(kind, dtype)
        case SparseMla():
            own_index = _stage(kind.index_layers, split) * _index_bytes(kind.index_head_dim)
            return layers * _latent_bytes(kind, dtype) + own_index
        case CompressedAttention():
            return _compressed_bytes(kind, dtype) / split.pp
        case SlidingWindow() | LinearAttention():
            return 0
        case _:
            assert_never(kind)


def _latent_bytes(kind: Mla | SparseMla, dtype: KvDtype) -> float:
    return dtype.latent_entry_bytes or (kind.kv_lora_rank + kind.qk_rope_head_dim) * dtype.element_bytes


def _compressed_bytes(kind: CompressedAttention, dtype: KvDtype) -> float:
    entry = kind.head_dim * dtype.element_bytes
    index = _index_bytes(kind.index_head_dim)
    # Source: DeepSeek V4's config: layers of ratio 4 choose among their entries with an indexer, others read all
    return sum((entry + (index if ratio == 4 else 0)) / ratio for ratio in kind.compress_ratios if ratio)


def _per_sequence(kind: Attention, tokens: int, dtype: KvDtype, split: CacheSplit) -> float:
    layers = _stage(kind.layers, split)
    match kind:
        case SlidingWindow():
            return layers * _heads_bytes(kind, dtype, split) * min(tokens, kind.window)
        case CompressedAttention():
            return layers * kind.head_dim * dtype.element_bytes * min(tokens, kind.window)
        case LinearAttention():
            return layers * kind.state_bytes / min(split.tp, kind.num_heads)
        case FullAttention() | BlockSparse() | Mla() | SparseMla():
            return 0
        case _:
            assert_never(kind)
