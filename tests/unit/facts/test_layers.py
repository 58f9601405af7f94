"""Attention and feed forward by layer, from each family's own keys."""

from typing import Any

import pytest

from holddown.base.evidence import Known, Unknown
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
from holddown.facts.layers import attention_by_layer, read_layers, read_moe
from holddown.facts.model import Moe

_GQA = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
_MLA = {
    "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "kv_lora_rank": 32, "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4, "v_head_dim": 8,
}  # fmt: skip


def kinds(config: dict[str, Any]) -> tuple[Attention, ...]:
    found = attention_by_layer(config)
    assert isinstance(found, Known), found
    return found.value


def full(layers: int) -> FullAttention:
    return FullAttention(layers, 4, 2, 16, 16)


def window(layers: int, size: int) -> SlidingWindow:
    return SlidingWindow(layers, 4, 2, 16, 16, size)


def test_one_kind_for_all_layers() -> None:
    """Llama: every layer the same, counted together; a wrapper's text part is found."""
    config = _GQA | {"num_hidden_layers": 6}
    assert kinds(config) == (full(6),)
    assert kinds({"text_config": config}) == (full(6),)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"sliding_window": 128}, (window(6, 128),)),  # Mistral 7B v0.1
        ({"sliding_window": None}, (full(6),)),
        ({"sliding_window": 128, "use_sliding_window": False}, (full(6),)),  # Qwen2.5, Qwen3
        ({"sliding_window": 128, "model_type": "qwen2"}, (full(6),)),  # off unless it says so
        ({"sliding_window": 128, "use_sliding_window": True, "max_window_layers": 4}, (full(4), window(2, 128))),
        ({"sliding_window": 128, "sliding_window_pattern": 3}, (window(4, 128), full(2))),  # Gemma 3
        ({"sliding_window": 128, "model_type": "gemma2"}, (window(3, 128), full(3))),
        ({"attention_chunk_size": 512}, (window(5, 512), full(1))),  # Llama 4: every fourth
        ({"attention_chunk_size": 512, "no_rope_layers": [1, 0, 1, 0, 1, 0]}, (window(3, 512), full(3))),
        ({"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"] * 3}, (window(3, 8), full(3))),
        ({"attn_type_list": [1] * 6}, (full(6),)),  # MiniMax-M2
    ],
)
def test_windows(more: dict[str, Any], expected: tuple[Attention, ...]) -> None:
    """Which layers look at a window only, in every spelling, and which spellings mean none."""
    assert kinds(_GQA | {"num_hidden_layers": 6} | more) == expected


def test_latent_attention_and_its_indexer() -> None:
    """DeepSeek V3 is MLA; with index_topk it is sparse; GLM-5.2 shares an indexer among layers."""
    config = _MLA | {"num_hidden_layers": 4}
    assert kinds(config) == (Mla(4, 4, 32, 8, 4, 8),)
    index = {"index_topk": 16, "index_n_heads": 2, "index_head_dim": 8}
    assert kinds(config | index) == (SparseMla(4, 4, 32, 8, 4, 8, 4, 2, 8, 16),)
    shared = {"indexer_types": ["full", "shared", "shared", "full"]}
    assert kinds(config | index | shared) == (SparseMla(4, 4, 32, 8, 4, 8, 2, 2, 8, 16),)


def test_gated_delta_net() -> None:
    """Qwen3-Next: three of four layers keep a matrix for each value head, in 16 bit unless the config says float32."""
    linear = {
        "num_hidden_layers": 8, "full_attention_interval": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8,
        "linear_num_value_heads": 4, "linear_value_head_dim": 8, "linear_conv_kernel_dim": 4,
    }  # fmt: skip
    convolution = 3 * (2 * 2 * 8 + 4 * 8) * 2
    state = LinearAttention(6, "gated_delta_net", 4, 4 * 8 * 8 * 2 + convolution)
    assert kinds(_GQA | linear) == (state, full(2))
    (wide, _) = kinds(_GQA | linear | {"mamba_ssm_dtype": "float32"})
    assert isinstance(wide, LinearAttention) and wide.state_bytes == 4 * 8 * 8 * 4 + convolution


def test_kimi_linear_counts_from_one() -> None:
    """full_attn_layers [4] of four layers is the last one."""
    linear = {"full_attn_layers": [4], "num_heads": 4, "head_dim": 8, "short_conv_kernel_size": 4}
    found = kinds(_MLA | {"num_hidden_layers": 4, "linear_attn_config": linear})
    assert [(type(kind), kind.layers) for kind in found] == [(LinearAttention, 3), (Mla, 1)]


def test_nemotron_h_letters() -> None:
    """Each letter is a layer: Mamba-2, attention, experts, a plain feed forward; spelled out it is the same."""
    mamba = {"mamba_num_heads": 4, "mamba_head_dim": 8, "ssm_state_size": 16, "n_groups": 2, "conv_kernel": 4}
    experts = {"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
    config = _GQA | mamba | experts
    state = LinearAttention(2, "mamba2", 4, 4 * 8 * 16 * 4 + 3 * (4 * 8 + 2 * 2 * 16) * 2)
    assert kinds(config | {"hybrid_override_pattern": "ME*M-"}) == (state, full(1))
    spelled = ["mamba", "moe", "attention", "mamba", "mlp"]
    assert read_layers(config | {"layers_block_type": spelled}) == read_layers(
        config | {"hybrid_override_pattern": "ME*M-"}
    )
    assert [layer.dense_width for layer in read_layers(config | {"layers_block_type": spelled})] == [0, 0, 0, 0, 96]


def test_deepseek_v4_ratios() -> None:
    """One row for all layers, with each layer's ratio; the draft's ratio after the last is not counted."""
    config = _GQA | {
        "num_hidden_layers": 3, "compress_ratios": [0, 4, 128, 0], "sliding_window": 8, "index_n_heads": 2,
        "index_head_dim": 8, "index_topk": 16,
    }  # fmt: skip
    assert kinds(config) == (CompressedAttention(3, 4, 16, (0, 4, 128), 8, 2, 8, 16),)


def test_block_sparse_layers() -> None:
    """MiniMax-M3: the first layers are full; the rest choose blocks of 8 tokens, 4 of them."""
    sparse = {
        "use_sparse_attention": True, "sparse_num_index_heads": 2, "sparse_index_dim": 8, "sparse_topk_blocks": 4,
        "sparse_block_size": 8, "sparse_attention_freq": [0, 1, 1],
    }  # fmt: skip
    config = _GQA | {"num_hidden_layers": 3, "sparse_attention_config": sparse}
    assert kinds(config) == (full(1), BlockSparse(2, 4, 2, 16, 16, 2, 8, 32))


def test_window_layers_with_heads_of_their_own() -> None:
    """MiMo-V2's swa_ keys, Step 3.5's attention_other_setting, Gemma 4's global ones."""
    own = {
        "swa_num_attention_heads": 8, "swa_num_key_value_heads": 4, "swa_head_dim": 16, "swa_v_head_dim": 8,
        "sliding_window": 8, "hybrid_layer_pattern": [0, 1, 1],
    }  # fmt: skip
    assert kinds(_GQA | {"num_hidden_layers": 3} | own) == (full(1), SlidingWindow(2, 8, 4, 16, 8, 8))
    types = {"num_hidden_layers": 2, "sliding_window": 8, "layer_types": ["full_attention", "sliding_attention"]}
    other = {"attention_other_setting": {"num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 16}}
    assert kinds(_GQA | types | other) == (full(1), SlidingWindow(1, 6, 2, 16, 16, 8))
    gemma = {"global_head_dim": 32, "num_global_key_value_heads": 1}
    assert kinds(_GQA | types | gemma) == (FullAttention(1, 4, 1, 32, 32), window(1, 8))


def test_searched_layers() -> None:
    """Nemotron NAS: a layer may have no attention, and each a width of its own, in steps of 256."""
    blocks = [
        {"attention": {"n_heads_in_group": 2, "no_op": False}, "ffn": {"ffn_mult": 2.5}},
        {"attention": {"n_heads_in_group": None, "no_op": True}, "ffn": {"ffn_mult": 5.25}},
    ]
    config = {"hidden_size": 1024, "num_attention_heads": 4, "block_configs": blocks}
    first, second = read_layers(config)
    assert first.attention == FullAttention(1, 4, 2, 256, 256)
    assert (first.dense_width, second.dense_width) == (1792, 3584)
    assert second.attention is None


@pytest.mark.parametrize(
    ("more", "sparse"),
    [
        ({}, [0, 1, 2, 3, 4, 5]),
        ({"first_k_dense_replace": 2}, [2, 3, 4, 5]),  # DeepSeek, GLM
        ({"moe_layer_freq": [0, 1, 1, 1, 0, 1]}, [1, 2, 3, 5]),  # MiMo, MiniMax-M3
        ({"interleave_moe_layer_step": 2}, [1, 3, 5]),  # Llama 4 Maverick
        ({"decoder_sparse_step": 1, "mlp_only_layers": [0, 5]}, [1, 2, 3, 4]),  # Qwen
        ({"moe_layers_enum": "2,4,5"}, [2, 4, 5]),  # Step 3.5
        ({"moe_layers_enum": "3..44"}, [3, 4, 5]),
        ({"mlp_layer_types": ["dense"] * 3 + ["sparse"] * 3}, [3, 4, 5]),  # GLM-5
        ({"enable_moe_block": False}, []),
    ],
)
def test_which_layers_have_experts(more: dict[str, Any], sparse: list[int]) -> None:
    """Each family's key for it; what has no experts has the plain feed forward."""
    experts = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
    layers = read_layers(_GQA | {"num_hidden_layers": 6} | experts | more)
    assert [number for number, layer in enumerate(layers) if layer.moe is not None] == sparse
    assert all(bool(layer.dense_width) == (layer.moe is None) for layer in layers)


@pytest.mark.parametrize(
    ("more", "shared"),
    [
        ({}, 0),
        ({"n_shared_experts": 2}, 64),
        ({"num_shared_experts": 1}, 32),
        ({"shared_expert_intermediate_size": 48}, 48),
        ({"moe_shared_expert_intermediate_size": 80, "n_shared_experts": 1}, 80),
        ({"model_type": "llama4_text"}, 96),
    ],
)
def test_width_of_the_shared_expert(more: dict[str, Any], shared: int) -> None:
    """Named, or so many experts' widths; Llama 4 has one without a key for it."""
    experts = {"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
    assert read_moe(_GQA | {"num_hidden_layers": 2} | experts | more) == Moe(2, 8, 2, 32, shared)


def test_gemma_4_has_both() -> None:
    """A plain feed forward and experts in each layer."""
    experts = {"num_experts": 8, "top_k_experts": 2, "moe_intermediate_size": 32, "enable_moe_block": True}
    (layer,) = read_layers(_GQA | {"num_hidden_layers": 1} | experts)
    assert layer.dense_width == 96 and layer.moe == Moe(1, 8, 2, 32, 0)


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ({"layer_types": ["conv", "full_attention"]}, "layer_types has conv"),
        ({"layer_types": ["full_attention"]}, "1 entries for 2 layers"),
        ({"attn_layer_period": 8}, "attn_layer_period"),
        ({"conv_L_cache": 3}, "conv_L_cache"),
        ({"attn_type_list": [0, 1]}, "attn_type_list"),
        ({"hybrid_override_pattern": "MX"}, "'X'"),
        ({"layers_block_type": ["rwkv"]}, "rwkv"),
        ({"num_hidden_layers": 10**6}, "num_hidden_layers"),
        ({"num_attention_heads": None}, "num_attention_heads"),
        ({"num_experts": 8, "num_experts_per_tok": 2, "moe_layers_enum": "first"}, "moe_layers_enum"),
    ],
)
def test_what_is_not_understood_names_the_key(more: dict[str, Any], word: str) -> None:
    """Unknown with the key, in place of plain attention that is not there."""
    mamba = {"mamba_num_heads": 4, "mamba_head_dim": 8, "ssm_state_size": 16, "n_groups": 2, "conv_kernel": 4}
    found = attention_by_layer(_GQA | mamba | {"num_hidden_layers": 2} | more)
    assert isinstance(found, Unknown)
    assert word in found.why
