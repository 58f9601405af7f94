"""The tensors of a whole language model: embedding, layers, last norm and head."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from holddown.facts.attention import CompressedAttention
from holddown.facts.families.attention import attention_modules
from holddown.facts.families.family import Family, Fused, find_family, find_wrapper
from holddown.facts.families.feed_forward import dense_modules, moe_modules
from holddown.facts.families.module import Module, bare, linear, norm, under
from holddown.facts.hf_keys import VOCAB_SIZE, Keys, NotUnderstoodError, language_part
from holddown.facts.layers import Layer, read_layers


@dataclass(frozen=True, slots=True)
class Decoder:
    """What of a config its tensors follow from. prefix: what stands before `layers.`; head: the output's name.

    split_experts: whether each expert has modules of its own, as quantised checkpoints have it.
    """

    keys: Keys
    family: Family
    prefix: str
    head: str
    layers: tuple[Layer, ...]
    tied: bool
    split_experts: bool
    note: str

    @property
    def hidden(self) -> int:
        return self.keys.size("hidden_size")

    @property
    def vocabulary(self) -> int:
        return self.keys.size(*VOCAB_SIZE)


# Activations that no family has a gate with. Source: transformers' Arcee, Nemotron and Apertus models.
_UNGATED = ("relu2", "xielu")


def read_decoder(config: Mapping[str, Any], split_experts: bool) -> Decoder:
    """Raises: MissingKeyError, NotUnderstoodError."""
    part_prefix, part = language_part(config)
    family, note = find_family(config)
    keys = Keys(part, part_prefix)
    if keys.has("hidden_size_per_layer_input"):
        raise NotUnderstoodError(f"config.json {part_prefix}hidden_size_per_layer_input: embeddings of each layer")
    if keys.text("hidden_act") in _UNGATED:
        family = replace(family, gated=False)
    wrapper = find_wrapper(config)
    tied = part.get("tie_word_embeddings", config.get("tie_word_embeddings", family.tied))
    return Decoder(
        keys=keys,
        family=family,
        prefix=wrapper.prefix if wrapper else family.prefix,
        head=wrapper.head if wrapper else family.head,
        layers=read_layers(config),
        tied=tied is True,
        split_experts=split_experts,
        note=note,
    )


def decoder_modules(decoder: Decoder) -> Iterator[Module]:
    """Everything but the draft layers and the vision tower."""
    family, prefix = decoder.family, decoder.prefix
    yield Module(f"{prefix}{family.embedding}", (decoder.vocabulary, decoder.hidden))
    for layer, numbers in _alike(decoder):
        yield from under(f"{prefix}layers.*.", layer_modules(decoder, layer, numbers[0]), numbers)
    yield norm(f"{prefix}{family.last_norm}", decoder.hidden)
    yield from under(prefix, _around(decoder))
    if not decoder.tied:
        yield linear(decoder.head, decoder.vocabulary, decoder.hidden)


def _alike(decoder: Decoder) -> Iterator[tuple[Layer, tuple[int, ...]]]:
    """Layers of the same tensors together, in the order in which the first of them comes."""
    hashed = decoder.keys.size_or(0, "num_hash_layers")
    numbers: dict[tuple[Layer, bool], list[int]] = {}
    for number, layer in enumerate(decoder.layers):
        numbers.setdefault((layer, number < hashed), []).append(number)
    return ((layer, tuple(found)) for (layer, _), found in numbers.items())


def layer_modules(
    decoder: Decoder, layer: Layer, number: int, norms: tuple[str, ...] | None = None
) -> Iterator[Module]:
    """One layer's tensors, named relative to it. norms: where a draft layer's differ."""
    keys, family, hidden = decoder.keys, decoder.family, decoder.hidden
    if layer.attention is not None:
        yield from attention_modules(keys, family, layer.attention)
    if layer.dense_width:
        yield from dense_modules(keys, family, layer.dense_width)
    if layer.moe is not None:
        hashed = number < keys.size_or(0, "num_hash_layers")
        yield from moe_modules(keys, family, layer.moe, decoder.split_experts, hashed)
    for name in _norm_names(family, layer) if norms is None else norms:
        yield norm(name, hidden)
    yield from _beside(decoder, layer)


def _norm_names(family: Family, layer: Layer) -> tuple[str, ...]:
    """Nemotron NAS drops the norm with the part that it belongs to; Gemma 4 has three more around its experts."""
    if layer.dense_width and layer.moe is not None:
        more = ("pre_feedforward_layernorm_2", "post_feedforward_layernorm_1", "post_feedforward_layernorm_2")
        return (*family.norms, *more)
    if len(family.norms) != 2:
        return family.norms
    first, second = family.norms
    there = ((first, layer.attention is not None), (second, bool(layer.dense_width) or layer.moe is not None))
    return tuple(name for name, wanted in there if wanted)


def _beside(decoder: Decoder, layer: Layer) -> Iterator[Module]:
    """What single families have in each layer beside attention, feed forward and norms."""
    keys, hidden = decoder.keys, decoder.hidden
    if keys.text("model_type") == "gemma4_text":
        yield bare("layer_scalar", 1)
    if isinstance(layer.attention, CompressedAttention):
        yield from hyper_connections("attn", keys)
        yield from hyper_connections("ffn", keys)
    if keys.has("attn_res_block_size"):  # Kimi K3: attention over the residuals of earlier blocks
        for place in ("self_attention", "mlp"):
            yield norm(f"{place}_res_norm", hidden)
            yield Module(f"{place}_res_proj", (1, hidden))


def _around(decoder: Decoder) -> Iterator[Module]:
    keys, hidden = decoder.keys, decoder.hidden
    if keys.size_or(0, "hc_mult"):
        yield from hyper_head(keys)
    if keys.has("attn_res_block_size"):
        yield norm("output_attn_res_norm", hidden)
        yield Module("output_attn_res_proj", (1, hidden))


def hyper_connections(place: str, keys: Keys) -> Iterator[Module]:
    """DeepSeek V4 mixes `hc_mult` residual streams before and after each part. Source: transformers' DeepseekV4."""
    streams = keys.size("hc_mult")
    mixes = (2 + streams) * streams
    yield bare(f"hc_{place}_fn", mixes, streams * keys.size("hidden_size"), dtype="F32")
    yield bare(f"hc_{place}_base", mixes, dtype="F32")
    yield bare(f"hc_{place}_scale", 3, dtype="F32")


def hyper_head(keys: Keys) -> Iterator[Module]:
    streams = keys.size("hc_mult")
    yield bare("hc_head_fn", streams, streams * keys.size("hidden_size"), dtype="F32")
    yield bare("hc_head_base", streams, dtype="F32")
    yield bare("hc_head_scale", 1, dtype="F32")


def keeps_experts_together(decoder: Decoder) -> bool:
    """Whether the checkpoint as trained has all experts of a layer in one tensor."""
    return decoder.family.fused is not Fused.EACH
