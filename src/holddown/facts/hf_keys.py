"""The keys of a config.json, read with care: one part of it, several spellings of a key, and what is no number."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holddown.base.evidence import Fact, Unknown, from_file

# Keys that older architectures use for the same thing, today's first.
# Source: `attribute_map` of transformers' GPT-2, Falcon, MPT, Bloom and GLM configs; Step 3.5 for key-value heads.
HIDDEN_SIZE = ("hidden_size", "n_embd", "d_model")
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
HEADS = ("num_attention_heads", "n_head", "n_heads")
KV_HEADS = ("num_key_value_heads", "num_attention_groups", "num_kv_heads", "multi_query_group_num")
HEAD_DIM = ("head_dim", "attention_head_dim", "kv_channels")
CONTEXT_LENGTH = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length")
VOCAB_SIZE = ("vocab_size", "padded_vocab_size")

# The language model's part of a multimodal config.
# Source: transformers' composite configs; Kimi-VL, InternVL, DeepSeek-VL2, Qwen-Omni.
_TEXT_PARTS = ("text_config", "llm_config", "language_config", "thinker_config")
# Far above any model; a size beyond it is damage, and is not multiplied with others.
_MOST = 2**40


class MissingKeyError(ValueError):
    """A key that the shapes need and the config does not have. Its text is a sentence for a person."""


class NotUnderstoodError(ValueError):
    """A key whose value we have no rule for."""


def language_part(config: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Where the language model's sizes are, and the prefix that a person needs to find them."""
    prefix, part = "", config
    for _ in range(2):  # Qwen-Omni: thinker_config.text_config
        found = next((key for key in _TEXT_PARTS if isinstance(part.get(key), dict)), None)
        if found is None:
            break
        prefix, part = f"{prefix}{found}.", part[found]
    return prefix, part


@dataclass(frozen=True, slots=True)
class Keys:
    """One part of a config. prefix: how a person finds it (`text_config.`)."""

    values: Mapping[str, Any]
    prefix: str = ""

    def size(self, *names: str) -> int:
        """The first of these keys that holds a positive whole number. Raises: MissingKeyError."""
        found = self.size_or(0, *names)
        if not found:
            raise MissingKeyError(f"config.json has no {self.prefix}{names[0]}")
        return found

    def size_or(self, default: int, *names: str) -> int:
        """As `size`; 0 and null count as absent."""
        return next((size for name in names if (size := self._whole(name))), default)

    def fact(self, *names: str) -> Fact[int]:
        """As `size`, with the key that it was read from, or why there is none."""
        for name in names:
            if size := self._whole(name):
                return from_file(size, f"config.json {self.prefix}{name}")
        return Unknown(f"config.json has no {self.prefix}{names[0]}")

    def _whole(self, name: str) -> int:
        value = self.values.get(name)
        if type(value) is float and value.is_integer():
            value = int(value)
        return value if type(value) is int and 0 < value < _MOST else 0

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.values.get(name)
        return value if isinstance(value, bool) else default

    def text(self, name: str) -> str:
        value = self.values.get(name)
        return value if isinstance(value, str) else ""

    def items(self, name: str) -> tuple[Any, ...]:
        """The list under this key; empty where there is none."""
        value = self.values.get(name)
        return tuple(value) if isinstance(value, list) else ()

    def part(self, name: str) -> "Keys | None":
        value = self.values.get(name)
        return Keys(value, f"{self.prefix}{name}.") if isinstance(value, dict) else None

    def has(self, name: str) -> bool:
        """Whether the key says something: not absent, null, false, 0 or empty."""
        return bool(self.values.get(name))
