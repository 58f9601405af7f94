"""Weight groups from headers: packed weights unpacked, scales with their weight, draft layers apart."""

import json
from typing import Any

import pytest

from fakes.checkpoint_bytes import Tensors, safetensors_head
from fakes.headers import rows_of, shard
from fakes.weights import bytes_by_component
from holddown.base.evidence import Known, Unknown
from holddown.facts.header_groups import Grouping, header_groups
from holddown.facts.hf_config import read_config
from holddown.facts.parameters import active_parameters, draft_parameters, total_parameters
from holddown.facts.quantization import Quantization, read_quantization
from holddown.facts.safetensors import ShardHeader, read_header
from holddown.facts.shapes import shapes
from holddown.facts.weight_groups import Component, WeightGroup

NOTHING_SAID = read_quantization({})
INT4 = read_quantization(
    {
        "quantization_config": {
            "quant_method": "compressed-tensors",
            "format": "pack-quantized",
            "config_groups": {
                "group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "group_size": 32, "strategy": "group", "symmetric": True}}  # noqa: E501
            },
        }
    }
)  # fmt: skip


def grouped(tensors: Tensors, said: Quantization = NOTHING_SAID, draft: tuple[int, ...] = ()) -> Grouping:
    head, size = safetensors_head(tensors)
    header = read_header("model.safetensors", size, head)
    assert isinstance(header, ShardHeader)
    return header_groups(header.kinds, said, draft)


def only(tensors: Tensors, said: Quantization = NOTHING_SAID) -> WeightGroup:
    found = grouped(tensors, said)
    assert (len(found.groups), found.unknown) == (1, "")
    return found.groups[0]


UP = "model.layers.0.mlp.up_proj"

PACKED: dict[str, tuple[Tensors, Quantization, str]] = {
    "compressed-tensors int4": (
        {
            f"{UP}.weight_packed": ("I32", (64, 16)),
            f"{UP}.weight_scale": ("BF16", (64, 4)),
            f"{UP}.weight_shape": ("I64", (2,)),
        },
        INT4,
        "int4",
    ),
    "compressed-tensors nvfp4": (
        {
            f"{UP}.weight_packed": ("U8", (64, 64)),
            f"{UP}.weight_scale": ("F8_E4M3", (64, 8)),
            f"{UP}.weight_global_scale": ("F32", (1,)),
        },
        NOTHING_SAID,
        "nvfp4",
    ),
    "compressed-tensors mxfp4": (
        {f"{UP}.weight_packed": ("U8", (64, 64)), f"{UP}.weight_scale": ("U8", (64, 4))},
        NOTHING_SAID,
        "mxfp4",
    ),
    "modelopt nvfp4": (
        {
            f"{UP}.weight": ("U8", (64, 64)),
            f"{UP}.weight_scale": ("F8_E4M3", (64, 8)),
            f"{UP}.weight_scale_2": ("F32", ()),
            f"{UP}.input_scale": ("F32", ()),
        },
        NOTHING_SAID,
        "nvfp4",
    ),
    "fp8": ({f"{UP}.weight": ("F8_E4M3", (64, 128)), f"{UP}.weight_scale": ("F32", ())}, NOTHING_SAID, "fp8"),
    "fp8 by channel": (
        {f"{UP}.weight": ("F8_E4M3", (64, 128)), f"{UP}.weight_scale": ("F32", (64, 1))},
        NOTHING_SAID,
        "fp8",
    ),
    "fp8 in blocks": (
        {f"{UP}.weight": ("F8_E4M3", (64, 128)), f"{UP}.weight_scale_inv": ("F32", (1, 1))},
        NOTHING_SAID,
        "fp8-block",
    ),
    "mxfp8": ({f"{UP}.weight": ("F8_E4M3", (64, 128)), f"{UP}.weight_scale": ("U8", (64, 4))}, NOTHING_SAID, "mxfp8"),
    "deepseek v4 fp4": (
        {f"{UP}.weight": ("I8", (64, 64)), f"{UP}.scale": ("F8_E8M0", (64, 4))},
        NOTHING_SAID,
        "mxfp4",
    ),
    "int8": ({f"{UP}.weight": ("I8", (64, 128)), f"{UP}.weight_scale": ("BF16", (64, 1))}, NOTHING_SAID, "int8"),
    "awq": (
        {f"{UP}.qweight": ("I32", (128, 8)), f"{UP}.qzeros": ("I32", (1, 8)), f"{UP}.scales": ("F16", (1, 64))},
        NOTHING_SAID,
        "int4",
    ),
    "gptq of 8 bits": (
        {
            f"{UP}.qweight": ("I32", (32, 64)),
            f"{UP}.qzeros": ("I32", (1, 16)),
            f"{UP}.scales": ("F16", (1, 64)),
            f"{UP}.g_idx": ("I32", (128,)),
        },
        NOTHING_SAID,
        "int8",
    ),
    "bitsandbytes": (
        {
            f"{UP}.weight": ("U8", (4096, 1)),
            f"{UP}.weight.absmax": ("F32", (128,)),
            f"{UP}.weight.quant_map": ("F32", (16,)),
            f"{UP}.weight.quant_state.bitsandbytes__nf4": ("U8", (86,)),
        },
        NOTHING_SAID,
        "nf4",
    ),
    "gpt-oss": (
        {
            "model.layers.0.mlp.experts.gate_up_proj_blocks": ("U8", (2, 64, 2, 16)),
            "model.layers.0.mlp.experts.gate_up_proj_scales": ("U8", (2, 64, 2)),
        },
        NOTHING_SAID,
        "mxfp4",
    ),
    "fused experts in fp8": (
        {
            "model.layers.0.mlp.experts.gate_up_proj": ("F8_E4M3", (2, 64, 64)),
            "model.layers.0.mlp.experts.gate_up_proj_scale_inv": ("F32", (2, 1, 1)),
        },
        NOTHING_SAID,
        "fp8-block",
    ),
}


@pytest.mark.parametrize(("tensors", "said", "stored"), PACKED.values(), ids=PACKED)
def test_every_way_of_storing_is_unpacked(tensors: Tensors, said: Quantization, stored: str) -> None:
    """64 x 128 weights are 8,192 parameters however they are packed, and scales are bytes of theirs."""
    group = only(tensors, said)
    _, size = safetensors_head(tensors)
    head, _ = safetensors_head(tensors)
    assert (group.format, group.parameters, group.size_bytes) == (stored, 8192, size - len(head))


def test_packed_and_nothing_says_how() -> None:
    """Bytes are known; parameters are not, and the reason names the tensor."""
    found = grouped({f"{UP}.weight_packed": ("I32", (64, 16)), f"{UP}.weight_scale": ("BF16", (64, 4))})
    assert f"{UP}.weight_packed is packed into I32" in found.unknown
    assert isinstance(total_parameters(found.groups, found.unknown, "x"), Unknown)
    assert sum(group.size_bytes for group in found.groups) == 64 * 16 * 4 + 64 * 4 * 2


def test_what_is_a_parameter_and_what_is_none() -> None:
    """Biases, sinks and state-space parameters are trained; KV scales, tables of integers and inv_freq are not."""
    trained: Tensors = {
        "model.layers.0.mlp.gate.e_score_correction_bias": ("F32", (8,)),
        "model.layers.0.mixer.A_log": ("F32", (8,)),
        "model.layers.0.mixer.dt_bias": ("BF16", (8,)),
        "model.layers.0.self_attn.sinks": ("BF16", (8,)),
        "model.layers.0.self_attn.q_proj.weight": ("BF16", (8, 8)),
        "model.layers.0.self_attn.q_proj.bias": ("BF16", (8,)),
    }
    beside: Tensors = {
        "model.layers.0.self_attn.k_scale": ("F32", (1,)),
        "model.layers.0.self_attn.k_proj.v_scale": ("F32", ()),
        "model.layers.0.self_attn.rotary_emb.inv_freq": ("F32", (4,)),
        "model.embeddings.position_ids": ("I64", (1, 512)),
    }
    assert sum(group.parameters for group in grouped(trained).groups) == 5 * 8 + 64
    assert sum(group.parameters for group in grouped({**trained, **beside}).groups) == 5 * 8 + 64
    assert sum(group.parameters for group in grouped(beside).groups) == 0


def test_layers_stored_in_two_ways() -> None:
    """A module that is quantised in some layers only is two groups."""
    tensors: Tensors = {
        "model.layers.0.mlp.up_proj.weight": ("BF16", (64, 128)),
        "model.layers.1.mlp.up_proj.weight": ("U8", (64, 64)),
        "model.layers.1.mlp.up_proj.weight_scale": ("F8_E4M3", (64, 8)),
        "model.layers.2.mlp.up_proj.weight": ("F8_E4M3", (64, 128)),
        "model.layers.2.mlp.up_proj.weight_scale": ("F32", ()),
    }
    groups = {group.format: (group.count, group.parameters) for group in grouped(tensors).groups}
    assert groups == {"bf16": (1, 8192), "nvfp4": (1, 8192), "fp8": (1, 8192)}


def test_draft_layers_by_number_and_by_name() -> None:
    """DeepSeek's layer after the last, which its own names give away, and layers below `mtp`."""
    layer: Tensors = {"model.layers.0.mlp.up_proj.weight": ("BF16", (4, 4))}
    by_name: Tensors = {
        "model.layers.1.mlp.up_proj.weight": ("BF16", (4, 4)),
        "model.layers.1.eh_proj.weight": ("BF16", (4, 8)),
    }
    below: Tensors = {
        "mtp.fc.weight": ("BF16", (4, 8)),
        "mtp.layers.0.mlp.up_proj.weight": ("BF16", (4, 4)),
    }
    for more, draft in ((by_name, ()), (by_name, (1,)), (below, ())):
        found = grouped({**layer, **more}, draft=draft)
        assert (found.draft_layers, draft_parameters(found.groups)) == (1, 48)
        total = total_parameters(found.groups, found.unknown, "x")
        assert isinstance(total, Known)
        assert total.value == 16
    numbered = {**layer, "model.layers.1.mlp.up_proj.weight": ("BF16", (4, 4))}
    assert grouped(numbered, draft=(1,)).draft_layers == 1
    assert grouped(numbered).draft_layers == 0


def test_a_name_that_nobody_knows() -> None:
    """It is counted, under `other`."""
    found = grouped({"strange.thing.weight": ("BF16", (4, 4))})
    assert bytes_by_component(found.groups) == {Component.OTHER: 32}


def config(model_type: str, **more: Any) -> dict[str, Any]:
    return {
        "model_type": model_type,
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 1024,
        "torch_dtype": "bfloat16",
        **more,
    }


LATENT = {
    "kv_lora_rank": 64, "q_lora_rank": 96, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32,
    "n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1, "moe_intermediate_size": 128,
    "first_k_dense_replace": 1,
}  # fmt: skip
FP8_BLOCK = {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}
MXFP4 = {"quant_method": "mxfp4"}
FAMILIES: dict[str, dict[str, Any]] = {
    "llama, tied": config("llama", tie_word_embeddings=True),
    "qwen3 moe": config("qwen3_moe", num_experts=8, num_experts_per_tok=2, moe_intermediate_size=128, head_dim=64),
    "deepseek v3 with a draft": config(
        "deepseek_v3", **LATENT, num_nextn_predict_layers=1, quantization_config=FP8_BLOCK
    ),
    "minimax m2": config(
        "minimax_m2",
        num_local_experts=8,
        num_experts_per_tok=2,
        head_dim=64,
        use_qk_norm=True,
        use_routing_bias=True,
        quantization_config=FP8_BLOCK,
    ),
    "gpt-oss": config(
        "gpt_oss",
        num_local_experts=4,
        num_experts_per_tok=2,
        head_dim=64,
        sliding_window=128,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        quantization_config=MXFP4,
    ),
}


@pytest.mark.parametrize("said", FAMILIES.values(), ids=FAMILIES)
def test_headers_and_shapes_say_the_same(said: dict[str, Any]) -> None:
    """Written as header bytes and read back, a config's tensors give its groups, its parameters and its active ones."""
    text = json.dumps(said)
    expected, facts = shapes(text), read_config(text)
    file = shard(rows_of(said))
    header = read_header(file.name, file.size_bytes, file.head)
    assert isinstance(header, ShardHeader), header
    found = header_groups(header.kinds, facts.storage, facts.draft_layers)
    assert isinstance(expected.weights, Known)
    assert sums(found.groups) == sums(expected.weights.value)
    assert value(total_parameters(found.groups, found.unknown, "x")) == value(expected.parameters)
    assert value(active_parameters(found.groups, facts.moe, found.unknown)) == value(expected.active_parameters)
    drafted = (found.draft_layers, draft_parameters(found.groups))
    assert drafted == (expected.draft_layers, expected.draft_parameters)


def sums(groups: tuple[WeightGroup, ...]) -> dict[tuple[str, str, str], tuple[int, int]]:
    found: dict[tuple[str, str, str], tuple[int, int]] = {}
    for group in groups:
        key = (group.component, group.split, group.format)
        parameters, size = found.get(key, (0, 0))
        found[key] = (parameters + group.parameters, size + group.size_bytes)
    return found


def value(fact: Known[int] | Unknown) -> int:
    assert isinstance(fact, Known), fact
    return fact.value
