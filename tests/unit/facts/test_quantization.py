"""What a quantisation config says of each module."""

import json
from typing import Any

import pytest

from holddown.base.evidence import Known, Unknown
from holddown.facts.name_lists import NameList
from holddown.facts.quantization import Quantization, read_quantization
from holddown.facts.stored import Layout, Scheme

_INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True}
_FP8_CHANNEL = {"num_bits": 8, "type": "float", "strategy": "channel", "dynamic": False}


def read(said: dict[str, Any] | None = None, quant: dict[str, Any] | None = None, **config: Any) -> Quantization:
    whole = config | ({"quantization_config": said} if said is not None else {})
    return read_quantization(whole, None if quant is None else json.dumps({"quantization": quant}))


def formats(quantization: Quantization, *modules: str) -> list[str]:
    found = [quantization.scheme(module) for module in modules]
    return [scheme.format if scheme else "-" for scheme in found]


def value(fact: object) -> object:
    assert isinstance(fact, Known), fact
    return fact.value


def test_kimi_k2_keeps_all_but_its_experts() -> None:
    """compressed-tensors with `re:` ignores: only routed experts are INT4, with 32 inputs to a scale."""
    ignore = ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"]
    groups = {"group_0": {"targets": ["Linear"], "weights": _INT4, "input_activations": None}}
    found = read({"quant_method": "compressed-tensors", "config_groups": groups, "ignore": ignore})
    place = "model.layers.3."
    assert formats(found, f"{place}mlp.experts.7.up_proj", f"{place}mlp.shared_experts.up_proj") == ["int4", "-"]
    assert formats(found, f"{place}self_attn.o_proj", "model.layers.0.mlp.up_proj", "lm_head") == ["-", "-", "-"]
    # the router is no Linear there, and is never quantised unless a target names it
    assert formats(found, f"{place}mlp.gate") == ["-"]
    assert found.group_size == 32


def test_groups_of_different_bits() -> None:
    """Each group has the modules that its targets name, by pattern or by class."""
    groups = {
        "group_0": {"targets": [r"re:.*self_attn\..*"], "weights": _FP8_CHANNEL},
        "group_1": {"targets": ["Linear"], "weights": _INT4},
    }
    found = read({"quant_method": "compressed-tensors", "config_groups": groups, "ignore": ["lm_head"]})
    modules = "model.layers.0.self_attn.q_proj", "model.layers.0.mlp.up_proj", "lm_head"
    assert formats(found, *modules) == ["fp8", "int4", "-"]


@pytest.mark.parametrize(
    ("weights", "stored"),
    [
        ({"num_bits": 4, "type": "float", "group_size": 16, "strategy": "tensor_group"}, "nvfp4"),
        ({"num_bits": 4, "type": "float", "group_size": 32, "strategy": "group"}, "mxfp4"),
        ({"num_bits": 8, "type": "float", "group_size": 32, "strategy": "group"}, "mxfp8"),
        ({"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]}, "fp8-block"),
        ({"num_bits": 8, "type": "float", "strategy": "tensor"}, "fp8"),
        ({"num_bits": 8, "type": "int", "strategy": "channel"}, "int8"),
    ],
)
def test_formats_of_compressed_tensors(weights: dict[str, Any], stored: str) -> None:
    """Bits, kind and strategy together tell the format."""
    groups = {"group_0": {"targets": ["Linear"], "weights": weights}}
    found = read({"quant_method": "compressed-tensors", "config_groups": groups})
    assert formats(found, "model.layers.0.mlp.up_proj") == [stored]


def test_modelopt_leaves_head_router_and_draft() -> None:
    """hf_quant_config.json alone: excluded modules, lm_head and MTP layers stay, and the KV cache is FP8."""
    excluded = ["model.layers.0.self_attn*", "model.layers.78*"]
    quant = {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16, "exclude_modules": excluded}
    found = read(None, quant)
    assert value(found.method) == "modelopt_fp4"
    assert value(found.kv_cache) == "fp8"
    assert formats(found, "model.layers.0.self_attn.o_proj", "model.layers.1.self_attn.o_proj") == ["-", "nvfp4"]
    assert formats(found, "lm_head", "model.layers.3.mlp.gate", "mtp.layers.0.mlp.up_proj") == ["-", "-", "-"]
    assert formats(found, "model.layers.78.mlp.experts.0.up_proj") == ["-"]


def test_modelopt_mixed_precision() -> None:
    """Each listed module, or what lies below it, has its own algorithm; what is not listed stays."""
    layers = {
        "model.layers.0.mlp.experts": {"quant_algo": "W4A16_NVFP4", "group_size": 16},
        "model.layers.0.self_attn.q_proj": {"quant_algo": "FP8"},
        "lm_head": {"quant_algo": "NVFP4", "group_size": 16},
    }
    found = read({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": layers})
    assert value(found.method) == "modelopt_mixed"
    modules = "model.layers.0.mlp.experts.5.up_proj", "model.layers.0.self_attn.q_proj", "lm_head"
    assert formats(found, *modules, "model.layers.0.self_attn.k_proj") == ["nvfp4", "fp8", "nvfp4", "-"]
    scheme = found.scheme(modules[0])
    assert scheme is not None and not scheme.input_scale  # W4A16 has none


def test_fp8_block_takes_the_draft_and_leaves_the_head() -> None:
    """DeepSeek V3: every Linear, the MTP layer's too. MiniMax' `gate` is a step of the name, not of `gate_proj`."""
    said = {"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": ["gate"]}
    found = read(said)
    place = "model.layers.61."
    assert formats(found, f"{place}mlp.experts.3.gate_proj", f"{place}mlp.gate") == ["fp8-block", "-"]
    assert formats(found, "lm_head", "vision_tower.blocks.0.mlp.fc1") == ["-", "-"]
    assert found.weight_block == (128, 128)


def test_deepseek_v4_has_fp4_experts() -> None:
    """`expert_dtype: fp4` beside FP8: experts two to a byte, the rest in FP8 blocks, in DeepSeek's own layout."""
    said = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    found = read(said, expert_dtype="fp4", compress_ratios=[0, 4])
    assert formats(found, "layers.0.ffn.experts.3.w1", "layers.0.attn.wq_a", "head") == ["mxfp4", "fp8-block", "-"]
    scheme = found.scheme("mtp.0.ffn.experts.3.w1")
    assert scheme is not None and (scheme.format, scheme.layout) == ("mxfp4", Layout.DEEPSEEK_V4)
    plain = read(said, compress_ratios=[0, 4])
    assert formats(plain, "layers.0.ffn.experts.3.w1") == ["fp8-block"]


def test_gpt_oss_has_mxfp4_experts_only() -> None:
    """Attention, router and head of gpt-oss are BF16."""
    found = read({"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]})
    modules = "model.layers.0.mlp.experts.gate_up_proj", "model.layers.0.self_attn.q_proj", "lm_head"
    assert formats(found, *modules) == ["mxfp4", "-", "-"]


@pytest.mark.parametrize(
    ("said", "scheme"),
    [
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, Scheme("int4", Layout.AWQ, 4, 128)),
        (
            {"quant_method": "gptq", "bits": 8, "group_size": -1, "desc_act": True},
            Scheme("int8", Layout.GPTQ, 8, act_order=True),
        ),
        (
            {"quant_method": "auto-round", "bits": 4, "group_size": 128, "packing_format": "auto_round:auto_gptq"},
            Scheme("int4", Layout.GPTQ, 4, 128),
        ),
        ({"quant_method": "fbgemm_fp8"}, Scheme("fp8", Layout.FP8, 8, per_channel=True)),
        ({"quant_method": "mxfp8"}, Scheme("mxfp8", Layout.MODELOPT, 8, 32)),
        (
            {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
            Scheme("nf4", Layout.BITSANDBYTES, 4, 64),
        ),
    ],
)
def test_one_scheme_for_all_layers(said: dict[str, Any], scheme: Scheme) -> None:
    """AWQ, GPTQ, bitsandbytes and FP8 of one kind: the layers' Linears, not the head."""
    found = read(said)
    assert found.scheme("model.layers.0.mlp.up_proj") == scheme
    assert found.scheme("lm_head") is None


def test_nothing_is_quantised() -> None:
    """Without a word of it the method is `none` and every module stays."""
    found = read()
    assert value(found.method) == "none"
    assert value(found.kv_cache) == "none"
    assert found.scheme("model.layers.0.mlp.up_proj") is None
    assert found.weight_block == () and found.group_size == 0


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ({"quant_method": "quark"}, "quark"),
        ({"quant_method": "modelopt", "quant_algo": "W2A2_SECRET"}, "W2A2_SECRET"),
        ({"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 3}}}}, "3 bit"),
        ({"quant_method": "compressed-tensors", "ignore": ["re:(a+)+$"], "config_groups": {}}, "(a+)+$"),
        ({"quant_method": "compressed-tensors", "ignore": ["re:("], "config_groups": {}}, "expression"),
        ({"quant_method": "gptq", "bits": 3}, "bits 3"),
        ({}, "quant_method"),
    ],
)
def test_what_is_not_understood_is_said(said: dict[str, Any], word: str) -> None:
    """A scheme without a rule is told with the word that is not understood, and nothing is raised."""
    assert word in read(said).not_understood


def test_kv_cache_in_each_spelling() -> None:
    """kv_cache_scheme as a scheme or a word, kv_cache_quant_algo, and hf_quant_config.json beside a config."""
    modelopt: dict[str, Any] = {"quant_method": "modelopt", "quant_algo": "FP8"}
    assert value(read(modelopt | {"kv_cache_scheme": {"num_bits": 8, "type": "float"}}).kv_cache) == "fp8"
    assert value(read(modelopt | {"kv_cache_scheme": "FP8"}).kv_cache) == "fp8"
    assert value(read(modelopt, {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}).kv_cache) == "fp8"
    assert value(read(modelopt | {"kv_cache_scheme": None}).kv_cache) == "none"


def test_a_broken_quant_file_is_unknown() -> None:
    """hf_quant_config.json that is no JSON is told by name, and the method is not guessed."""
    found = read_quantization({}, "oops")
    assert isinstance(found.method, Unknown)
    assert "hf_quant_config.json" in found.not_understood


@pytest.mark.parametrize(
    ("listed", "module", "within"),
    [
        ("lm_head", "language_model.lm_head", True),
        ("gate", "model.layers.0.mlp.gate", True),
        ("gate", "model.layers.0.mlp.gate_proj", False),
        ("model.layers.1", "model.layers.1.mlp.up_proj", True),
        ("model.layers.1", "model.layers.11.mlp.up_proj", False),
        ("model.layers.1.*", "model.layers.11.mlp.up_proj", False),
        ("model.layers.0.mlp*", "language_model.model.layers.0.mlp.up_proj", True),
        ("*.attn.*", "layers.3.attn.wq_a", True),
        ("re:.*mlp.gate$", "model.layers.0.mlp.gate", True),
        ("re:mlp", "model.layers.0.mlp.gate", False),  # compressed-tensors matches from the beginning
    ],
)
def test_lists_of_names(listed: str, module: str, within: bool) -> None:
    """Plain names are whole steps, globs stand for the rest, and expressions begin at the beginning."""
    assert (module in NameList([listed])) is within
