"""From config.json alone: every tensor that the checkpoint holds, its parameters, and its bytes by component."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from holddown.base.evidence import Fact, Unknown, derived
from holddown.facts.families.decoder import Decoder, decoder_modules, keeps_experts_together, read_decoder
from holddown.facts.families.draft import draft_count, draft_modules
from holddown.facts.families.module import Module, Shape
from holddown.facts.families.vision import vision_modules
from holddown.facts.json_object import json_object
from holddown.facts.model import Moe
from holddown.facts.naming import Place, as_draft, place, role
from holddown.facts.parameters import active_parameters, draft_parameters, total_parameters
from holddown.facts.quantization import Quantization, read_quantization
from holddown.facts.stored import Layout, Scheme, StoredTensor, stored_tensors
from holddown.facts.weight_groups import Component, Split, WeightGroup

# transformers' words for a dtype, and safetensors'.
_DTYPES = {"bfloat16": "BF16", "float16": "F16", "half": "F16", "float32": "F32", "float": "F32"}
_MOST_ELEMENTS = 2**60
_AS_TRAINED = Quantization(Unknown("not asked"), Unknown("not asked"))


@dataclass(frozen=True, slots=True)
class TensorRow:
    """Tensors of one name pattern, dtype and shape. spans: for each `*` of the name the numbers it runs through."""

    name: str
    dtype: str
    shape: Shape
    spans: tuple[tuple[int, ...], ...]

    @property
    def count(self) -> int:
        return prod(len(span) for span in self.spans)

    def names(self) -> Iterator[str]:
        """Every full name."""
        return _filled(self.name, self.spans)


@dataclass(frozen=True, slots=True)
class Shapes:
    """weights: grouped as headers are. parameters, active_parameters: as `ModelFacts` has them; also where it is not
    understood how the weights are stored.

    notes: what was taken for granted, a sentence each.
    """

    weights: Fact[tuple[WeightGroup, ...]]
    parameters: Fact[int]
    active_parameters: Fact[int]
    draft_parameters: int = 0
    draft_layers: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Model:
    decoder: Decoder
    modules: tuple[Module, ...]
    quantization: Quantization
    dtype: str
    notes: tuple[str, ...]


def shapes(config_text: str | bytes, quant_text: str | bytes | None = None) -> Shapes:
    """quant_text: hf_quant_config.json, where there is one. Raises: ValueError where config.json is no JSON object."""
    config = json_object(config_text)
    try:
        model = _read(config, quant_text)
        trained = _weight_groups(replace(model, quantization=_AS_TRAINED))
    except ValueError as error:
        why = Unknown(str(error))
        return Shapes(why, why, why)
    if sum(group.parameters for group in trained) > _MOST_ELEMENTS:
        why = Unknown("the sizes in config.json are beyond any model")
        return Shapes(why, why, why)
    source = "the shapes that config.json gives"
    return Shapes(
        _weights(model, source),
        total_parameters(trained, "", source),
        active_parameters(trained, _experts(model.decoder), ""),
        draft_parameters(trained),
        draft_count(model.decoder),
        model.notes,
    )


def _weights(model: _Model, source: str) -> Fact[tuple[WeightGroup, ...]]:
    if model.quantization.not_understood:
        return Unknown(model.quantization.not_understood)
    try:
        return derived(_weight_groups(model), source)
    except ValueError as error:
        return Unknown(str(error))


def tensor_rows(config_text: str | bytes, quant_text: str | bytes | None = None) -> tuple[TensorRow, ...]:
    """The tensors that such a checkpoint's files hold. Raises: ValueError where the config is not understood."""
    model = _read(json_object(config_text), quant_text)
    if model.quantization.not_understood:
        raise ValueError(model.quantization.not_understood)
    return tuple(
        TensorRow(_joined(module, tensor.part), tensor.dtype, tensor.shape, module.spans)
        for module, scheme in _by_scheme(model)
        for tensor in _tensors(module, scheme, model.dtype)
    )


def modules(config: Mapping[str, Any], split_experts: bool = False) -> tuple[Module, ...]:
    """Every module of the checkpoint, the draft's included. Raises: MissingKeyError, NotUnderstoodError."""
    return _all(config, read_decoder(config, split_experts))


def _all(config: Mapping[str, Any], decoder: Decoder) -> tuple[Module, ...]:
    vision, _ = vision_modules(config)
    return (*decoder_modules(decoder), *draft_modules(decoder), *vision)


def _read(config: Mapping[str, Any], quant_text: str | bytes | None) -> _Model:
    quantization = read_quantization(config, quant_text)
    decoder = read_decoder(config, split_experts=False)
    if keeps_experts_together(decoder) and _splits_experts(decoder, quantization):
        decoder = read_decoder(config, split_experts=True)
    _, note = vision_modules(config)
    notes = tuple(text for text in (decoder.note, note) if text)
    return _Model(decoder, _all(config, decoder), quantization, _dtype(config, decoder), notes)


def _splits_experts(decoder: Decoder, quantization: Quantization) -> bool:
    """Quantisers unpack a layer's experts into modules; gpt-oss' own MXFP4 keeps them together."""
    moe = f"{decoder.family.moe}." if decoder.family.moe else ""
    scheme = quantization.scheme(f"{decoder.prefix}layers.{len(decoder.layers) - 1}.{moe}experts.0.down_proj")
    return scheme is not None and scheme.layout is not Layout.GPT_OSS


def _dtype(config: Mapping[str, Any], decoder: Decoder) -> str:
    for values in (decoder.keys.values, config):
        for key in ("dtype", "torch_dtype"):
            named = str(values.get(key)).removeprefix("torch.")
            if named in _DTYPES:
                return _DTYPES[named]
    return "BF16"


# --- from modules to groups


def module_place(module: Module) -> Place:
    """What the module is for, that of a draft layer under MTP."""
    return as_draft(role(module.name)) if module.draft else place(module.name)


def _experts(decoder: Decoder) -> Moe | None:
    return next((layer.moe for layer in decoder.layers if layer.moe is not None), None)


def _by_scheme(model: _Model) -> Iterator[tuple[Module, Scheme | None]]:
    """Modules of one pattern, parted where a list of the config names some of their layers.

    The first `*` is the layer's number; experts of one layer are stored alike, so the first speaks for all.
    """
    for module in model.modules:
        if not module.linear or not model.quantization.groups:
            yield module, None
        elif not module.spans:
            yield module, model.quantization.scheme(module.name)
        else:
            layers: dict[Scheme | None, list[int]] = {}
            for number in module.spans[0]:
                full = next(_filled(module.name, ((number,), *(span[:1] for span in module.spans[1:]))))
                layers.setdefault(model.quantization.scheme(full), []).append(number)
            for scheme, numbers in layers.items():
                yield replace(module, spans=(tuple(numbers), *module.spans[1:])), scheme


def _filled(name: str, spans: tuple[tuple[int, ...], ...]) -> Iterator[str]:
    if not spans:
        yield name
        return
    head, _, tail = name.partition("*")
    for number in spans[0]:
        for rest in _filled(tail, spans[1:]):
            yield f"{head}{number}{rest}"


def _tensors(module: Module, scheme: Scheme | None, dtype: str) -> tuple[StoredTensor, ...]:
    """One module's tensors as the file has them."""
    own = module.dtype or dtype
    bias = (StoredTensor("bias", own, module.bias),) if module.bias else ()
    if scheme is None:
        return (StoredTensor(module.part, own, module.shape), *bias)
    return (*stored_tensors(scheme, _out_in(module), dtype), *bias)


def _out_in(module: Module) -> Shape:
    """gpt-oss' MXFP4 turns its experts to (experts, out, in), which as trained are (experts, in, out)."""
    if module.fused and len(module.shape) == len(("experts", "in", "out")) and module.part == "":
        experts, features, out = module.shape
        return (experts, out, features)
    return module.shape


def _joined(module: Module, part: str) -> str:
    """`experts.down_proj_blocks`, and `down_proj.weight` for all that are modules of their own."""
    if not part:
        return module.name
    return f"{module.name}{'_' if module.fused and not module.part else '.'}{part}"


def _weight_groups(model: _Model) -> tuple[WeightGroup, ...]:
    groups: dict[tuple[str, Component, Split, str], list[int]] = {}
    for module, scheme in _by_scheme(model):
        tensors = _tensors(module, scheme, model.dtype)
        stored = scheme.format if scheme else tensors[0].dtype.lower()
        where = module_place(module)
        sums = groups.setdefault((module.name, where.component, where.split, stored), [0, 0, 0])
        sums[0] += module.count
        sums[1] += module.count * module.parameters
        sums[2] += module.count * sum(tensor.size_bytes for tensor in tensors)
    return tuple(WeightGroup(*key, *sums) for key, sums in groups.items())
