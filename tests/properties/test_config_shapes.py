"""Whatever a config.json says, shapes are facts or a sentence, in bounded time and memory."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from holddown.base.evidence import Known, Unknown
from holddown.facts.hf_config import read_config
from holddown.facts.layers import attention_by_layer, read_moe
from holddown.facts.shapes import shapes

_LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
}
_KEYS = (
    *_LLAMA,
    "head_dim", "layer_types", "sliding_window", "full_attention_interval", "linear_attn_config", "compress_ratios",
    "hybrid_override_pattern", "layers_block_type", "block_configs", "num_experts", "n_routed_experts",
    "moe_layer_freq", "num_experts_per_tok", "moe_intermediate_size", "moe_layers_enum", "mlp_only_layers",
    "kv_lora_rank", "index_topk", "num_nextn_predict_layers", "mtp_num_hidden_layers",
    "mtp_hybrid_override_pattern", "text_config", "vision_config", "quantization_config", "architectures", "dtype",
    "tie_word_embeddings", "rope_scaling", "sparse_attention_config", "hybrid_layer_pattern",
    "attention_chunk_size", "no_rope_layers", "attention_other_setting", "q_lora_rank",
)  # fmt: skip
_TYPES = (
    "llama",
    "deepseek_v3",
    "deepseek_v4",
    "gemma4_text",
    "nemotron_h",
    "qwen3_5_text",
    "step3p5",
    "kimi_k25",
    "?",
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2**70) | st.floats() | st.text(max_size=8) | st.sampled_from(_TYPES),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=5),
    max_leaves=12,
)
_CONFIGS = st.dictionaries(st.sampled_from(_KEYS), _VALUES, max_size=10)


@settings(max_examples=300, deadline=None)
@given(_CONFIGS)
def test_any_values_under_known_keys(changes: dict[str, Any]) -> None:
    """Facts, or Unknown with a sentence; nothing is raised, and no count is below zero."""
    config = _LLAMA | changes
    found = shapes(json.dumps(config))
    for fact in (found.parameters, found.active_parameters, found.weights):
        assert isinstance(fact, Known) or (isinstance(fact, Unknown) and len(fact.why) > 5)
    if isinstance(found.parameters, Known):
        assert found.parameters.value >= 0
    attention_by_layer(config)
    read_moe(config)
    read_config(json.dumps(config))


@settings(max_examples=100, deadline=None)
@given(_VALUES, st.text(max_size=20))
def test_any_quantisation(said: Any, pattern: str) -> None:
    """A quantisation that is not understood leaves parameters known and says why bytes are not."""
    told = {"quant_method": "compressed-tensors", "ignore": ["re:" + pattern, said], "config_groups": {"g": said}}
    for quantization in (said, told, {"quant_method": pattern}, {"quant_algo": pattern, "quant_method": "modelopt"}):
        found = shapes(json.dumps(_LLAMA | {"quantization_config": quantization}))
        assert isinstance(found.parameters, Known)
        assert isinstance(found.weights, Known) or found.weights.why


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(0, 8), st.integers(1, 8))
def test_more_layers_are_more_parameters(layers: int, experts: int, chosen: int) -> None:
    """A layer more never takes parameters away, and no token meets more than there are."""
    config = _LLAMA | {"num_experts": experts, "num_experts_per_tok": chosen, "moe_intermediate_size": 16}
    small, large = (shapes(json.dumps(config | {"num_hidden_layers": count})) for count in (layers, layers + 1))
    assert isinstance(small.parameters, Known) and isinstance(large.parameters, Known)
    assert small.parameters.value < large.parameters.value
    assert isinstance(small.active_parameters, Known)
    assert 0 < small.active_parameters.value <= small.parameters.value
