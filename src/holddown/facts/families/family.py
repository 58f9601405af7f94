"""What a model type implies and its config does not say: names, norms, biases. One row a family."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from holddown.facts.hf_keys import language_part


class Fused(StrEnum):
    """How the experts of a layer lie in a checkpoint that is not quantised.

    EACH: every expert has modules of its own. OUT_IN, IN_OUT: one tensor (experts, out, in) or (experts, in, out) for
    gate and up together. SPLIT: one tensor for each of gate, up, down.
    """

    EACH = "each"
    OUT_IN = "out_in"
    IN_OUT = "in_out"
    SPLIT = "split"


class Draft(StrEnum):
    """Where the MTP layers are. NUMBERED: layers after the last, with copies of embedding and head (DeepSeek V3)."""

    NONE = "none"
    NUMBERED = "numbered"
    STEP = "step"
    QWEN = "qwen"
    MIMO = "mimo"
    NEMOTRON = "nemotron"
    MINIMAX = "minimax"
    DEEPSEEK_V4 = "deepseek_v4"


class QkNorm(StrEnum):
    """Norms of queries and keys: HEAD: one for all heads. WHOLE: over all heads together."""

    NONE = "none"
    HEAD = "head"
    WHOLE = "whole"


_W123 = ("w1", "w3", "w2")


@dataclass(frozen=True, slots=True)
class Family:
    """Defaults are Llama's. mlp, moe: where a dense and a sparse layer keep their feed forward. expert: names of gate,
    up and down; shared_expert: those of the shared one. shared_beside: it stands beside `moe`, not below it.
    router_scales: a scale of the router's input and one for each expert. router_bias: the name of the bias that only
    picks experts (`e_score_correction_bias`). o_bias: whether `attention_bias` means the output projection too.
    head_gate: a gate for each head where the config does not say. joined_qkv, joined_mlp: q, k and v, or gate and up,
    are one Linear. draft_default: MTP layers where the config has no key for them.
    """

    attention: str = "self_attn"
    mlp: str = "mlp"
    moe: str = "mlp"
    expert: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj")
    fused: Fused = Fused.EACH
    router: str = "gate"
    router_with_bias: bool = False
    router_bias: str = ""
    router_scales: bool = False
    shared: str = "shared_experts"
    shared_expert: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj")
    shared_beside: bool = False
    shared_gate: bool = False
    gated: bool = True
    qk_norm: QkNorm = QkNorm.NONE
    qkv_bias: bool = False
    o_bias: bool = True
    output_gate: bool = False
    sinks: str = ""
    head_gate: bool = False
    norms: tuple[str, ...] = ("input_layernorm", "post_attention_layernorm")
    last_norm: str = "norm"
    embedding: str = "embed_tokens"
    head: str = "lm_head"
    prefix: str = "model."
    tied: bool = False
    joined_qkv: bool = False
    joined_mlp: bool = False
    draft: Draft = Draft.NONE
    draft_default: int = 0


_DEEPSEEK = Family(router_bias="gate.e_score_correction_bias", draft=Draft.NUMBERED)
_QWEN3 = Family(qk_norm=QkNorm.HEAD)
_QWEN3_NEXT = Family(
    qk_norm=QkNorm.HEAD, shared="shared_expert", shared_gate=True, output_gate=True, draft=Draft.QWEN, draft_default=1
)
_QWEN3_5 = Family(
    qk_norm=QkNorm.HEAD, shared="shared_expert", shared_gate=True, output_gate=True, draft=Draft.QWEN,
    fused=Fused.OUT_IN,
)  # fmt: skip
_GEMMA = ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm")
_GLM4 = (
    "input_layernorm", "post_attention_layernorm", "post_self_attn_layernorm", "post_mlp_layernorm",
)  # fmt: skip
_AFTER = ("post_attention_layernorm", "post_feedforward_layernorm")
_KIMI_LINEAR = Family(
    moe="block_sparse_moe", expert=_W123, router_bias="gate.e_score_correction_bias", draft=Draft.NUMBERED
)
_MINIMAX_M3 = Family(
    moe="block_sparse_moe", expert=_W123, router_bias="e_score_correction_bias", qk_norm=QkNorm.HEAD,
    draft=Draft.MINIMAX,
)  # fmt: skip
_NEMOTRON_H = Family(
    attention="mixer", mlp="mixer", moe="mixer", router_bias="gate.e_score_correction_bias", gated=False,
    norms=("norm",), last_norm="norm_f", embedding="embeddings", prefix="backbone.", draft=Draft.NEMOTRON,
)  # fmt: skip
_STEP = Family(
    moe="moe", fused=Fused.SPLIT, router_bias="router_bias", shared="share_expert", shared_beside=True,
    qk_norm=QkNorm.HEAD, draft=Draft.STEP,
)  # fmt: skip

# Source of each row: transformers' modeling file of that type and its conversion_mapping.py (the names a checkpoint
# has), and the `load_weights` of vLLM's model. GLM-4.5's `attention_bias` is of q, k and v only; gpt-oss' of all four.
_FAMILIES: Mapping[str, Family] = {
    "llama": Family(),
    "mistral": Family(),
    "ministral3": Family(),
    "nemotron-nas": Family(),
    "granite": Family(),
    "granitemoe": Family(moe="block_sparse_moe", fused=Fused.OUT_IN, router="router.layer"),
    "smollm3": Family(),
    "seed_oss": Family(o_bias=False),
    "ernie4_5": Family(tied=True),
    "phi3": Family(joined_qkv=True, joined_mlp=True),
    "glm": Family(o_bias=False, joined_mlp=True),
    "glm4": Family(o_bias=False, joined_mlp=True, norms=_GLM4),
    "gemma": Family(tied=True),
    "olmo2": Family(qk_norm=QkNorm.WHOLE, norms=_AFTER),
    "olmo3": Family(qk_norm=QkNorm.WHOLE, norms=_AFTER),
    "olmoe": Family(qk_norm=QkNorm.WHOLE),
    "exaone4": Family(qk_norm=QkNorm.HEAD, norms=_AFTER),
    "cohere2": Family(norms=("input_layernorm",), tied=True),
    "qwen2": Family(qkv_bias=True),
    "qwen2_moe": Family(qkv_bias=True, shared="shared_expert", shared_gate=True),
    "qwen2_vl": Family(qkv_bias=True),
    "qwen2_5_vl": Family(qkv_bias=True),
    "qwen2_vl_text": Family(qkv_bias=True),
    "qwen2_5_vl_text": Family(qkv_bias=True),
    "qwen2_5_omni_text": Family(qkv_bias=True),
    "qwen3_omni_moe_text": _QWEN3,
    "qwen3": _QWEN3,
    "qwen3_moe": _QWEN3,
    "qwen3_vl_text": _QWEN3,
    "qwen3_vl_moe_text": Family(qk_norm=QkNorm.HEAD, fused=Fused.IN_OUT),
    "qwen3_next": _QWEN3_NEXT,
    "qwen3_5_text": _QWEN3_5,
    "qwen3_5_moe_text": _QWEN3_5,
    "gemma2": Family(norms=_GEMMA, tied=True),
    "gemma3_text": Family(norms=_GEMMA, qk_norm=QkNorm.HEAD, tied=True),
    "gemma4_text": Family(
        norms=_GEMMA, qk_norm=QkNorm.HEAD, tied=True, moe="", router="router.proj", router_scales=True,
        fused=Fused.OUT_IN,
    ),
    "gpt_oss": Family(fused=Fused.IN_OUT, router="router", router_with_bias=True, sinks="sinks"),
    "deepseek_v2": Family(draft=Draft.NUMBERED),
    "deepseek_v3": _DEEPSEEK,
    "deepseek_v32": _DEEPSEEK,
    "kimi_k2": _DEEPSEEK,
    "deepseek_v4": Family(
        attention="attn", mlp="ffn", moe="ffn", expert=_W123, shared_expert=_W123, router_with_bias=True,
        norms=("attn_norm", "ffn_norm"),
        embedding="embed", head="head", prefix="", draft=Draft.DEEPSEEK_V4,
    ),
    "glm4_moe": Family(
        router_bias="gate.e_score_correction_bias", o_bias=False, qk_norm=QkNorm.HEAD, draft=Draft.NUMBERED
    ),
    "glm4v_moe_text": Family(
        router_bias="gate.e_score_correction_bias", o_bias=False, qk_norm=QkNorm.HEAD, draft=Draft.NUMBERED
    ),
    "glm4_moe_lite": _DEEPSEEK,
    "glm_moe_dsa": _DEEPSEEK,
    "solar_open": Family(router_bias="gate.e_score_correction_bias"),
    "kimi_linear": _KIMI_LINEAR,
    "llama4_text": Family(
        mlp="feed_forward", moe="feed_forward", fused=Fused.IN_OUT, router="router", shared="shared_expert"
    ),
    "mixtral": Family(moe="block_sparse_moe", expert=_W123),
    "minimax_m2": Family(
        moe="block_sparse_moe", expert=_W123, router_bias="e_score_correction_bias", qk_norm=QkNorm.WHOLE
    ),
    "minimax_m3": _MINIMAX_M3,
    "minimax_m3_vl": _MINIMAX_M3,
    "mimo_v2_flash": Family(
        router_bias="gate.e_score_correction_bias", sinks="attention_sink_bias", draft=Draft.MIMO, draft_default=3
    ),
    "nemotron_h": _NEMOTRON_H,
    "step3p5": _STEP,
    "step3p7": replace(_STEP, head_gate=True),
}  # fmt: skip

# Where the model type is missing or of its publisher's own making.
_BY_ARCHITECTURE = {
    "DeepseekV4ForCausalLM": "deepseek_v4",
    "MiniMaxM3SparseForCausalLM": "minimax_m3",
    "Qwen3_5ForConditionalGeneration": "qwen3_5_text",
    "Qwen3_5MoeForConditionalGeneration": "qwen3_5_moe_text",
}


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A multimodal checkpoint around a language model: what stands before its names, and its head's name."""

    prefix: str = "language_model.model."
    head: str = "language_model.lm_head"


_INSIDE = Wrapper("model.language_model.", "lm_head")
# Source: transformers' conversion_mapping.py, and the ignore lists of the checkpoints in their own names.
_WRAPPERS = {
    "qwen3_vl": _INSIDE,
    "qwen3_vl_moe": _INSIDE,
    "qwen3_5": _INSIDE,
    "qwen3_5_moe": _INSIDE,
    "gemma4": _INSIDE,
    "glm4v_moe": _INSIDE,
    "qwen3_omni_moe": Wrapper("thinker.model.", "thinker.lm_head"),
    "qwen2_5_omni": Wrapper("thinker.model.", "thinker.lm_head"),
    "qwen2_vl": Wrapper("model.", "lm_head"),
    "qwen2_5_vl": Wrapper("model.", "lm_head"),
    # Mistral's large models are published as a language model alone, in a wrapper's config
    "mistral_large_3": Wrapper("model.", "lm_head"),
}


def find_family(config: Mapping[str, Any]) -> tuple[Family, str]:
    """The row, and a note for a person where there is none and Llama's way is taken."""
    _, part = language_part(config)
    types = [values.get("model_type") for values in (part, config)]
    architectures = [values.get("architectures") for values in (part, config)]
    named = [name for names in architectures if isinstance(names, list | tuple) for name in names]
    named += [name for name in architectures if isinstance(name, str)]
    for name in types:
        if isinstance(name, str) and name in _FAMILIES:
            return _FAMILIES[name], ""
    for name in named:
        if isinstance(name, str) and name in _BY_ARCHITECTURE:
            return _FAMILIES[_BY_ARCHITECTURE[name]], ""
    told = next((name for name in types if isinstance(name, str)), "without a model_type")
    return Family(), f"holddown does not know {told[:60]!r}: computed as a Llama of its keys"


def find_wrapper(config: Mapping[str, Any]) -> Wrapper | None:
    """None where the config is the language model's own."""
    prefix, _ = language_part(config)
    if not prefix:
        return None
    name = config.get("model_type")
    architectures = config.get("architectures")
    if isinstance(architectures, list) and "MistralLarge3ForCausalLM" in architectures:
        name = "mistral_large_3"
    return _WRAPPERS.get(name, Wrapper()) if isinstance(name, str) else Wrapper()
