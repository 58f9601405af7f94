"""A GGUF file, or the parts of a split one: what the headers say, put together into facts and every fault at once."""

from collections.abc import Iterable

from holddown.base.evidence import Fact, Known, Unknown, derived, from_file
from holddown.base.finding import Finding, Severity
from holddown.facts.gguf import GgufHeader, GgufTensor, size_finding
from holddown.facts.gguf_layers import gguf_attention, gguf_moe, layer_number
from holddown.facts.gguf_metadata import Metadata
from holddown.facts.header_groups import draft_by_name
from holddown.facts.model import CheckpointFormat, Inspection, ModelFacts
from holddown.facts.naming import as_draft, place, tensor_name
from holddown.facts.parameters import active_parameters, draft_parameters, total_parameters
from holddown.facts.rope import rope_text
from holddown.facts.weight_groups import Component, WeightGroup
from holddown.facts.weights import (
    ShardSeen,
    digest,
    dtype_bytes,
    gathered,
    missing_shards,
    tail_finding,
)

_PLAIN = {"F32": "f32", "F16": "f16", "BF16": "bf16", "F64": "f64"}


def gguf_facts(path: str, parts: tuple[ShardSeen, ...], missing: tuple[str, ...]) -> Inspection:
    """parts: in their order, the first of which carries the metadata. missing: parts that the name says there are."""
    headers = [part.header for part in parts if isinstance(part.header, GgufHeader)]
    # the metadata that counts is that of the first part; others carry only what the format demands
    metadata = Metadata(next((header for header in headers if header.value("split.no") in (None, 0)), None))
    tensors, twice = _once(headers)
    names = [tensor.name for tensor in tensors]
    draft = _draft_numbers(metadata, names)
    groups = _groups(tensors, draft)
    unread = len(missing) + len(parts) - len(headers)
    unknown = f"{unread} parts are missing or have no readable header" if unread else ""
    by_dtype = dtype_bytes((tensor.dtype, 1, tensor.size_bytes) for tensor in tensors)
    moe = gguf_moe(metadata, names)
    model = ModelFacts(
        path=path,
        format=CheckpointFormat.GGUF,
        digest=digest(parts, ""),
        architectures=metadata.architectures(),
        model_type=metadata.text("general.architecture"),
        parameters=total_parameters(groups, unknown, "the shapes in the tensor infos"),
        weights_bytes=sum(tensor.size_bytes for tensor in tensors),
        by_dtype=by_dtype,
        shards=len(parts) + len(missing),
        dtype=Unknown("a GGUF names no compute dtype; the engine picks one"),
        quantization=_quantization(by_dtype[0].dtype if by_dtype else None),
        max_position_embeddings=metadata.of_model("context_length"),
        num_hidden_layers=_layers(metadata),
        hidden_size=metadata.of_model("embedding_length"),
        num_attention_heads=metadata.of_model("attention.head_count"),
        num_key_value_heads=metadata.kv_heads(),
        vocab_size=metadata.vocab_size(),
        chat_template=metadata.text("tokenizer.chat_template"),
        weights=groups,
        attention=gguf_attention(metadata, names),
        moe=moe,
        active_parameters=active_parameters(groups, moe, unknown),
        draft_layers=len({layer_number(name) for name in names} & draft),
        draft_parameters=draft_parameters(groups),
        kv_cache_quantization=derived("none", "a GGUF asks for no quantised KV cache"),
        rope_scaling=_rope_scaling(metadata),
        generation_config=Unknown("a GGUF has no generation config"),
        tokenizer=metadata.text("tokenizer.ggml.model"),
    )
    of = len(parts) + len(missing)
    findings = [*missing_shards(missing, of, "the numbering of the others")]
    for part in parts:
        if isinstance(part.header, Finding):
            findings.append(part.header)
        elif isinstance(part.header, GgufHeader):
            findings.extend(found for found in (size_finding(part.header), tail_finding(part)) if found is not None)
    findings.extend((*_split_findings(headers, len(parts) + len(missing)), *twice))
    return Inspection(model, gathered(findings))


def _once(headers: Iterable[GgufHeader]) -> tuple[tuple[GgufTensor, ...], tuple[Finding, ...]]:
    """Every tensor, one that stands in two places counted once, with the finding that says so."""
    tensors: dict[str, GgufTensor] = {}
    twice: dict[str, str] = {}
    for header in headers:
        for tensor in header.tensors:
            if tensor.name in tensors:
                twice.setdefault(tensor.name, header.name)
            tensors.setdefault(tensor.name, tensor)
    if not twice:
        return tuple(tensors.values()), ()
    name, where = next(iter(twice.items()))
    what = f"{len(twice)} tensor{' stands' if len(twice) == 1 else 's stand'} twice; llama.cpp refuses that"
    seen = f"{name[:100]}, the second time in {where}"
    return tuple(tensors.values()), (Finding("tensor.duplicate", Severity.BLOCK, name, what, seen),)


def _draft_numbers(metadata: Metadata, names: Iterable[str]) -> set[int]:
    """Layers after the model's own. Source: llama.cpp's `nextn_predict_layers`, which `block_count` includes."""
    own, blocks = metadata.layers(), metadata.size("block_count")
    return set(range(own, min(blocks, own + 1000))) | draft_by_name(names)


def _groups(tensors: Iterable[GgufTensor], draft: set[int]) -> tuple[WeightGroup, ...]:
    sums: dict[tuple[str, bool, str], list[int]] = {}
    for tensor in tensors:
        found = tensor_name(tensor.name)
        in_draft = layer_number(tensor.name) in draft
        total = sums.setdefault((found.module, in_draft, _PLAIN.get(tensor.dtype, tensor.dtype)), [0, 0, 0])
        # a bias counts to its module, as in safetensors
        total[0] += found.part != "bias"
        total[1] += tensor.elements
        total[2] += tensor.size_bytes
    groups = []
    for (module, in_draft, stored), (count, elements, size) in sums.items():
        where = as_draft(place(module)) if in_draft else place(module)
        groups.append(WeightGroup(module, where.component, where.split, stored, max(count, 1), elements, size))
    order = list(Component)
    return tuple(sorted(groups, key=lambda group: (order.index(group.component), group.module, group.format)))


def _layers(metadata: Metadata) -> Fact[int]:
    blocks, draft = metadata.of_model("block_count"), metadata.size("nextn_predict_layers")
    if isinstance(blocks, Known) and draft and blocks.value > draft:
        return derived(blocks.value - draft, "block_count - nextn_predict_layers")
    return blocks


def _rope_scaling(metadata: Metadata) -> Fact[str]:
    kind = metadata.text(f"{metadata.architecture}.rope.scaling.type")
    if isinstance(kind, Unknown):
        return derived("none", "no rope.scaling.type in the metadata") if metadata.header else kind
    factor = metadata.header.value(f"{metadata.architecture}.rope.scaling.factor") if metadata.header else None
    original = metadata.size("rope.scaling.original_context_length")
    return from_file(rope_text(kind.value, factor, original), f"{metadata.architecture}.rope.scaling")


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
