"""A GGUF file, or the parts of a split one: what the headers say, put together into facts and every fault at once."""

from collections.abc import Callable
from typing import TypeVar

from holddown.base.evidence import Fact, Known, Unknown, derived, from_file
from holddown.base.finding import Finding, Severity
from holddown.facts.gguf import GgufHeader, size_finding
from holddown.facts.model import CheckpointFormat, Inspection, ModelFacts
from holddown.facts.weights import (
    ShardSeen,
    digest,
    dtype_bytes,
    gathered,
    missing_shards,
    sum_tallies,
    tail_finding,
)

T = TypeVar("T")

_PLAIN = frozenset({"F32", "F16", "BF16", "F64"})


def gguf_facts(path: str, parts: tuple[ShardSeen, ...], missing: tuple[str, ...]) -> Inspection:
    """parts: in their order, the first of which carries the metadata. missing: parts that the name says there are."""
    headers = [part.header for part in parts if isinstance(part.header, GgufHeader)]
    # the metadata that counts is that of the first part; others carry only what the format demands
    lookup = _Lookup(next((header for header in headers if header.value("split.no") in (None, 0)), None))
    tallies = sum_tallies(tally for header in headers for tally in header.by_dtype)
    unread = len(missing) + len(parts) - len(headers)
    elements = sum(tally.elements for tally in tallies)
    parameters: Fact[int] = derived(elements, "elements of all tensor infos")
    if unread:
        parameters = Unknown(f"{unread} parts are missing or have no readable header")
    model = ModelFacts(
        path=path,
        format=CheckpointFormat.GGUF,
        digest=digest(parts, ""),
        architectures=lookup.architectures(),
        model_type=lookup.text("general.architecture"),
        parameters=parameters,
        weights_bytes=sum(tally.size_bytes for tally in tallies),
        by_dtype=dtype_bytes(tallies),
        shards=len(parts) + len(missing),
        dtype=Unknown("a GGUF names no compute dtype; the engine picks one"),
        quantization=_quantization(tallies[0].dtype if tallies else None),
        max_position_embeddings=lookup.of_model("context_length"),
        num_hidden_layers=lookup.of_model("block_count"),
        hidden_size=lookup.of_model("embedding_length"),
        num_attention_heads=lookup.of_model("attention.head_count"),
        num_key_value_heads=lookup.kv_heads(),
        head_dim=lookup.head_dim(),
        vocab_size=lookup.vocab_size(),
        chat_template=lookup.text("tokenizer.chat_template"),
        remote_code_files=(),
    )
    of = len(parts) + len(missing)
    findings = [*missing_shards(missing, of, "the numbering of the others")]
    for part in parts:
        if isinstance(part.header, Finding):
            findings.append(part.header)
        elif isinstance(part.header, GgufHeader):
            findings.extend(found for found in (size_finding(part.header), tail_finding(part)) if found is not None)
    findings.extend(_split_findings(headers, len(parts) + len(missing)))
    return Inspection(model, gathered(findings))


def _quantization(most: str | None) -> Fact[str]:
    if most is None:
        return Unknown("no tensor could be read")
    return derived("none" if most in _PLAIN else most, f"{most} holds most of the bytes")


def _split_findings(headers: list[GgufHeader], parts: int) -> tuple[Finding, ...]:
    """`split.count` in the metadata against the parts that the file names tell of."""
    for header in headers:
        count = header.value("split.count")
        if type(count) is int and count > 1 and count != parts:
            what = f"{header.name} is one of {count} parts, and its name leads to {parts}"
            do = f"give the parts their names back: NAME-00001-of-{count:05}.gguf and on"
            return (Finding("shard.missing", Severity.BLOCK, header.name, what, "metadata split.count", do),)
    return ()


class _Lookup:
    """Metadata by key. Keys of the model itself begin with the architecture's name: `llama.context_length`."""

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

    def kv_heads(self) -> Fact[int]:
        fact, heads = self.of_model("attention.head_count_kv"), self.of_model("attention.head_count")
        if isinstance(fact, Unknown) and self._array("attention.head_count_kv") is None and isinstance(heads, Known):
            return derived(heads.value, "no head_count_kv: as many as head_count")
        return fact

    def head_dim(self) -> Fact[int]:
        if isinstance(self.of_model("attention.kv_lora_rank"), Known):
            return Unknown("multi-head latent attention has no single head_dim")
        fact = self.of_model("attention.key_length")
        hidden, heads = self.of_model("embedding_length"), self.of_model("attention.head_count")
        if isinstance(fact, Known) or isinstance(hidden, Unknown) or isinstance(heads, Unknown):
            return fact
        return derived(hidden.value // heads.value, "embedding_length / head_count")

    def vocab_size(self) -> Fact[int]:
        tokens = self.header.array_length("tokenizer.ggml.tokens") if self.header else None
        fact = self.of_model("vocab_size")
        if isinstance(fact, Unknown) and tokens:
            return from_file(tokens, "length of tokenizer.ggml.tokens")
        return fact

    def _array(self, key: str) -> int | None:
        return self.header.array_length(f"{self.architecture}.{key}") if self.header else None

    def _fact(self, key: str, accept: Callable[[object], T | None]) -> Fact[T]:
        if self.header is None:
            return Unknown("the header that holds the metadata could not be read")
        value = accept(self.header.value(key))
        if value is not None:
            return from_file(value, f"{self.header.name} {key}")
        if self.header.array_length(key) is not None:
            return Unknown(f"{key} is given per layer")
        return Unknown(f"no {key} in the metadata")
