"""What a tensor is for, told by its name: Hugging Face's names, Mistral's own, DeepSeek's own, and GGUF's."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holddown.facts.hf_keys import language_part
from holddown.facts.weight_groups import Component, Split


@dataclass(frozen=True, slots=True)
class Place:
    """component: what the weight is for. split: what tensor parallelism does to it."""

    component: Component
    split: Split


@dataclass(frozen=True, slots=True)
class TensorName:
    """A tensor's name, taken apart: `model.layers.3.mlp.down_proj.weight_scale` is module
    `model.layers.*.mlp.down_proj`, numbers (3,), part `weight_scale`. part is empty for a bare parameter (`A_log`)."""

    module: str
    numbers: tuple[int, ...]
    part: str


@dataclass(frozen=True, slots=True)
class _Row:
    pattern: re.Pattern[str]
    place: Place


SCALE_PARTS = frozenset(
    {
        "weight_scale", "weight_scale_inv", "weight_scale_2", "weight_global_scale", "weight_zero_point",
        "weight_shape", "weight_g_idx", "weight_format", "input_scale", "input_global_scale", "input_zero_point",
        "activation_scale", "act_scale", "pre_quant_scale", "k_scale", "v_scale", "q_scale", "prob_output_scale",
        "output_scale", "kv_scale", "qzeros", "scales", "g_idx", "scale", "scale_inv", "SCB",
    }
)  # fmt: skip
"""Parts that a quantiser wrote beside a weight: bytes, but no parameters. bitsandbytes' all begin `weight.`."""

# What a module's tensors are called after its name: the weight itself, and what quantisers put beside it.
# Source: compressed-tensors, ModelOpt, AutoAWQ, GPTQModel, bitsandbytes, gpt-oss, DeepSeek V4 (`scale`).
_PARTS = re.compile(
    rf"[._](?P<part>weight|bias|weight_packed|qweight|blocks|{'|'.join(sorted(SCALE_PARTS))}|"
    r"weight\.(?:absmax|nested_absmax|quant_map|nested_quant_map|quant_state\.bitsandbytes__\w+|SCB))"
)

# Modules whose own parameter is called like a quantiser's part. Gemma 4's router has a trained `scale`, the fused
# experts of gpt-oss and transformers 5 are bare parameters with `_bias` after them.
_OWN_SCALE = re.compile(r"(?:.*\.)?router")
_FUSED = re.compile(r"(?:.*\.)?experts\.\w+")
_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")


def tensor_name(name: str) -> TensorName:
    """The name taken apart. A `.weight` that is no module's last word (`weight.absmax`) stays with its part."""
    module, part = _cut(name)
    return TensorName(_NUMBER.sub("*", module), tuple(int(number) for number in _NUMBER.findall(module)), part)


def _cut(name: str) -> tuple[str, str]:
    for match in _PARTS.finditer(name):
        if match.end() != len(name):
            match_whole = _PARTS.fullmatch(name, match.start())
            if match_whole is None:
                continue
            match = match_whole
        module = name[: match.start()]
        joined = name[match.start()] == "_"
        if joined and not (_FUSED.fullmatch(module) and match["part"] in ("blocks", "scales", "bias")):
            continue
        if match["part"] == "scale" and _OWN_SCALE.fullmatch(module):
            continue
        return module, match["part"]
    return name, ""


def is_scale(part: str) -> bool:
    """Whether a part is what a quantiser wrote beside the weight, and so no trained parameter."""
    return part in SCALE_PARTS or (part.startswith("weight.") and part != "weight.")


_C, _S = Component, Split


def _row(words: str, component: Component, split: Split) -> _Row:
    """words: alternatives for the end of the name, from a full stop or its beginning on."""
    return _Row(re.compile(rf"(?:.*\.)?(?:{words})"), Place(component, split))


def _part_of(words: str, component: Component, split: Split) -> _Row:
    """words: a step of the name with anything after it."""
    return _Row(re.compile(rf"(?:.*\.)?(?:{words})(?:\..*)?"), Place(component, split))


# Anything below these is the draft's, whatever it does there. `nextn` is llama.cpp's word; the second pattern is what
# only the draft layer of DeepSeek V3 and GLM has among numbered layers, by which it is told without a config.
_DRAFT = re.compile(
    r"(?:.*\.)?(?:mtp\w*|nextn|eagle\w*|medusa\w*|draft\w*)(?:\..*)?"
    r"|(?:.*\.)?layers\.\*\.(?:eh_proj|enorm|hnorm|shared_head(?:\..*)?|embed_tokens|transformer\..*)"
)

_VISION = (
    r"vision\w*|visual|vit|mm_projector|multi_modal_projector|multimodal_projector|embed_vision|embed_audio|audio\w*|"
    r"patch_embed|patch_merger|patch_merge_mlp|merger|pre_mm_projector_norm|image_newline|img_\w+|aligner|connector"
)

# First match wins, so the narrow stand before the wide. Source of each: the `load_weights` of vLLM's models and the
# MODEL_TENSOR names of gguf-py.
_ROWS = (
    _part_of(_VISION, _C.VISION, _S.REPLICATED),
    _Row(re.compile(r"(?:mlp1|v|mm|a)\..*"), Place(_C.VISION, _S.REPLICATED)),  # InternVL; GGUF's mmproj
    # the router before the experts: Gemma 4's `router.per_expert_scale`
    _part_of(r"router|e_score_correction_bias|router_bias|gate\.tid2eid|tid2eid", _C.ROUTER, _S.REPLICATED),
    _row(r"ffn_gate_inp|exp_probs_b|ffn_gate_tid2eid", _C.ROUTER, _S.REPLICATED),
    _row(r"shared_expert_gate|ffn_gate_inp_shexp", _C.SHARED_EXPERTS, _S.REPLICATED),
    # a latent space before the routed experts, which every token passes through (Nemotron 3 Super, Kimi K3)
    _row(
        r"fc[12]_latent_proj|(?:latent|routed_expert)_(?:down|up)(?:_proj)?|ffn_latent_(?:down|up)",
        _C.SHARED_EXPERTS,
        _S.REPLICATED,
    ),
    _row(r"(?:shared?_experts?|shared_mlp)\.(?:.*\.)?(?:down_proj|w2|fc2)|ffn_down_shexp", _C.SHARED_EXPERTS, _S.ROW),
    _row(
        r"(?:shared?_experts?|shared_mlp)\.(?:.*\.)?(?:gate_proj|up_proj|gate_up_proj|w1|w3|fc1)|ffn_(?:gate|up)_shexp",
        _C.SHARED_EXPERTS,
        _S.COLUMN,
    ),
    _part_of(r"shared?_experts?|shared_mlp", _C.SHARED_EXPERTS, _S.REPLICATED),
    _part_of(r"experts", _C.ROUTED_EXPERTS, _S.EXPERTS),
    _row(
        r"(?:block_sparse_)?moe\.(?:gate_proj|up_proj|down_proj|input_linear|output_linear)|ffn_(?:gate|up|down|gate_up)_exps",
        _C.ROUTED_EXPERTS,
        _S.EXPERTS,
    ),
    _row(r"(?:[^.]*norm[^.]*|ln_\w+|layer_scalar)", _C.NORMS, _S.REPLICATED),
    # attention and what stands in its place
    _part_of(r"indexer|compressor|indexer_compressor", _C.ATTENTION, _S.REPLICATED),
    _row(r"index_[qk]_proj|indexer_\w+|(?:attn|indexer)_compressor_\w+", _C.ATTENTION, _S.REPLICATED),
    _row(
        r"q_a_proj|kv_a_proj(?:_with_mqa)?|fused_qkv_a_proj\w*|kv_proj|wq_a|wkv_a(?:_with_mqa)?|wkv|attn_q_a|attn_kv_a_mqa|"
        r"attn_kv|[fg]_a_proj|ssm_[fg]_a",
        _C.ATTENTION,
        _S.REPLICATED,
    ),
    _row(r"k_proj|v_proj|wk|wv|attn_k|attn_v", _C.ATTENTION, _S.KV_HEADS),
    # fused with the queries: mostly queries, so divided as they are
    _row(r"qkv_proj|query_key_value|[Ww]qkv|attn_qkv|c_attn|in_proj\w*", _C.ATTENTION, _S.COLUMN),
    _row(
        r"q_proj|q_b_proj|kv_b_proj|o_a_proj|wq|wq_b|wkv_b|attn_q|attn_q_b|attn_kv_b|attn_k_b|attn_v_b|wo_a|attn_output_a|"
        r"(?:self_attn|attn|attention|linear_attn|forget_gate)\.(?:g_proj|gate|gate_proj|[fg]_b_proj|b_proj)|attn_gate",
        _C.ATTENTION,
        _S.COLUMN,
    ),
    _row(
        r"o_proj|o_b_proj|wo|wo_b|attn_output|attn_output_b|out_proj|attention\.dense|self_attention\.dense|attn\.c_proj|ssm_out",
        _C.ATTENTION,
        _S.ROW,
    ),
    _row(
        r"sinks|attn_sinks?|attention_sink_bias|[qkv]_conv1d?|conv1d|A_log|dt_bias|dt_proj|mixer\.D|mamba\.D|ssm_\w+",
        _C.ATTENTION,
        _S.COLUMN,
    ),
    _row(r"(?:mixer|mamba)\.x_proj", _C.ATTENTION, _S.ROW),
    # feed forward
    _row(
        r"(?:mlp|block_sparse_moe|feed_forward|ffn|moe|mixer|layers\.\*)\.gate",
        _C.ROUTER,
        _S.REPLICATED,
    ),
    _row(
        r"gate_proj|up_proj|gate_up_proj|w1|w3|fc1|c_fc|dense_h_to_4h|ffn_gate|ffn_up",
        _C.DENSE_MLP,
        _S.COLUMN,
    ),
    _row(r"down_proj|w2|fc2|mlp\.c_proj|dense_4h_to_h|ffn_down", _C.DENSE_MLP, _S.ROW),
    # the ends
    _row(r"embed_tokens\w*|word_embeddings|wte|tok_embeddings|embeddings|embed|embed_in", _C.EMBEDDINGS, _S.VOCAB),
    _row(r"token_embd|per_layer_token_embd", _C.EMBEDDINGS, _S.VOCAB),
    _row(r"wpe|embed_positions|position_embd", _C.EMBEDDINGS, _S.REPLICATED),
    _row(r"lm_head|embed_out|shared_head\.(?:head|output)|shared_head_head|(?:nextn|mtp\.\*)\.head", _C.HEAD, _S.VOCAB),
    _Row(re.compile(r"(?:model\.)?(?:output|head)"), Place(_C.HEAD, _S.VOCAB)),
)

_UNKNOWN_NAME = Place(Component.OTHER, Split.REPLICATED)


def role(module: str) -> Place:
    """What the weight does, whether or not it is a draft layer's.

    module: as `tensor_name` gives it, or any name whose numbers are `*` and whose `.weight` is cut off.
    """
    return next((row.place for row in _ROWS if row.pattern.fullmatch(module)), _UNKNOWN_NAME)


def place(module: str) -> Place:
    """As `role`, with everything that has a draft's word in its name under MTP.

    A draft layer without a word of its own (DeepSeek V3's decoder layer 61) is told by number: `draft_layers`.
    """
    found = role(module)
    return as_draft(found) if _DRAFT.fullmatch(module) and found.component is not Component.VISION else found


def as_draft(found: Place) -> Place:
    """The same weight in a layer that `draft_layers` names: split as it would be, counted with the draft."""
    return Place(Component.MTP, found.split)


def draft_layers(config: Mapping[str, Any]) -> tuple[int, ...]:
    """Numbers of the layers after the last one that are MTP layers: DeepSeek V3, GLM-4.5 to 5.3, Step 3.5.

    Empty where there are none, and where they have a name of their own (`mtp.*`: Qwen3-Next, 3.5, MiMo, Nemotron 3).
    Source: `get_spec_layer_idx_from_weight_name` of vLLM's DeepSeek V2 model.
    """
    _, part = language_part(config)
    layers, more = part.get("num_hidden_layers"), part.get("num_nextn_predict_layers")
    if type(layers) is not int or type(more) is not int or not 0 < more < 1000:
        return ()
    return tuple(range(layers, layers + more))
