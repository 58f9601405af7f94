"""A Hugging Face checkpoint's own words: config.json and its neighbours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holddown.base.evidence import Fact, Known, Unknown, derived, from_file
from holddown.facts.attention import Attention
from holddown.facts.hf_keys import (
    CONTEXT_LENGTH,
    HEADS,
    HIDDEN_SIZE,
    KV_HEADS,
    LAYERS,
    VOCAB_SIZE,
    Keys,
    language_part,
)
from holddown.facts.json_object import json_object
from holddown.facts.layers import attention_by_layer, read_moe
from holddown.facts.model import Moe
from holddown.facts.naming import draft_layers
from holddown.facts.quantization import Quantization, read_quantization
from holddown.facts.rope import rope_text

CONFIG = "config.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
QUANT_CONFIG = "hf_quant_config.json"
TEMPLATE_JINJA = "chat_template.jinja"
TEMPLATE_JSON = "chat_template.json"


@dataclass(frozen=True, slots=True)
class HfConfig:
    """What config.json says of the language model. remote_modules: Python files that `auto_map` names.

    draft_layers: numbers of the layers that are MTP layers. storage: how each module is stored, and its KV cache.
    """

    architectures: Fact[tuple[str, ...]]
    model_type: Fact[str]
    dtype: Fact[str]
    max_position_embeddings: Fact[int]
    num_hidden_layers: Fact[int]
    hidden_size: Fact[int]
    num_attention_heads: Fact[int]
    num_key_value_heads: Fact[int]
    vocab_size: Fact[int]
    remote_modules: tuple[str, ...]
    attention: Fact[tuple[Attention, ...]]
    moe: Moe | None
    rope_scaling: Fact[str]
    draft_layers: tuple[int, ...]
    storage: Quantization


def read_config(text: str | bytes, quant_text: str | bytes | None = None) -> HfConfig:
    """Facts from config.json and, where there is one, hf_quant_config.json. Raises: ValueError."""
    top = json_object(text)
    prefix, inner = language_part(top)
    keys = Keys(inner, prefix)
    return HfConfig(
        architectures=_architectures(top),
        model_type=_text(top, "model_type"),
        dtype=_dtype(top, keys),
        max_position_embeddings=_context_length(keys),
        num_hidden_layers=_layers(keys),
        hidden_size=keys.fact(*HIDDEN_SIZE),
        num_attention_heads=keys.fact(*HEADS),
        num_key_value_heads=_kv_heads(keys),
        vocab_size=keys.fact(*VOCAB_SIZE),
        remote_modules=remote_modules(top),
        attention=attention_by_layer(top),
        moe=read_moe(top),
        rope_scaling=_rope_scaling(keys),
        draft_layers=draft_layers(top),
        storage=read_quantization(top, quant_text),
    )


def no_config(why: str) -> HfConfig:
    """Every fact unknown for the same reason."""
    none = Unknown(why)
    return HfConfig(
        architectures=none,
        model_type=none,
        dtype=none,
        max_position_embeddings=none,
        num_hidden_layers=none,
        hidden_size=none,
        num_attention_heads=none,
        num_key_value_heads=none,
        vocab_size=none,
        remote_modules=(),
        attention=none,
        moe=None,
        rope_scaling=none,
        draft_layers=(),
        storage=Quantization(none, none, why),
    )


def remote_modules(config: dict[str, Any]) -> tuple[str, ...]:
    """The Python files that `auto_map` names: `modeling_kimi.py`, or `org/repo--modeling_x.py` of another place."""
    auto_map = config.get("auto_map")
    if not isinstance(auto_map, dict):
        return ()
    named: set[str] = set()
    for value in auto_map.values():
        for reference in value if isinstance(value, list) else [value]:
            if isinstance(reference, str) and "." in reference:
                named.add(reference.rsplit(".", 1)[0] + ".py")
    return tuple(sorted(named))


def tokenizer_modules(text: str | bytes) -> tuple[str, ...]:
    """The Python files that tokenizer_config.json names. Raises: ValueError."""
    return remote_modules(json_object(text))


def chat_template(jinja: str | None, template_json: str | None, tokenizer_config: str | None) -> Fact[str]:
    """The template that transformers would take: chat_template.jinja, chat_template.json, tokenizer_config.json.

    Source: `PreTrainedTokenizerBase._from_pretrained` and `ProcessorMixin` of transformers.
    """
    if jinja is not None and jinja.strip():
        return from_file(jinja, TEMPLATE_JINJA)
    faults: list[str] = []
    for name, text in ((TEMPLATE_JSON, template_json), (TOKENIZER_CONFIG, tokenizer_config)):
        if text is None:
            continue
        try:
            template = _template(json_object(text).get("chat_template"))
        except ValueError as error:
            faults.append(f"{name} cannot be read: {error}")
            continue
        if template is not None:
            return from_file(template, f"{name} chat_template")
    return Unknown("; ".join(faults) or f"no {TEMPLATE_JINJA}, {TEMPLATE_JSON}, or chat_template in {TOKENIZER_CONFIG}")


def _template(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return None
    named = {
        row.get("name"): row.get("template")
        for row in value
        if isinstance(row, dict) and isinstance(row.get("name"), str)
    }
    for template in (named.get("default"), *named.values()):
        if isinstance(template, str):
            return template
    return None


def _architectures(top: Mapping[str, Any]) -> Fact[tuple[str, ...]]:
    value = top.get("architectures")
    if isinstance(value, list) and value and all(isinstance(name, str) for name in value):
        return from_file(tuple(value), f"{CONFIG} architectures")
    if isinstance(value, str) and value:  # some hand-made configs
        return from_file((value,), f"{CONFIG} architectures")
    return Unknown(f"{CONFIG} names no architectures")


def _text(values: Mapping[str, Any], key: str) -> Fact[str]:
    value = values.get(key)
    return from_file(value, f"{CONFIG} {key}") if isinstance(value, str) else Unknown(f"{CONFIG} has no {key}")


def _layers(keys: Keys) -> Fact[int]:
    """Nemotron 3 Ultra spells its layers out and does not say how many they are."""
    fact, kinds = keys.fact(*LAYERS), keys.items("layers_block_type")
    if isinstance(fact, Unknown) and kinds:
        return derived(len(kinds), f"length of {CONFIG} {keys.prefix}layers_block_type")
    return fact


def _rope_parts(inner: Mapping[str, Any]) -> Sequence[tuple[str, Mapping[str, Any]]]:
    """Name of the layer kind, empty where there is one for all, and what is said of it."""
    for key in ("rope_parameters", "rope_scaling"):
        said = inner.get(key)
        if isinstance(said, dict) and said:
            kinds = [(str(kind), part) for kind, part in said.items() if isinstance(part, dict)]
            return kinds or [("", said)]
    return []


def _rope_type(part: Mapping[str, Any]) -> str:
    return str(part.get("rope_type") or part.get("type") or "default")


def _rope_scaling(keys: Keys) -> Fact[str]:
    """In words; `none` where positions are as trained."""
    told = []
    for kind, part in _rope_parts(keys.values):
        name = _rope_type(part)
        if name in ("default", "mrope"):
            continue
        words = rope_text(name, part.get("factor"), part.get("original_max_position_embeddings"))
        told.append(f"{kind}: {words}" if kind else words)
    return from_file("; ".join(told) or "none", f"{CONFIG} {keys.prefix}rope_parameters or rope_scaling")


def _context_length(keys: Keys) -> Fact[int]:
    """`max_position_embeddings`, which with YaRN is the stretched length already; worked out where it is missing.

    Source: vLLM's _get_and_verify_max_len, which applies no factor of YaRN to it.
    """
    fact = keys.fact(*CONTEXT_LENGTH)
    if isinstance(fact, Known):
        return fact
    for _, part in _rope_parts(keys.values):
        original, factor = part.get("original_max_position_embeddings"), part.get("factor")
        if _rope_type(part) == "yarn" and type(original) is int and isinstance(factor, int | float):
            length = original * factor
            if 0 < length < 2**40:
                return derived(int(length), f"{CONFIG} {keys.prefix}rope_scaling: original length x factor")
    return fact


def _dtype(top: Mapping[str, Any], keys: Keys) -> Fact[str]:
    for part in (keys, Keys(top)):
        for key in ("dtype", "torch_dtype"):
            if part.text(key):
                return from_file(part.text(key).removeprefix("torch."), f"{CONFIG} {part.prefix}{key}")
    return Unknown(f"{CONFIG} has no dtype")


def _kv_heads(keys: Keys) -> Fact[int]:
    fact, heads = keys.fact(*KV_HEADS), keys.fact(*HEADS)
    if isinstance(fact, Known):
        return fact
    if keys.flag("multi_query"):
        return derived(1, f"{CONFIG} {keys.prefix}multi_query: one key-value head")
    if isinstance(heads, Known):
        return derived(heads.value, "no num_key_value_heads: as many as num_attention_heads")
    return fact
