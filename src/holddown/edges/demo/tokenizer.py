"""A byte-level BPE tokenizer as Hugging Face keeps it, from the lists that a GGUF keeps."""

import json
from dataclasses import dataclass
from typing import Any

CONTROL = 3
"""Token type of special tokens in `tokenizer.ggml.token_type`. Source: LLAMA_TOKEN_TYPE_CONTROL of llama.h."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """tokens: by id. types: one per token. merges: `left right`, first merge first. bos, eos, unk, pad: ids."""

    tokens: tuple[str, ...]
    types: tuple[int, ...]
    merges: tuple[str, ...]
    bos: int
    eos: int
    unk: int
    pad: int
    chat_template: str
    context_length: int

    @property
    def special(self) -> tuple[int, ...]:
        return tuple(token for token, kind in enumerate(self.types) if kind == CONTROL)


def tokenizer_json(vocabulary: Vocabulary) -> str:
    """tokenizer.json with the pre-tokenizer that llama.cpp calls `smollm`: each digit alone, then GPT-2's split.

    Source: LLAMA_VOCAB_PRE_TYPE_SMOLLM in llama.cpp's llama-vocab.cpp, whose two patterns these two steps are.
    """
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": token, **_added(vocabulary.tokens[token])} for token in vocabulary.special],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level],
        },
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: number for number, token in enumerate(vocabulary.tokens)},
            "merges": list(vocabulary.merges),
        },
    }
    return json.dumps(tokenizer, ensure_ascii=False)


def tokenizer_config_json(vocabulary: Vocabulary) -> str:
    """tokenizer_config.json. The class is the generic one: transformers 5 builds a GPT2Tokenizer's own pre-tokenizer
    in place of the one in tokenizer.json, and digits would no longer be split."""
    tokens = vocabulary.tokens
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "added_tokens_decoder": {str(token): _added(tokens[token]) for token in vocabulary.special},
        "bos_token": tokens[vocabulary.bos],
        "eos_token": tokens[vocabulary.eos],
        "unk_token": tokens[vocabulary.unk],
        "pad_token": tokens[vocabulary.pad],
        "additional_special_tokens": [tokens[vocabulary.bos], tokens[vocabulary.eos]],
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": vocabulary.context_length,
        "chat_template": vocabulary.chat_template,
    }
    return json.dumps(config, ensure_ascii=False, indent=2) + "\n"


def generation_config_json(vocabulary: Vocabulary) -> str:
    config = {"bos_token_id": vocabulary.bos, "eos_token_id": vocabulary.eos, "pad_token_id": vocabulary.pad}
    return json.dumps(config, indent=2) + "\n"


def _added(content: str) -> dict[str, Any]:
    return {
        "content": content,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }
