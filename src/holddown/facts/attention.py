"""What each kind of attention layer keeps per token and per sequence. Field names are Hugging Face config keys."""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class FullAttention:
    """MHA, GQA or MQA: a key and a value of every token. layers: how many such layers; so in every kind."""

    layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    v_head_dim: int


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """As FullAttention, but only the last `window` tokens are kept (Llama 4's chunks count as windows)."""

    layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    v_head_dim: int
    window: int


@dataclass(frozen=True, slots=True)
class BlockSparse:
    """As FullAttention, with an index key per token by which `topk_tokens` of them are chosen (MiniMax-M3)."""

    layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    v_head_dim: int
    index_heads: int
    index_head_dim: int
    topk_tokens: int


@dataclass(frozen=True, slots=True)
class Mla:
    """Multi-head latent attention: one latent vector and one rotary key of every token, for all heads.

    Source: DeepSeek-V2, section 2.1.
    """

    layers: int
    num_attention_heads: int
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int


@dataclass(frozen=True, slots=True)
class SparseMla:
    """MLA with DeepSeek's sparse attention: an indexer picks `index_topk` tokens. index_layers: the layers with an
    indexer of their own (GLM-5.2 shares one among four)."""

    layers: int
    num_attention_heads: int
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int
    index_layers: int
    index_n_heads: int
    index_head_dim: int
    index_topk: int


@dataclass(frozen=True, slots=True)
class CompressedAttention:
    """DeepSeek V4: per layer, one entry of head_dim for each `compress_ratios[layer]` tokens (0: none), beside a
    window of plain entries; ratio 4 layers have an indexer."""

    layers: int
    num_attention_heads: int
    head_dim: int
    compress_ratios: tuple[int, ...]
    window: int
    index_n_heads: int
    index_head_dim: int
    index_topk: int


@dataclass(frozen=True, slots=True)
class LinearAttention:
    """A recurrent state of fixed size in place of a cache: gated delta net, Kimi delta attention, Mamba-2.

    name: which of them. state_bytes: of one layer and sequence, all heads, as engines keep it.
    """

    layers: int
    name: str
    num_heads: int
    state_bytes: int


Attention: TypeAlias = (
    FullAttention | SlidingWindow | BlockSparse | Mla | SparseMla | CompressedAttention | LinearAttention
)
