"""The tensors of the layers that only a draft reads: MTP layers, as each family stores them."""

from collections.abc import Iterator
from dataclasses import replace
from typing import assert_never

from holddown.facts.attention import CompressedAttention, LinearAttention, SlidingWindow, SparseMla
from holddown.facts.families.decoder import Decoder, hyper_head, layer_modules
from holddown.facts.families.family import Draft
from holddown.facts.families.module import Module, linear, norm, under
from holddown.facts.hf_keys import Keys, NotUnderstoodError
from holddown.facts.layers import Layer

_MOST_DRAFT_LAYERS = 1000


def draft_count(decoder: Decoder) -> int:
    """How many MTP layers the checkpoint holds. Raises: NotUnderstoodError."""
    if decoder.family.draft is Draft.NONE:
        return 0
    keys, default = decoder.keys, decoder.family.draft_default
    count = keys.size_or(default, "num_nextn_predict_layers", "mtp_num_hidden_layers")
    if count > _MOST_DRAFT_LAYERS or len(_nemotron_kinds(keys)) > _MOST_DRAFT_LAYERS:
        raise NotUnderstoodError(f"config.json {keys.prefix}has {count} MTP layers")
    return count


def draft_modules(decoder: Decoder) -> Iterator[Module]:
    count = draft_count(decoder)
    if not count:
        return
    for module in _modules(decoder, count):
        yield replace(module, draft=True)


def _modules(decoder: Decoder, count: int) -> Iterator[Module]:
    first = len(decoder.layers)
    after, counted = tuple(range(first, first + count)), tuple(range(count))
    match decoder.family.draft:
        case Draft.NUMBERED:
            return under(f"{decoder.prefix}layers.*.", _numbered(decoder), after)
        case Draft.STEP:
            return under(f"{decoder.prefix}layers.*.", _step(decoder), after)
        case Draft.QWEN:
            return _qwen(decoder, counted)
        case Draft.MIMO:
            return under(f"{decoder.prefix}mtp.layers.*.", _mimo(decoder), counted)
        case Draft.MINIMAX:
            return under(f"{decoder.prefix}mtp.layers.*.", _minimax(decoder), counted)
        case Draft.NEMOTRON:
            return _nemotron(decoder)
        case Draft.DEEPSEEK_V4:
            return under("mtp.*.", _deepseek_v4(decoder), counted)
        case Draft.NONE:
            return iter(())
        case _ as never:
            assert_never(never)


def _last_full(decoder: Decoder) -> Layer:
    """The last layer with attention over every token: what Qwen's and DeepSeek's MTP layers are like.

    GLM-5.2's last layers borrow an indexer; its MTP layer has one of its own.
    """
    full = [
        layer
        for layer in decoder.layers
        if layer.attention is not None and not isinstance(layer.attention, LinearAttention | SlidingWindow)
    ]
    layer = full[-1] if full else decoder.layers[-1]
    if isinstance(layer.attention, SparseMla):
        return replace(layer, attention=replace(layer.attention, index_layers=1))
    return layer


def _joined(decoder: Decoder) -> Iterator[Module]:
    """The embedding of the next token and the hidden state, each normed, side by side into one projection.

    Quantisers leave it: vLLM's DeepSeek MTP layer has a plain Linear for it.
    """
    hidden = decoder.hidden
    yield norm("enorm", hidden)
    yield norm("hnorm", hidden)
    yield Module("eh_proj", (hidden, 2 * hidden))


def _numbered(decoder: Decoder) -> Iterator[Module]:
    """DeepSeek V3, GLM-4.5 to 5.3: a layer like the last, with copies of the embedding and the head.

    Source: DeepSeek V3's README_WEIGHTS.md; vLLM's deepseek_mtp.py and glm4_moe_mtp.py.
    """
    layer = _last_full(decoder)
    yield from layer_modules(decoder, layer, len(decoder.layers))
    yield from _joined(decoder)
    yield Module("embed_tokens", (decoder.vocabulary, decoder.hidden))
    yield norm("shared_head.norm", decoder.hidden)
    yield Module("shared_head.head", (decoder.vocabulary, decoder.hidden))


def _step(decoder: Decoder) -> Iterator[Module]:
    """Step 3.5: window attention and a plain feed forward, for `moe_layers_enum` ends before them; a head each.

    Source: vLLM's step3p5_mtp.py, which builds them by Step3p5DecoderLayer with these layer numbers.
    """
    windowed = [layer for layer in decoder.layers if isinstance(layer.attention, SlidingWindow)]
    dense = [layer.dense_width for layer in decoder.layers if layer.dense_width]
    attention = windowed[-1].attention if windowed else decoder.layers[-1].attention
    layer = Layer(attention, dense_width=dense[0] if dense else decoder.keys.size("intermediate_size"))
    yield from layer_modules(decoder, layer, len(decoder.layers))
    yield from _joined(decoder)
    yield norm("transformer.shared_head.norm", decoder.hidden)
    yield Module("transformer.shared_head.output", (decoder.vocabulary, decoder.hidden))


def _qwen(decoder: Decoder, counted: tuple[int, ...]) -> Iterator[Module]:
    """Qwen3-Next and 3.5: embedding and head are the model's own. Source: vLLM's qwen3_next_mtp.py, qwen3_5_mtp.py."""
    hidden = decoder.hidden
    yield Module("mtp.fc", (hidden, 2 * hidden))
    yield from under("mtp.layers.*.", layer_modules(decoder, _last_full(decoder), len(decoder.layers)), counted)
    for name in ("norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden"):
        yield norm(f"mtp.{name}", hidden)


def _mimo(decoder: Decoder) -> Iterator[Module]:
    """MiMo-V2-Flash: window attention and a plain feed forward. Source: vLLM's mimo_v2_mtp.py."""
    windowed = [layer for layer in decoder.layers if isinstance(layer.attention, SlidingWindow)]
    layer = Layer((windowed or decoder.layers)[-1].attention, dense_width=decoder.keys.size("intermediate_size"))
    norms = ("input_layernorm", "pre_mlp_layernorm", "final_layernorm")
    yield from layer_modules(decoder, layer, len(decoder.layers), norms)
    yield from _joined(decoder)


def _minimax(decoder: Decoder) -> Iterator[Module]:
    """MiniMax-M3. Source: vLLM's minimax_m3/nvidia/mtp.py."""
    layer = layer_modules(decoder, _last_full(decoder), len(decoder.layers))
    yield from under("transformer_layer.", layer)
    yield from _joined(decoder)
    yield norm("final_layernorm", decoder.hidden)


def _nemotron(decoder: Decoder) -> Iterator[Module]:
    """Nemotron 3: a layer for each letter of `mtp_hybrid_override_pattern`; the first joins, the last has the norm.

    Source: vLLM's nemotron_h_mtp.py.
    """
    kinds = _nemotron_kinds(decoder.keys)
    like = {
        "*": next((layer for layer in decoder.layers if _is_attention(layer)), None),
        "E": next((layer for layer in decoder.layers if layer.moe is not None), None),
    }
    for number, kind in enumerate(kinds):
        layer = like.get(kind)
        if layer is None:
            continue
        yield from under("mtp.layers.*.", layer_modules(decoder, layer, number), (number,))
        if number == 0:
            yield from under("mtp.layers.*.", _joined(decoder), (number,))
        if number == len(kinds) - 1:
            yield norm("mtp.layers.*.final_layernorm", decoder.hidden).under("", (number,))


def _nemotron_kinds(keys: Keys) -> str:
    """The pattern, which later configs spell out in `mtp_layers_block_type`."""
    letters = {"attention": "*", "moe": "E"}
    spelled = "".join(letters.get(str(kind), "") for kind in keys.items("mtp_layers_block_type"))
    return keys.text("mtp_hybrid_override_pattern") or spelled


def _is_attention(layer: Layer) -> bool:
    return layer.attention is not None and not isinstance(layer.attention, LinearAttention)


def _deepseek_v4(decoder: Decoder) -> Iterator[Module]:
    """DeepSeek V4: two projections in place of one, and a mixing head. Source: vLLM's deepseek_v4/nvidia/mtp.py."""
    keys, hidden = decoder.keys, decoder.hidden
    layer = decoder.layers[-1]
    ratios, number = keys.items("compress_ratios"), len(decoder.layers)
    if isinstance(layer.attention, CompressedAttention):
        ratio = ratios[number] if number < len(ratios) and type(ratios[number]) is int else 0
        layer = replace(layer, attention=replace(layer.attention, compress_ratios=(ratio,)))
    yield from layer_modules(decoder, layer, number)
    for name in ("enorm", "hnorm", "norm"):
        yield norm(name, hidden)
    yield linear("e_proj", hidden, hidden)
    yield linear("h_proj", hidden, hidden)
    yield from hyper_head(keys)
