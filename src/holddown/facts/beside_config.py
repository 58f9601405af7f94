"""The small files beside config.json: which tokenizer there is, how the model is sampled."""

from collections.abc import Iterable

from holddown.base.evidence import Fact, Unknown, from_file
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
