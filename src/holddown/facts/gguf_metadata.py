"""A GGUF's metadata by key, as facts: each with the key it was read from, or why there is none."""

from collections.abc import Callable
from typing import TypeVar

from holddown.base.evidence import Fact, Known, Unknown, derived, from_file
from holddown.facts.gguf import GgufHeader

T = TypeVar("T")


class Metadata:
    """Keys of the model itself begin with the architecture's name: `llama.context_length`.

    header: of the first part, which carries them; None where it could not be read.
    """

    def __init__(self, header: GgufHeader | None) -> None:
        self.header = header
        architecture = header.value("general.architecture") if header else None
        self.architecture = architecture if isinstance(architecture, str) else ""

    def architectures(self) -> Fact[tuple[str, ...]]:
        fact = self.text("general.architecture")
        return Known((fact.value,), fact.source) if isinstance(fact, Known) else fact

    def text(self, key: str) -> Fact[str]:
        return self._fact(key, lambda value: value if isinstance(value, str) else None)

    def of_model(self, key: str) -> Fact[int]:
        return self._fact(
            f"{self.architecture}.{key}", lambda value: value if type(value) is int and value > 0 else None
        )

    def size(self, *keys: str) -> int:
        """The first of these keys of the model that holds a whole number above 0; 0 where none does."""
        for key in keys:
            fact = self.of_model(key)
            if isinstance(fact, Known):
                return fact.value
        return 0

    def by_layer(self, key: str, layers: int) -> tuple[int, ...] | None:
        """One value for each layer, whether one is given for all or one for each; None where there is neither."""
        value = self.header.value(f"{self.architecture}.{key}") if self.header else None
        if type(value) is int:
            return (value,) * layers
        array = self.header.array(f"{self.architecture}.{key}") if self.header else None
        if array is None or len(array.values) < layers:
            return None
        return tuple(int(number) for number in array.values[:layers])

    def layers(self) -> int:
        """Without the draft layers, which `block_count` counts too. 0 where it is not known."""
        return max(0, self.size("block_count") - self.size("nextn_predict_layers"))

    def kv_heads(self) -> Fact[int]:
        fact, heads = self.of_model("attention.head_count_kv"), self.of_model("attention.head_count")
        if isinstance(fact, Unknown) and not self._has_array("attention.head_count_kv") and isinstance(heads, Known):
            return derived(heads.value, "no head_count_kv: as many as head_count")
        return fact

    def vocab_size(self) -> Fact[int]:
        tokens = self.header.array("tokenizer.ggml.tokens") if self.header else None
        fact = self.of_model("vocab_size")
        if isinstance(fact, Unknown) and tokens is not None and tokens.length:
            return from_file(tokens.length, "length of tokenizer.ggml.tokens")
        return fact

    def _has_array(self, key: str) -> bool:
        return self.header is not None and self.header.array(f"{self.architecture}.{key}") is not None

    def _fact(self, key: str, accept: Callable[[object], T | None]) -> Fact[T]:
        if self.header is None:
            return Unknown("the header that holds the metadata could not be read")
        value = accept(self.header.value(key))
        if value is not None:
            return from_file(value, f"{self.header.name} {key}")
        if self.header.array(key) is not None:
            return Unknown(f"{key} is given per layer")
        return Unknown(f"no {key} in the metadata")
