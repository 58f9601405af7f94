"""The small files beside config.json: which tokenizer there is, how the model is sampled; and its RoPE scaling."""

from collections.abc import Iterable, Mapping
from typing import Any

from holddown.base.evidence import Fact, Unknown, derived, from_file
from holddown.facts.hf_keys import language_part
from holddown.facts.json_object import json_object

GENERATION_CONFIG = "generation_config.json"

# file -> kind; the first that is there is what engines take. Source: transformers' AutoTokenizer, vLLM's
# tokenizer registry (tekken before all others only in Mistral's own mode).
_TOKENIZERS = (
    ("tokenizer.json", "fast"),
    ("tekken.json", "tekken"),
    ("tiktoken.model", "tiktoken"),
    ("tokenizer.model", "sentencepiece"),
    ("spiece.model", "sentencepiece"),
    ("vocab.json", "bpe"),
    ("vocab.txt", "wordpiece"),
)

_SAMPLING = (
    "do_sample", "temperature", "top_p", "top_k", "min_p", "typical_p", "repetition_penalty", "presence_penalty",
    "frequency_penalty", "no_repeat_ngram_size", "num_beams", "max_new_tokens", "max_length",
)  # fmt: skip


def tokenizer_kind(file_names: Iterable[str]) -> Fact[str]:
    """`fast`, `tekken`, `tiktoken`, `sentencepiece`, `bpe`, `wordpiece`."""
    names = set(file_names)
    for name, kind in _TOKENIZERS:
        if name in names:
            return from_file(kind, name)
    own = sorted(name for name in names if name.endswith(".tiktoken"))
    return from_file("tiktoken", own[0]) if own else Unknown("there is no tokenizer file")


def generation_config(text: str | None) -> Fact[str]:
    """The sampling keys as one line: `temperature=0.6 top_p=0.95`; `none` where the file has none of them."""
    if text is None:
        return Unknown(f"there is no {GENERATION_CONFIG}")
    try:
        values = json_object(text)
    except ValueError as error:
        return Unknown(f"{GENERATION_CONFIG} cannot be read: {error}")
    said = [f"{key}={values[key]}" for key in _SAMPLING if isinstance(values.get(key), int | float)]
    return from_file(" ".join(said) or "none", GENERATION_CONFIG)


def rope_scaling(config: Mapping[str, Any]) -> Fact[str]:
    """In words: `yarn x32 from 4096`; `none` where positions are as trained.

    Source: `rope_scaling` of transformers' configs, since version 5 `rope_parameters`.
    """
    prefix, part = language_part(config)
    for key in ("rope_scaling", "rope_parameters"):
        said = part.get(key)
        if not isinstance(said, dict):
            continue
        kind = said.get("rope_type", said.get("type"))
        if not isinstance(kind, str) or kind == "default":
            continue
        factor, original = said.get("factor"), said.get("original_max_position_embeddings")
        words = [kind]
        if isinstance(factor, int | float):
            words.append(f"x{factor:g}")
        if type(original) is int:
            words.append(f"from {original}")
        return from_file(" ".join(words), f"config.json {prefix}{key}")
    return derived("none", f"config.json {prefix}rope_scaling is not there, or changes nothing")
