"""The tensors of one attention layer, or of what stands in its place. Names are relative to the layer."""

from collections.abc import Iterator
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
from holddown.facts.families.family import Family, QkNorm
from holddown.facts.families.module import Module, bare, linear, norm, under
from holddown.facts.hf_keys import Keys
from holddown.facts.recurrent import GATED_DELTA_NET, KIMI_DELTA

Plain = FullAttention | SlidingWindow | BlockSparse


def attention_modules(keys: Keys, family: Family, attention: Attention) -> Iterator[Module]:
    """attention: of one layer. Raises: MissingKeyError."""
    place = f"{family.attention}."
    match attention:
        case FullAttention() | SlidingWindow() | BlockSparse():
            return under(place, _plain(keys, family, attention))
        case Mla() | SparseMla():
            return under(place, _latent(keys, attention))
        case CompressedAttention():
            return under(place, _compressed(keys, attention))
        case LinearAttention():
            return _linear(keys, family, attention)
        case _ as never:
            assert_never(never)


def _plain(keys: Keys, family: Family, attention: Plain) -> Iterator[Module]:
    hidden, heads, kv_heads = keys.size("hidden_size"), attention.num_attention_heads, attention.num_key_value_heads
    queries, key_width = heads * attention.head_dim, kv_heads * attention.head_dim
    biased = family.qkv_bias or keys.flag("attention_bias")
    gate = 2 if family.output_gate or keys.flag("attn_output_gate") else 1
    values = kv_heads * attention.v_head_dim
    if family.joined_qkv:
        yield linear("qkv_proj", gate * queries + key_width + values, hidden, biased)
    else:
        yield linear("q_proj", gate * queries, hidden, biased)
        yield linear("k_proj", key_width, hidden, biased)
        # Gemma 4's full layers take the key for the value too
        if not (keys.flag("attention_k_eq_v") and isinstance(attention, FullAttention)):
            yield linear("v_proj", values, hidden, biased)
    yield linear("o_proj", hidden, heads * attention.v_head_dim, keys.flag("attention_bias") and family.o_bias)
    yield from _query_norms(keys, family, attention)
    if family.sinks and _has_sinks(keys, attention):
        yield bare(family.sinks, heads)
    if keys.flag("use_head_wise_attn_gate", family.head_gate):
        yield linear("g_proj", heads, hidden)
    if isinstance(attention, BlockSparse):
        yield linear("index_q_proj", attention.index_heads * attention.index_head_dim, hidden)
        yield linear("index_k_proj", attention.index_head_dim, hidden)
        yield norm("index_q_norm", attention.index_head_dim)
        yield norm("index_k_norm", attention.index_head_dim)


def _query_norms(keys: Keys, family: Family, attention: Plain) -> Iterator[Module]:
    """`use_qk_norm: false` switches them off (GLM-4.5-Air); Llama 4's of that name have no weights."""
    if family.qk_norm is QkNorm.NONE or not keys.flag("use_qk_norm", default=True):
        return
    whole = family.qk_norm is QkNorm.WHOLE and keys.text("qk_norm_type") != "per_head"
    yield norm("q_norm", attention.head_dim * (attention.num_attention_heads if whole else 1))
    yield norm("k_norm", attention.head_dim * (attention.num_key_value_heads if whole else 1))


def _has_sinks(keys: Keys, attention: Plain) -> bool:
    """gpt-oss has them in every layer, MiMo-V2 where its two keys say so."""
    name = "add_swa_attention_sink_bias" if isinstance(attention, SlidingWindow) else "add_full_attention_sink_bias"
    return keys.flag(name, default=True)


def _latent(keys: Keys, attention: Mla | SparseMla) -> Iterator[Module]:
    hidden, heads, rank = keys.size("hidden_size"), attention.num_attention_heads, attention.kv_lora_rank
    nope, rope, value = attention.qk_nope_head_dim, attention.qk_rope_head_dim, attention.v_head_dim
    biased, q_rank = keys.flag("attention_bias"), keys.size_or(0, "q_lora_rank")
    if q_rank:
        yield linear("q_a_proj", q_rank, hidden, biased)
        yield norm("q_a_layernorm", q_rank)
        yield linear("q_b_proj", heads * (nope + rope), q_rank)
    else:
        yield linear("q_proj", heads * (nope + rope), hidden)
    yield linear("kv_a_proj_with_mqa", rank + rope, hidden, biased)
    yield norm("kv_a_layernorm", rank)
    yield linear("kv_b_proj", heads * (nope + value), rank)
    yield linear("o_proj", hidden, heads * value, biased)
    if keys.flag("mla_use_output_gate"):
        yield linear("g_proj", heads * value, hidden)
    if isinstance(attention, SparseMla) and attention.index_layers:
        width = attention.index_head_dim
        yield linear("indexer.wq_b", attention.index_n_heads * width, q_rank or hidden)
        yield linear("indexer.wk", width, hidden)
        yield norm("indexer.k_norm", width, bias=True)
        # stays in 16 bit in every quantised checkpoint. Source: vLLM's Indexer gives it no quant_config
        yield Module("indexer.weights_proj", (attention.index_n_heads, hidden))


def _compressed(keys: Keys, attention: CompressedAttention) -> Iterator[Module]:
    """DeepSeek V4, in its own names. A ratio of 4 compresses overlapping windows, so its projections are twice as wide.

    Source: transformers' DeepseekV4Attention, and vLLM's deepseek_v4 for what has no quant_config.
    """
    hidden, heads, dim = keys.size("hidden_size"), attention.num_attention_heads, attention.head_dim
    q_rank, o_rank, groups = keys.size("q_lora_rank"), keys.size("o_lora_rank"), keys.size("o_groups")
    yield linear("wq_a", q_rank, hidden)
    yield norm("q_norm", q_rank)
    yield linear("wq_b", heads * dim, q_rank)
    yield linear("wkv", dim, hidden)
    yield norm("kv_norm", dim)
    yield linear("wo_a", groups * o_rank, heads * dim // groups)
    yield linear("wo_b", hidden, groups * o_rank)
    yield bare("attn_sink", heads, dtype="F32")
    (ratio,) = attention.compress_ratios
    if ratio:
        yield from under("compressor.", _compressor(hidden, dim, ratio))
    if ratio == _INDEXED_RATIO:
        width = attention.index_head_dim
        yield linear("indexer.wq_b", attention.index_n_heads * width, q_rank)
        yield Module("indexer.weights_proj", (attention.index_n_heads, hidden))
        yield from under("indexer.compressor.", _compressor(hidden, width, ratio))


_INDEXED_RATIO = 4


def _compressor(hidden: int, dim: int, ratio: int) -> Iterator[Module]:
    width = 2 * dim if ratio == _INDEXED_RATIO else dim
    yield Module("wkv", (width, hidden))
    yield Module("wgate", (width, hidden))
    yield norm("norm", dim)
    yield bare("ape", ratio, width, dtype="F32")


def _linear(keys: Keys, family: Family, attention: LinearAttention) -> Iterator[Module]:
    if attention.name == GATED_DELTA_NET:
        return under("linear_attn.", _delta_net(keys))
    if attention.name == KIMI_DELTA:
        return under(f"{family.attention}.", _kimi_delta(keys))
    return under(f"{family.attention}.", _mamba2(keys))


def _delta_net(keys: Keys) -> Iterator[Module]:
    """Qwen3-Next keeps four projections in two tensors, Qwen3.5 each in its own."""
    hidden, heads = keys.size("hidden_size"), keys.size("linear_num_value_heads")
    key_width = keys.size("linear_num_key_heads") * keys.size("linear_key_head_dim")
    width = heads * keys.size("linear_value_head_dim")
    if keys.text("model_type") == "qwen3_next":
        yield linear("in_proj_qkvz", 2 * key_width + 2 * width, hidden)
        yield linear("in_proj_ba", 2 * heads, hidden)
    else:
        yield linear("in_proj_qkv", 2 * key_width + width, hidden)
        yield linear("in_proj_z", width, hidden)
        yield linear("in_proj_b", heads, hidden)
        yield linear("in_proj_a", heads, hidden)
    yield Module("conv1d", (2 * key_width + width, 1, keys.size("linear_conv_kernel_dim")))
    yield bare("A_log", heads)
    yield bare("dt_bias", heads)
    yield norm("norm", keys.size("linear_value_head_dim"))
    yield linear("out_proj", hidden, width)


def _kimi_delta(keys: Keys) -> Iterator[Module]:
    own = keys.part("linear_attn_config") or Keys({})
    hidden, heads, dim = keys.size("hidden_size"), own.size("num_heads"), own.size("head_dim")
    width = heads * dim
    for name in ("q", "k", "v"):
        yield linear(f"{name}_proj", width, hidden)
        yield Module(f"{name}_conv1d", (width, 1, own.size("short_conv_kernel_size")))
    yield bare("A_log", 1, 1, heads, 1, dtype="F32")
    yield bare("dt_bias", width, dtype="F32")
    yield linear("f_a_proj", dim, hidden)
    yield linear("f_b_proj", width, dim)
    yield linear("b_proj", heads, hidden)
    if own.flag("use_full_rank_gate"):
        yield linear("g_proj", width, hidden)
    else:
        yield linear("g_a_proj", dim, hidden)
        yield linear("g_b_proj", width, dim)
    yield norm("o_norm", dim)
    yield linear("o_proj", hidden, width)


def _mamba2(keys: Keys) -> Iterator[Module]:
    heads, biased = keys.size("mamba_num_heads"), keys.flag("mamba_proj_bias")
    hidden, width = keys.size("hidden_size"), heads * keys.size("mamba_head_dim")
    convolved = width + 2 * keys.size("n_groups") * keys.size("ssm_state_size")
    yield linear("in_proj", width + convolved + heads, hidden, biased)
    bias = (convolved,) if keys.flag("use_conv_bias", default=True) else ()
    yield Module("conv1d", (convolved, 1, keys.size("conv_kernel")), bias=bias)
    for name in ("A_log", "D", "dt_bias"):
        yield bare(name, heads)
    yield norm("norm", width)
    yield linear("out_proj", hidden, width, biased)
