"""Tensors, parameters and bytes from a config.json."""

import json
from typing import Any

from fakes.weights import bytes_by_component
from holddown.base.evidence import Known, Unknown
from holddown.facts.shapes import Shapes, shapes, tensor_rows
from holddown.facts.weight_groups import Component, Split, WeightGroup

_LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
_ATTENTION = 64 * 64 + 2 * 32 * 64 + 64 * 64
_LAYER = _ATTENTION + 3 * 96 * 64 + 2 * 64
_DEEPSEEK = {
    "model_type": "deepseek_v3", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3,
    "num_attention_heads": 4, "kv_lora_rank": 32, "q_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
    "v_head_dim": 8, "n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1,
    "moe_intermediate_size": 32, "first_k_dense_replace": 1, "num_nextn_predict_layers": 1, "vocab_size": 100,
    "torch_dtype": "bfloat16",
}  # fmt: skip


def read(config: dict[str, Any], quant: dict[str, Any] | None = None) -> Shapes:
    return shapes(json.dumps(config), None if quant is None else json.dumps(quant))


def value(fact: object) -> Any:
    assert isinstance(fact, Known), fact
    return fact.value


def test_a_llama_to_the_last_parameter() -> None:
    """Two layers of four attention and three feed-forward weights and two norms; embedding, last norm, head."""
    found = read(_LLAMA)
    assert value(found.parameters) == 2 * _LAYER + 2 * 100 * 64 + 64
    assert value(found.active_parameters) == 2 * _LAYER + 100 * 64 + 64
    assert found.notes == ()
    assert sum(group.size_bytes for group in value(found.weights)) == 2 * value(found.parameters)


def test_a_tied_embedding_is_the_head_of_a_token() -> None:
    """It is stored once, and is active once, for the head."""
    found = read(_LLAMA | {"tie_word_embeddings": True})
    assert value(found.parameters) == 2 * _LAYER + 100 * 64 + 64
    assert value(found.active_parameters) == value(found.parameters)
    assert Component.HEAD not in bytes_by_component(value(found.weights))


def test_a_group_of_weights() -> None:
    """Key projections of both layers are one group, divided while there are key-value heads."""
    expected = WeightGroup(
        "model.layers.*.self_attn.k_proj", Component.ATTENTION, Split.KV_HEADS, "bf16", 2, 2 * 32 * 64, 4 * 32 * 64
    )
    assert expected in value(read(_LLAMA).weights)


def test_experts_and_drafts_of_deepseek() -> None:
    """Two of eight experts are active; the MTP layer is counted beside, with its own embedding and head."""
    found = read(_DEEPSEEK)
    by_name = {group.module: group for group in value(found.weights) if group.component is not Component.MTP}
    experts = by_name["model.layers.*.mlp.experts.*.up_proj"]
    assert (experts.count, experts.parameters) == (2 * 8, 2 * 8 * 32 * 64)
    assert by_name["model.layers.*.mlp.up_proj"].count == 1
    unchosen = 2 * 3 * 6 * 32 * 64
    assert value(found.active_parameters) == value(found.parameters) - unchosen - 100 * 64
    assert found.draft_layers == 1
    drafted = sum(group.parameters for group in value(found.weights) if group.component is Component.MTP)
    assert found.draft_parameters == drafted > 2 * 100 * 64


def test_lists_part_the_layers_of_one_name() -> None:
    """ModelOpt leaves layer 0 as it is: one name, two formats."""
    quant = {"quantization": {"quant_algo": "NVFP4", "group_size": 16, "exclude_modules": ["model.layers.0.*"]}}
    groups = [g for g in value(read(_LLAMA, quant).weights) if g.module == "model.layers.*.mlp.up_proj"]
    assert {(group.format, group.count) for group in groups} == {("bf16", 1), ("nvfp4", 1)}


def test_fused_experts_are_parted_by_quantisers() -> None:
    """gpt-oss keeps a layer's experts in one tensor, also in MXFP4; Qwen3-VL's FP8 checkpoint does not."""
    moe = _LLAMA | {"num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
    qwen = moe | {"model_type": "qwen3_vl_moe_text"}
    fp8 = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
    names = [{row.name for row in tensor_rows(json.dumps(config))} for config in (qwen, qwen | fp8)]
    assert "model.layers.*.mlp.experts.gate_up_proj" in names[0]
    assert "model.layers.*.mlp.experts.*.gate_proj.weight_scale_inv" in names[1]
    oss = moe | {"model_type": "gpt_oss", "quantization_config": {"quant_method": "mxfp4"}}
    rows = {row.name: row for row in tensor_rows(json.dumps(oss))}
    assert rows["model.layers.*.mlp.experts.gate_up_proj_blocks"].shape == (4, 64, 2, 16)
    assert rows["model.layers.*.mlp.experts.gate_up_proj_bias"].shape == (4, 64)


def test_names_of_a_row() -> None:
    """Every layer's and every expert's name, and none of a layer without experts."""
    rows = {row.name: row for row in tensor_rows(json.dumps(_DEEPSEEK)) if len(row.spans) == 2}
    row = rows["model.layers.*.mlp.experts.*.down_proj.weight"]
    names = list(row.names())
    assert len(names) == row.count == 8  # the draft's, which come last under this name
    assert names[0] == "model.layers.3.mlp.experts.0.down_proj.weight"


def test_an_unknown_model_is_a_llama_of_its_keys() -> None:
    """It is computed and says so; without the keys it is Unknown and names the first that is missing."""
    found = read(_LLAMA | {"model_type": "brand_new", "architectures": ["BrandNewForCausalLM"]})
    assert value(found.parameters) == value(read(_LLAMA).parameters)
    assert "brand_new" in found.notes[0]
    bare = read({"model_type": "brand_new"})
    assert isinstance(bare.parameters, Unknown) and "num_hidden_layers" in bare.parameters.why
    assert isinstance(bare.weights, Unknown)


def test_an_unknown_quantisation_leaves_the_parameters() -> None:
    """How many bytes is not known then; how many parameters is."""
    found = read(_LLAMA | {"quantization_config": {"quant_method": "quark"}})
    assert isinstance(found.weights, Unknown) and "quark" in found.weights.why
    assert value(found.parameters) == value(read(_LLAMA).parameters)


def test_a_vision_tower_that_is_not_known_is_told() -> None:
    """The language model is counted, and a note says what is not."""
    wrapped = {"model_type": "my_vl", "text_config": _LLAMA, "vision_config": {"hidden_size": 8}}
    found = read(wrapped)
    assert value(found.parameters) == value(read(_LLAMA).parameters)
    assert any("vision tower" in note for note in found.notes)


def test_the_models_own_dtype() -> None:
    """float32 checkpoints take four bytes a parameter; without a word it is bfloat16."""
    four = read(_LLAMA | {"torch_dtype": "float32"})
    assert sum(group.size_bytes for group in value(four.weights)) == 4 * value(four.parameters)
    two = read({key: said for key, said in _LLAMA.items() if key != "torch_dtype"})
    assert sum(group.size_bytes for group in value(two.weights)) == 2 * value(two.parameters)
