"""Attention, experts, draft layers and weight groups of GGUFs of several architectures."""

import pytest

from fakes.checkpoint_bytes import GgufValue, gguf_head
from fakes.weights import bytes_by_component
from holddown.base.evidence import Known, Unknown
from holddown.facts.attention import Attention, FullAttention, LinearAttention, Mla, SlidingWindow, SparseMla
from holddown.facts.gguf import GgufHeader, read_header
from holddown.facts.gguf_model import gguf_facts
from holddown.facts.model import Inspection, Moe
from holddown.facts.weight_groups import Component
from holddown.facts.weights import ShardSeen, Tail, head_sha256

F32, Q4_K = 0, 12
Tensor = tuple[str, int, tuple[int, ...], int]


def small(*names: str) -> list[Tensor]:
    """Tensors of 32 numbers, as files need some."""
    return [(name, F32, (32,), 128) for name in names]


def inspect(architecture: str, keys: dict[str, GgufValue], tensors: list[Tensor]) -> Inspection:
    metadata: dict[str, GgufValue] = {"general.architecture": architecture}
    metadata |= {f"{architecture}.{key}": value for key, value in keys.items()}
    head, size = gguf_head(metadata, tensors)
    header = read_header("m.gguf", size, head)
    assert isinstance(header, GgufHeader), header
    return gguf_facts("/m.gguf", (ShardSeen("m.gguf", size, head_sha256(head), header, Tail.DATA),), ())


PLAIN: dict[str, GgufValue] = {
    "block_count": 4,
    "embedding_length": 512,
    "attention.head_count": 8,
    "attention.head_count_kv": 2,
}
LATENT: dict[str, GgufValue] = {
    "block_count": 4,
    "attention.head_count": 16,
    "attention.head_count_kv": 1,
    "attention.kv_lora_rank": 512,
    "rope.dimension_count": 64,
    "attention.key_length": 576,
    "attention.value_length": 512,
    "attention.key_length_mla": 192,
    "attention.value_length_mla": 128,
}
OLD_LATENT: dict[str, GgufValue] = {
    **{key: value for key, value in LATENT.items() if not key.endswith("_mla")},
    "attention.key_length": 192,
    "attention.value_length": 128,
}
RECURRENT: dict[str, GgufValue] = {
    "ssm.conv_kernel": 4,
    "ssm.inner_size": 4096,
    "ssm.state_size": 128,
    "ssm.group_count": 16,
    "ssm.time_step_rank": 32,
}
INDEXER: dict[str, GgufValue] = {
    "attention.indexer.head_count": 32,
    "attention.indexer.key_length": 128,
    "attention.indexer.top_k": 2048,
}
STATE = 4 * (4096 * 128 + 3 * (4096 + 2 * 16 * 128))


def full(layers: int, kv_heads: int = 2) -> FullAttention:
    return FullAttention(layers, 8, kv_heads, 64, 64)


def window(layers: int) -> SlidingWindow:
    return SlidingWindow(layers, 8, 2, 64, 64, 128)


KINDS: dict[str, tuple[str, dict[str, GgufValue], tuple[str, ...], tuple[Attention, ...]]] = {
    "llama": ("llama", PLAIN, (), (full(4),)),
    "head sizes of their own": (
        "qwen3",
        {**PLAIN, "attention.key_length": 128, "attention.value_length": 96},
        (),
        (FullAttention(4, 8, 2, 128, 96),),
    ),
    "kv heads by layer": (
        "minimax-m2",
        {**PLAIN, "attention.head_count_kv": [2, 4, 4, 2]},
        (),
        (full(2), full(2, 4)),
    ),
    "a window that llama.cpp does not read": ("llama", {**PLAIN, "attention.sliding_window": 128}, (), (full(4),)),
    "gpt-oss": ("gpt-oss", {**PLAIN, "attention.sliding_window": 128}, (), (window(2), full(2))),
    "windows by layer": (
        "step35",
        {**PLAIN, "attention.sliding_window": 128, "attention.sliding_window_pattern": [0, 1, 1, 1]},
        (),
        (full(1), window(3)),
    ),
    "deepseek2": ("deepseek2", LATENT, (), (Mla(4, 16, 512, 128, 64, 128),)),
    "deepseek2 of an older converter": ("deepseek2", OLD_LATENT, (), (Mla(4, 16, 512, 128, 64, 128),)),
    "glm-dsa": ("glm-dsa", {**LATENT, **INDEXER}, (), (SparseMla(4, 16, 512, 128, 64, 128, 4, 32, 128, 2048),)),
    "draft layers left out": ("glm4moe", {**PLAIN, "block_count": 5, "nextn_predict_layers": 1}, (), (full(4),)),
    "qwen3next": (
        "qwen3next",
        {**PLAIN, **RECURRENT},
        ("blk.0.ssm_out.weight", "blk.1.ssm_out.weight", "blk.2.ssm_out.weight"),
        (LinearAttention(3, "gated_delta_net", 32, STATE), full(1)),
    ),
    "nemotron_h": (
        "nemotron_h_moe",
        {**PLAIN, **RECURRENT, "attention.head_count_kv": [0, 2, 0, 0]},
        ("blk.0.ssm_in.weight",),
        (LinearAttention(1, "mamba2", 32, STATE), full(1)),
    ),
}


@pytest.mark.parametrize(("architecture", "keys", "names", "expected"), KINDS.values(), ids=KINDS)
def test_attention_by_layer(
    architecture: str, keys: dict[str, GgufValue], names: tuple[str, ...], expected: tuple[Attention, ...]
) -> None:
    """From the metadata, and for recurrent layers from the tensors that they have."""
    found = inspect(architecture, keys, small("output.weight", *names)).model.attention
    assert isinstance(found, Known), found
    assert found.value == expected


@pytest.mark.parametrize(
    ("architecture", "keys", "word"),
    [
        ("newarch", {**PLAIN, "attention.sliding_window": 128}, "does not say which layers"),
        ("rwkv7", {**PLAIN, "wkv.head_size": 64}, "no rule"),
        ("llama", {"block_count": 4}, "head_count"),
        ("llama", {**PLAIN, "block_count": 2**31 - 1}, "block_count"),
        ("deepseek2", {**LATENT, "rope.dimension_count": 0}, "head sizes"),
    ],
)
def test_what_is_not_understood_is_unknown(architecture: str, keys: dict[str, GgufValue], word: str) -> None:
    """With the reason; the rest of the facts are there."""
    found = inspect(architecture, keys, small("output.weight")).model
    assert isinstance(found.attention, Unknown)
    assert word in found.attention.why
    assert isinstance(found.parameters, Known)


MIXTURE: list[Tensor] = [
    ("token_embd.weight", F32, (256, 100), 102400),
    ("blk.0.ffn_down.weight", Q4_K, (256, 256), 36864),
    ("blk.1.ffn_down_exps.weight", Q4_K, (256, 256, 8), 294912),
    ("blk.1.ffn_gate_inp.weight", F32, (256, 8), 8192),
    ("blk.1.attn_q.weight", Q4_K, (256, 256), 36864),
    ("blk.1.attn_q.bias", F32, (256,), 1024),
    ("output.weight", Q4_K, (256, 100), 14400),
    ("blk.2.ffn_down_exps.weight", Q4_K, (256, 256, 8), 294912),
    ("blk.2.nextn.eh_proj.weight", Q4_K, (512, 256), 73728),
]
MIXED: dict[str, GgufValue] = {
    **PLAIN,
    "block_count": 3,
    "nextn_predict_layers": 1,
    "expert_count": 8,
    "expert_used_count": 2,
    "expert_feed_forward_length": 256,
    "expert_shared_count": 1,
}


def test_a_mixture_with_a_draft_layer() -> None:
    """Stacked experts are counted by their used share, the draft beside the total, types are formats."""
    model = inspect("glm4moe", MIXED, MIXTURE).model
    assert model.moe == Moe(1, 8, 2, 256, 256)
    assert isinstance(model.parameters, Known) and isinstance(model.active_parameters, Known)
    others = 256 * 256 * 2 + 256 * 8 + 256 + 256 * 100
    assert model.parameters.value == 256 * 100 + others + 256 * 256 * 8
    assert model.active_parameters.value == others + 256 * 256 * 2
    assert (model.draft_layers, model.draft_parameters) == (1, 256 * 256 * 8 + 512 * 256)
    assert isinstance(model.num_hidden_layers, Known) and model.num_hidden_layers.value == 2
    assert bytes_by_component(model.weights)[Component.MTP] == 294912 + 73728
    assert {group.format for group in model.weights} == {"f32", "Q4_K"}
    assert sum(group.size_bytes for group in model.weights) == model.weights_bytes


def test_an_embedding_that_is_the_head() -> None:
    """Without an output tensor the embedding counts once, as the head."""
    model = inspect("glm4moe", MIXED, [tensor for tensor in MIXTURE if tensor[0] != "output.weight"]).model
    assert isinstance(model.active_parameters, Known)
    assert model.active_parameters.value == 256 * 256 * 2 + 256 * 8 + 256 + 256 * 100 + 256 * 256 * 2


def test_a_tensor_that_stands_twice() -> None:
    """llama.cpp refuses it; it is counted once."""
    found = inspect("llama", PLAIN, small("output.weight", "output.weight"))
    assert [finding.code for finding in found.findings] == ["tensor.duplicate"]
    assert found.model.weights_bytes == 128
