"""How a quantiser stores one weight: which tensors it writes for it, of which dtype and shape."""

from dataclasses import dataclass
from enum import StrEnum
from math import prod

# Bits of an element, by safetensors' dtype name, for what quantisers write.
_BITS = {
    "F64": 64, "F32": 32, "F16": 16, "BF16": 16, "I64": 64, "I32": 32, "I8": 8, "U8": 8, "F8_E4M3": 8, "F8_E8M0": 8,
}  # fmt: skip

Shape = tuple[int, ...]


class Layout(StrEnum):
    """Whose way of writing it is."""

    COMPRESSED_TENSORS = "compressed-tensors"
    MODELOPT = "modelopt"
    FP8 = "fp8"
    DEEPSEEK_V4 = "deepseek-v4"
    GPT_OSS = "gpt-oss"
    AWQ = "awq"
    GPTQ = "gptq"
    BITSANDBYTES = "bitsandbytes"


@dataclass(frozen=True, slots=True)
class Scheme:
    """How one weight of (out, in) features is stored.

    format: the word that `WeightGroup.format` has for it. group_size: input features to one scale, 0 where a scale
    covers a row or more. block: (out, in) features to one scale, (0, 0) for none. per_channel: a scale to each output
    feature. input_scale: a static scale of the activations beside it. act_order: an index of input features beside it.
    nested: bitsandbytes' scales are quantised themselves. packed: compressed-tensors' integers, several to an I32.
    """

    format: str
    layout: Layout
    bits: int
    group_size: int = 0
    block: tuple[int, int] = (0, 0)
    per_channel: bool = False
    symmetric: bool = True
    input_scale: bool = False
    act_order: bool = False
    nested: bool = False
    packed: bool = False


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """part: what stands after the module's name; empty for a bare parameter."""

    part: str
    dtype: str
    shape: Shape

    @property
    def size_bytes(self) -> int:
        return prod(self.shape) * _BITS[self.dtype] // 8


def stored_tensors(scheme: Scheme, shape: Shape, dtype: str) -> tuple[StoredTensor, ...]:
    """The weight's own tensor first. shape: (out, in), or (experts, out, in) for gpt-oss. dtype: of the unquantised.

    Source: the writers themselves: compressed-tensors 0.17, ModelOpt 0.45's export, transformers' FP8 and MXFP4
    integrations, AutoAWQ, GPTQModel, bitsandbytes' QuantState. Raises: ValueError.
    """
    match scheme.layout:
        case Layout.COMPRESSED_TENSORS:
            return _compressed_tensors(scheme, shape, dtype)
        case Layout.MODELOPT:
            return _modelopt(scheme, shape)
        case Layout.FP8:
            return _fp8(scheme, shape)
        case Layout.DEEPSEEK_V4:
            return _deepseek_v4(scheme, shape)
        case Layout.GPT_OSS:
            return _gpt_oss(shape)
        case Layout.AWQ | Layout.GPTQ:
            return _packed_columns(scheme, shape)
        case Layout.BITSANDBYTES:
            return _bitsandbytes(scheme, shape)


def _groups(features: int, size: int) -> int:
    return -(-features // size)


def _compressed_tensors(scheme: Scheme, shape: Shape, dtype: str) -> tuple[StoredTensor, ...]:
    out, features = shape
    inputs = [StoredTensor("input_scale", dtype, (1,))] if scheme.input_scale else []
    if scheme.format == "nvfp4":
        inputs = [StoredTensor("input_global_scale", "F32", (1,))] if scheme.input_scale else []
        return (
            StoredTensor("weight_packed", "U8", (out, features // 2)),
            StoredTensor("weight_scale", "F8_E4M3", (out, _groups(features, scheme.group_size))),
            StoredTensor("weight_global_scale", "F32", (1,)),
            *inputs,
        )
    if scheme.format == "mxfp4":
        scale = StoredTensor("weight_scale", "U8", (out, _groups(features, scheme.group_size)))
        return (StoredTensor("weight_packed", "U8", (out, features // 2)), scale)
    if scheme.format == "mxfp8":
        scale = StoredTensor("weight_scale", "U8", (out, _groups(features, scheme.group_size)))
        return (StoredTensor("weight", "F8_E4M3", shape), scale)
    scale_shape = _scale_shape(scheme, shape)
    scale = StoredTensor("weight_scale", dtype, scale_shape)
    if scheme.format.startswith("fp8"):
        return (StoredTensor("weight", "F8_E4M3", shape), scale, *inputs)
    if not scheme.packed:
        return (StoredTensor("weight", "I8", shape), scale, *inputs)
    return (
        StoredTensor("weight_packed", "I32", (out, _groups(features, 32 // scheme.bits))),
        scale,
        *([] if scheme.symmetric else [_packed_zeros(scheme, scale_shape)]),
        *([StoredTensor("weight_g_idx", "I32", (features,))] if scheme.act_order else []),
        StoredTensor("weight_shape", "I64", (2,)),
    )


def _packed_zeros(scheme: Scheme, scale_shape: Shape) -> StoredTensor:
    rows = _groups(scale_shape[0], 32 // scheme.bits)
    return StoredTensor("weight_zero_point", "I32", (rows, *scale_shape[1:]))


def _scale_shape(scheme: Scheme, shape: Shape) -> Shape:
    out, features = shape
    if scheme.group_size:
        return (out, _groups(features, scheme.group_size))
    if scheme.block != (0, 0):
        return (_groups(out, scheme.block[0]), _groups(features, scheme.block[1]))
    return (out, 1) if scheme.per_channel else (1,)


def _modelopt(scheme: Scheme, shape: Shape) -> tuple[StoredTensor, ...]:
    out, features = shape
    inputs = [StoredTensor("input_scale", "F32", ())] if scheme.input_scale else []
    if scheme.format == "nvfp4":
        return (
            StoredTensor("weight", "U8", (out, features // 2)),
            StoredTensor("weight_scale", "F8_E4M3", (out, _groups(features, scheme.group_size))),
            StoredTensor("weight_scale_2", "F32", ()),
            *inputs,
        )
    if scheme.format == "mxfp8":
        scale = StoredTensor("weight_scale", "U8", (out, _groups(features, scheme.group_size)))
        return (StoredTensor("weight", "F8_E4M3", shape), scale)
    if scheme.format == "int4":  # W4A16_AWQ: two output features to a byte
        scale = StoredTensor("weight_scale", "F32", (out, _groups(features, scheme.group_size)))
        return (StoredTensor("weight", "U8", (out // 2, features)), scale)
    scale_shape = _scale_shape(scheme, shape) if scheme.block != (0, 0) or scheme.per_channel else ()
    return (StoredTensor("weight", "F8_E4M3", shape), StoredTensor("weight_scale", "F32", scale_shape), *inputs)


def _fp8(scheme: Scheme, shape: Shape) -> tuple[StoredTensor, ...]:
    weight = StoredTensor("weight", "F8_E4M3", shape)
    if scheme.block != (0, 0):
        return (weight, StoredTensor("weight_scale_inv", "F32", _scale_shape(scheme, shape)))
    inputs = [StoredTensor("input_scale", "F32", ())] if scheme.input_scale else []
    return (weight, StoredTensor("weight_scale", "F32", (shape[0], 1) if scheme.per_channel else ()), *inputs)


def _deepseek_v4(scheme: Scheme, shape: Shape) -> tuple[StoredTensor, ...]:
    """Scales are powers of two, in one byte; FP4 weights lie two to an I8."""
    out, features = shape
    if scheme.format == "mxfp4":
        scale = StoredTensor("scale", "F8_E8M0", (out, _groups(features, scheme.group_size)))
        return (StoredTensor("weight", "I8", (out, features // 2)), scale)
    return (StoredTensor("weight", "F8_E4M3", shape), StoredTensor("scale", "F8_E8M0", _scale_shape(scheme, shape)))


def _gpt_oss(shape: Shape) -> tuple[StoredTensor, ...]:
    """All experts of a layer in one tensor, 32 values to 16 bytes and one scale."""
    if len(shape) != len(("experts", "out", "in")):
        raise ValueError("holddown has no rule for MXFP4 experts that lie apart from each other")
    experts, out, features = shape
    groups = _groups(features, 32)
    return (
        StoredTensor("blocks", "U8", (experts, out, groups, 16)),
        StoredTensor("scales", "U8", shape[:2] + (groups,)),
    )


def _packed_columns(scheme: Scheme, shape: Shape) -> tuple[StoredTensor, ...]:
    """AWQ packs output features, GPTQ input features; both keep the weight as (in, out)."""
    out, features = shape
    each = 32 // scheme.bits
    groups = _groups(features, scheme.group_size) if scheme.group_size else 1
    zeros = StoredTensor("qzeros", "I32", (groups, _groups(out, each)))
    scales = StoredTensor("scales", "F16", (groups, out))
    if scheme.layout is Layout.AWQ:
        return (StoredTensor("qweight", "I32", (features, _groups(out, each))), zeros, scales)
    weight = StoredTensor("qweight", "I32", (_groups(features, each), out))
    return (weight, zeros, scales, StoredTensor("g_idx", "I32", (features,)))


def _bitsandbytes(scheme: Scheme, shape: Shape) -> tuple[StoredTensor, ...]:
    """Blocks of 64 over the flattened weight. quant_state is JSON whose length varies by a few bytes with the shape."""
    if scheme.bits == 8:
        scale = StoredTensor("SCB", "F32", (shape[0],))
        return (StoredTensor("weight", "I8", shape), scale, StoredTensor("weight_format", "U8", ()))
    elements = prod(shape)
    blocks = _groups(elements, 64)
    kind = f"weight.quant_state.bitsandbytes__{'fp4' if scheme.format == 'fp4' else 'nf4'}"
    weight = StoredTensor("weight", "U8", (_groups(elements, 2), 1))
    state = StoredTensor("weight.quant_map", "F32", (16,)), StoredTensor(kind, "U8", (86,))
    if not scheme.nested:
        return (weight, StoredTensor("weight.absmax", "F32", (blocks,)), *state)
    nested = StoredTensor("weight.nested_absmax", "F32", (_groups(blocks, 256),))
    nested_map = StoredTensor("weight.nested_quant_map", "F32", (256,))
    return (weight, StoredTensor("weight.absmax", "U8", (blocks,)), nested, nested_map, *state)
