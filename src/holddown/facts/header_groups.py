"""From the tensors that headers list to weight groups: packed weights unpacked, scales put to the weight they belong
to.

Source of the layouts: what compressed-tensors, ModelOpt, AutoAWQ, GPTQModel and bitsandbytes write, transformers' FP8
and MXFP4 integrations, and the published files of DeepSeek and gpt-oss.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from holddown.facts.naming import Place, as_draft, is_scale, place, tensor_name
from holddown.facts.quantization import Quantization
from holddown.facts.safetensors import TensorKind
from holddown.facts.stored import Scheme
from holddown.facts.weight_groups import Component, Split, WeightGroup


@dataclass(frozen=True, slots=True)
class Grouping:
    """draft_layers: how many MTP layers there are. unknown: why parameters cannot be said, empty where they can."""

    groups: tuple[WeightGroup, ...]
    draft_layers: int
    unknown: str


@dataclass(frozen=True, slots=True)
class _Tensors:
    """Alike but for the numbers in their names. example: one of them, with its numbers. layers: the first numbers."""

    part: str
    dtype: str
    shape: tuple[int, ...]
    elements: int
    size_bytes: int
    count: int
    example: str
    layers: frozenset[int]


@dataclass(slots=True)
class _Sum:
    count: int = 0
    parameters: int = 0
    size_bytes: int = 0


@dataclass(slots=True)
class _Module:
    """All tensors of one module pattern."""

    weights: list[_Tensors] = field(default_factory=list)
    biases: list[_Tensors] = field(default_factory=list)
    scales: list[_Tensors] = field(default_factory=list)

    def scale(self, *parts: str) -> list[_Tensors]:
        return [tensors for tensors in self.scales if tensors.part in parts]


_WEIGHTS = frozenset({"", "weight", "weight_packed", "qweight", "blocks"})
_CACHE_SCALES = frozenset({"k_scale", "v_scale", "q_scale", "kv_scale", "prob_output_scale"})
_PLAIN = {"BF16": "bf16", "F16": "f16", "F32": "f32", "F64": "f64"}
# Scales of fused experts, which are bare parameters: `experts.gate_up_proj_scale_inv`, `..._weight_scale_2`.
_FUSED_SCALE = re.compile(r"(?P<module>.+)_(?P<part>(?:weight_|input_)?scale(?:s|_inv|_2)?)")
_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")
# A layer that has one of these is a draft layer, whatever the config says. Source: DeepSeek V3, GLM-4.5; llama.cpp.
# Below `mtp.` layers have these too and count from 0: `mtp.layers.0` says nothing of `layers.0` (MiMo, Nemotron 3).
_DRAFT_LAYER = re.compile(
    r"(?!(?:.*\.)?mtp\.)(?:.*\.)?(?:layers|blk)\.(?P<layer>\d{1,8})\.(?:eh_proj|enorm|hnorm|shared_head|nextn)\b"
)


def header_groups(kinds: Iterable[TensorKind], quantization: Quantization, draft: Iterable[int] = ()) -> Grouping:
    """draft: layers that the config says are MTP layers; those that their tensors' names give away are found here."""
    kinds = tuple(kinds)
    numbers = set(draft) | draft_by_name(kind.name for kind in kinds)
    modules = _modules(kinds, numbers)
    groups: list[WeightGroup] = []
    faults: list[str] = []
    layers: dict[bool, set[int]] = {False: set(), True: set()}
    for (pattern, in_draft), module in modules.items():
        where = _place(pattern, module, in_draft)
        if where.component is Component.MTP:
            layers[pattern.endswith(".eh_proj")].update(_layers(module, in_draft))
        for stored, total in _sums(module, quantization, faults).items():
            groups.append(WeightGroup(pattern, *_both(where), stored, total.count, total.parameters, total.size_bytes))
    order = list(Component)
    groups.sort(key=lambda group: (order.index(group.component), group.module, group.format))
    # a draft layer joins embedding and hidden state, where it has a projection of its own for that; Nemotron's is of
    # two numbered blocks, and one of them joins
    return Grouping(tuple(groups), len(layers[True] or layers[False]), faults[0] if faults else "")


def draft_by_name(names: Iterable[str]) -> set[int]:
    """Numbers of the layers of which some tensor is only ever a draft layer's."""
    return {int(match["layer"]) for name in names if (match := _DRAFT_LAYER.match(name))}


def _both(where: Place) -> tuple[Component, Split]:
    return where.component, where.split


def _layers(module: _Module, in_draft: bool) -> set[int]:
    """Numbers of its draft layers; below a name of their own (`mtp.layers.0`) they count from 0 again."""
    numbers = {layer for tensors in (*module.weights, *module.scales) for layer in tensors.layers}
    return numbers if in_draft else {-1 - number for number in numbers}


def _modules(kinds: Iterable[TensorKind], draft: set[int]) -> dict[tuple[str, bool], _Module]:
    """(module pattern, whether of a draft layer) -> its tensors."""
    in_draft = re.compile(rf"(?:.*\.)?(?:layers|blk)\.(?:{'|'.join(map(str, draft))})\.") if draft else None
    merged: dict[tuple[str, bool, str, tuple[int, ...]], list[TensorKind]] = {}
    for kind in kinds:
        of_draft = in_draft is not None and in_draft.match(kind.name) is not None
        key = (_NUMBER.sub("*", kind.name), of_draft, kind.dtype, kind.shape)
        merged.setdefault(key, []).append(kind)
    modules: dict[tuple[str, bool], _Module] = {}
    names = {key[0] for key in merged}
    for (pattern, of_draft, dtype, shape), alike in merged.items():
        name, part = _cut(pattern, names)
        one, count = alike[0], sum(kind.tensors for kind in alike)
        first = frozenset(int(match[0]) if (match := _NUMBER.search(kind.name)) else 0 for kind in alike)
        tensors = _Tensors(part, dtype, shape, one.elements, one.size_bytes, count, one.name, first)
        module = modules.setdefault((name, of_draft), _Module())
        if is_scale(part):
            module.scales.append(tensors)
        elif part in _WEIGHTS:
            module.weights.append(tensors)
        else:
            module.biases.append(tensors)
    return modules


def _cut(pattern: str, names: set[str]) -> tuple[str, str]:
    """Module and part of a name whose numbers are `*`."""
    found = tensor_name(pattern)
    fused = _FUSED_SCALE.fullmatch(pattern) if not found.part else None
    if fused is not None and fused["module"] in names:
        return fused["module"], fused["part"]
    return found.module, found.part


def _place(pattern: str, module: _Module, in_draft: bool) -> Place:
    found = place(pattern)
    if not module.weights and any(scale.part in _CACHE_SCALES for scale in module.scales):
        found = Place(Component.ATTENTION, Split.REPLICATED)
    return as_draft(found) if in_draft else found


def _sums(module: _Module, quantization: Quantization, faults: list[str]) -> dict[str, _Sum]:
    """Storage format -> how many weights, parameters and bytes. Scales go to the largest quantised weight."""
    sums: dict[str, _Sum] = {}
    for tensors in module.weights:
        stored, parameters = _stored(tensors, module, quantization)
        if parameters is None:
            faults.append(f"{tensors.example} is packed into {tensors.dtype}, and nothing says how many to an element")
        total = sums.setdefault(stored, _Sum())
        total.count += tensors.count
        total.parameters += (parameters or 0) * tensors.count
        total.size_bytes += tensors.size_bytes * tensors.count
    for tensors in (*module.biases, *module.scales):
        alone = _PLAIN.get(tensors.dtype, tensors.dtype.lower())
        owner = max(sums, key=lambda stored: (stored not in _PLAIN.values(), sums[stored].size_bytes), default=alone)
        total = sums.setdefault(owner, _Sum())
        total.size_bytes += tensors.size_bytes * tensors.count
        if not is_scale(tensors.part):
            total.parameters += tensors.elements * tensors.count
        if owner == alone and not module.weights:
            total.count += tensors.count
    return sums


def _stored(tensors: _Tensors, module: _Module, quantization: Quantization) -> tuple[str, int | None]:
    """The storage format, and the parameters of one tensor; None where neither header nor config says."""
    elements, scales = tensors.elements, module.scale("weight_scale", "weight_scale_inv", "scale", "scale_inv")
    match tensors.part, tensors.dtype:
        case _, "BF16" | "F16" | "F32" | "F64":
            # a buffer that old checkpoints keep; it follows from rope_theta
            return _PLAIN[tensors.dtype], 0 if tensors.example.endswith(".inv_freq") else elements
        case "blocks", _:
            return "mxfp4", 2 * elements
        case "qweight", _:
            return _columns(tensors, module, quantization)
        case "weight_packed", "I32" | "I64":
            return _packed(tensors, quantization)
        case (("weight" | "weight_packed" | ""), "U8"):
            return _bytes(tensors, module, scales)
        case (("weight" | ""), "I8"):
            wide = tensors.shape[-1] if tensors.shape else 1
            half = any(one.dtype == "F8_E8M0" and one.shape[-1:] == (wide // 16,) for one in scales)
            return ("mxfp4", 2 * elements) if half else ("int8", elements)
        case _, "F4":
            return "nvfp4" if any(one.dtype == "F8_E4M3" for one in scales) else "mxfp4", elements
        case _, ("F8_E4M3" | "F8_E5M2" | "F8_E4M3FNUZ" | "F8_E5M2FNUZ"):
            return _float8(tensors, scales), elements
        case _:
            pass
    # integers that are no weights: position ids, DeepSeek V4's table from tokens to experts
    return tensors.dtype.lower(), 0


def _bytes(tensors: _Tensors, module: _Module, scales: list[_Tensors]) -> tuple[str, int | None]:
    """Two four-bit weights to a byte; of which kind, the scales tell."""
    dtypes = {scale.dtype for scale in scales}
    two = 2 * tensors.elements
    if "F8_E4M3" in dtypes:
        return "nvfp4", two
    if dtypes & {"U8", "F8_E8M0"}:
        return "mxfp4", two
    bits = next((scale.part for scale in module.scales if "quant_state.bitsandbytes__" in scale.part), "")
    if bits:
        return bits.rsplit("__", 1)[1], two
    if dtypes:
        return "int4", two  # ModelOpt's W4A16_AWQ
    return "u8", None if tensors.part else 0


def _float8(tensors: _Tensors, scales: list[_Tensors]) -> str:
    wide = tensors.shape[-1] if tensors.shape else 1
    for scale in scales:
        if scale.dtype in ("U8", "F8_E8M0") and scale.shape[-1:] == (-(-wide // 32),):
            return "mxfp8"
    # a scale of F8_E4M3 belongs to NVFP4 weights of the same module in other layers
    blocks = [scale for scale in scales if len(scale.shape) >= 2 and scale.shape[-1] > 1 and scale.dtype != "F8_E4M3"]
    inverse = any(scale.part.endswith("_inv") and len(scale.shape) >= 2 for scale in scales)
    return "fp8-block" if blocks or inverse else "fp8"


def _packed(tensors: _Tensors, quantization: Quantization) -> tuple[str, int | None]:
    """compressed-tensors: as many to an integer as fit; how many bits each has is in the config alone."""
    scheme = _scheme(tensors, quantization)
    if scheme is None:
        return f"packed-{tensors.dtype.lower()}", None
    width = 64 if tensors.dtype == "I64" else 32
    return scheme.format, tensors.elements * (width // scheme.bits)


def _columns(tensors: _Tensors, module: _Module, quantization: Quantization) -> tuple[str, int | None]:
    """AWQ keeps (in, out * bits / 32), GPTQ (in * bits / 32, out); `g_idx` has `in`, `scales` (groups, out)."""
    rows, columns = (tensors.shape + (0, 0))[:2]
    inputs = next((index.shape[0] for index in module.scale("g_idx") if index.shape), 0)
    outputs = next((scale.shape[-1] for scale in module.scale("scales") if scale.shape), 0)
    for packed, whole in ((rows, inputs), (columns, outputs)):
        if 0 < packed < whole:
            bits = 32 * packed // whole
            return f"int{bits}", tensors.elements * whole // packed
    scheme = _scheme(tensors, quantization)
    return (scheme.format, tensors.elements * (32 // scheme.bits)) if scheme else ("packed-i32", None)


def _scheme(tensors: _Tensors, quantization: Quantization) -> Scheme | None:
    return quantization.scheme(tensors.example.removesuffix(f".{tensors.part}").replace("*", "0"))
