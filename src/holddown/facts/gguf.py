"""A GGUF file, from its header alone: magic, metadata, tensor infos; versions 2 and 3.

Source: docs/gguf.md of ggml, and `gguf_init_from_file` of llama.cpp for what it refuses.
"""

import struct
from dataclasses import dataclass
from math import prod

from holddown.base.finding import Finding, Severity
from holddown.base.units import MIB, size_text
from holddown.facts.safetensors import get_again, truncated

MAGIC = b"GGUF"
MAX_HEADER_BYTES = 128 * MIB
"""The largest headers seen hold a vocabulary of 260,000 tokens in 15 MiB; a length beyond this is damage."""
MAX_DIMENSIONS = 4

# number of the type: (name, elements per block, bytes per block). Source: `type_traits` of ggml.c and ggml-common.h.
TENSOR_TYPES = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22), 7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 36),
    10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110), 12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292), 16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50), 20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136), 24: ("I8", 1, 1), 25: ("I16", 1, 2),
    26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8), 29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66), 39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36), 41: ("Q1_0", 128, 18),
}  # fmt: skip

# metadata value types of a fixed size: number -> struct format
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9
# Far beyond any model's 50 values and 3,000 tensors (experts are stacked); more is damage, and told at once.
_MOST_VALUES, _MOST_TENSORS = 2**16, 2**20
_DEFAULT_ALIGNMENT = 32


# An array with more values than a model has layers is a vocabulary, of which only the length is kept.
_MOST_LAYERS = 1024


@dataclass(frozen=True, slots=True)
class MetadataValue:
    """One scalar of the metadata."""

    key: str
    value: int | float | bool | str


@dataclass(frozen=True, slots=True)
class MetadataArray:
    """values: of a short array of numbers, which is one value per layer; empty for long ones and for texts."""

    key: str
    length: int
    values: tuple[int | float, ...] = ()


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """shape: in ggml's order, the input features first: (in, out) or (in, out, experts)."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    elements: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """header_bytes: up to the end of the tensor infos. data_start: the aligned byte after it.

    data_bytes: from data_start to the end of the last tensor.
    """

    name: str
    size_bytes: int
    version: int
    metadata: tuple[MetadataValue, ...]
    arrays: tuple[MetadataArray, ...]
    tensors: tuple[GgufTensor, ...]
    header_bytes: int
    data_start: int
    data_bytes: int

    def value(self, key: str) -> int | float | bool | str | None:
        return next((item.value for item in self.metadata if item.key == key), None)

    def array(self, key: str) -> MetadataArray | None:
        return next((item for item in self.arrays if item.key == key), None)


@dataclass(frozen=True, slots=True)
class NeedMore:
    """The header goes on beyond what was given: read at least this many bytes from the start, and ask again."""

    at_least_bytes: int


class _ShortError(Exception):
    def __init__(self, needed: int) -> None:
        self.needed = needed


class _BadHeaderError(Exception):
    """The text is for a person."""


def read_header(name: str, size_bytes: int, head: bytes | memoryview) -> GgufHeader | NeedMore | Finding:
    """The header in `head`, the first bytes of a file of `size_bytes`; how much more it takes; or why there is none."""
    try:
        return _Reader(memoryview(head)).header(name, size_bytes)
    except _ShortError as short:
        if short.needed > size_bytes:
            return truncated(name, "its header is not complete", size_bytes, short.needed)
        if short.needed > MAX_HEADER_BYTES:
            return _unreadable(name, f"the header claims a value that ends at byte {short.needed}")
        return NeedMore(short.needed)
    except _BadHeaderError as error:
        return _unreadable(name, str(error))


def size_finding(header: GgufHeader) -> Finding | None:
    """Whether the file is as long as its header says. Padding after the last tensor is no fault to llama.cpp."""
    wanted = header.data_start + header.data_bytes
    if header.size_bytes < wanted:
        why = f"its header lists {len(header.tensors)} tensors"
        return truncated(header.name, why, header.size_bytes, wanted)
    extra = header.size_bytes - wanted
    if extra >= 4096:
        what = f"{header.name} has {size_text(extra)} more than its header accounts for"
        seen = f"the last tensor ends at byte {wanted}; the file has {header.size_bytes}"
        return Finding("shard.extra-bytes", Severity.WARN, header.name, what, seen, get_again(header.name))
    return None


def _unreadable(name: str, seen: str) -> Finding:
    what = f"{name} does not begin with a GGUF header that can be read"
    return Finding("shard.unreadable-header", Severity.BLOCK, name, what, seen, get_again(name))


class _Reader:
    """A place in the bytes. Every read checks the end first, so a false length costs nothing."""

    def __init__(self, view: memoryview) -> None:
        self.view = view
        self.at = 0

    def header(self, name: str, size_bytes: int) -> GgufHeader:
        self.magic()
        version = self.version()
        tensor_count, value_count = self.number("<Q"), self.number("<Q")
        if tensor_count > _MOST_TENSORS or value_count > _MOST_VALUES:
            raise _BadHeaderError(f"it claims {tensor_count} tensors and {value_count} metadata values")
        metadata, arrays = self.metadata(value_count)
        step = next((item.value for item in metadata if item.key == "general.alignment"), _DEFAULT_ALIGNMENT)
        if type(step) is not int or not 1 <= step <= 2**20 or step & (step - 1):
            raise _BadHeaderError(f"general.alignment is {step!r}, not a power of two")
        tensors, data_bytes = self.tensors(tensor_count, step)
        return GgufHeader(
            name=name,
            size_bytes=size_bytes,
            version=version,
            metadata=metadata,
            arrays=arrays,
            tensors=tensors,
            header_bytes=self.at,
            data_start=_aligned(self.at, step),
            data_bytes=data_bytes,
        )

    def magic(self) -> None:
        self.need(4)
        magic = bytes(self.view[:4])
        if magic != MAGIC:
            raise _BadHeaderError(f"the first bytes are {magic!r}, a GGUF begins with {MAGIC!r}")
        self.at = 4

    def version(self) -> int:
        version = self.number("<I")
        if version in (2, 3):
            return version
        if version and version & 0xFFFF == 0:
            raise _BadHeaderError("it was written for big-endian machines")
        raise _BadHeaderError(f"it is of version {version}; engines read 2 and 3")

    def need(self, count: int) -> None:
        if self.at + count > len(self.view):
            raise _ShortError(self.at + count)

    def number(self, form: str) -> int:
        return int(self.scalar(form))

    def scalar(self, form: str) -> int | float | bool:
        size = struct.calcsize(form)
        self.need(size)
        value: int | float | bool = struct.unpack_from(form, self.view, self.at)[0]
        self.at += size
        return value

    def text(self) -> str:
        length = self.number("<Q")
        self.need(length)
        value = bytes(self.view[self.at : self.at + length])
        self.at += length
        return value.decode("utf-8", "replace")

    def metadata(self, count: int) -> tuple[tuple[MetadataValue, ...], tuple[MetadataArray, ...]]:
        values: list[MetadataValue] = []
        arrays: list[MetadataArray] = []
        for _ in range(count):
            key = self.text()
            kind = self.number("<I")
            if kind == _ARRAY:
                arrays.append(MetadataArray(key, *self.array()))
            elif kind == _STRING:
                values.append(MetadataValue(key, self.text()))
            elif kind in _SCALARS:
                values.append(MetadataValue(key, self.scalar(_SCALARS[kind])))
            else:
                raise _BadHeaderError(f"metadata {key[:80]!r} is of the unknown type {kind}")
        return tuple(values), tuple(arrays)

    def array(self) -> tuple[int, tuple[int | float, ...]]:
        """Its length, and its values where they can be one per layer: a vocabulary is megabytes that no fact needs."""
        kind, count = self.number("<I"), self.number("<Q")
        if kind == _STRING:
            self.skip_texts(count)
            return count, ()
        if kind not in _SCALARS:
            # arrays of arrays too: llama.cpp refuses them
            raise _BadHeaderError(f"an array of type {kind}, which no engine reads")
        size = count * struct.calcsize(_SCALARS[kind])
        self.need(size)
        values = struct.unpack_from(f"<{count}{_SCALARS[kind][1]}", self.view, self.at) if count <= _MOST_LAYERS else ()
        self.at += size
        return count, values

    def skip_texts(self, count: int) -> None:
        self.need(count * 8)
        at, end, view, length_at = self.at, len(self.view), self.view, struct.Struct("<Q").unpack_from
        for _ in range(count):
            if at + 8 > end:
                raise _ShortError(at + 8)
            at += 8 + length_at(view, at)[0]
        self.at = at
        self.need(0)

    def tensors(self, count: int, alignment: int) -> tuple[tuple[GgufTensor, ...], int]:
        """And the end of their data."""
        tensors: list[GgufTensor] = []
        end = padded_end = 0
        for _ in range(count):
            tensor, offset = self.tensor()
            if offset != padded_end:
                name = tensor.name[:80]
                raise _BadHeaderError(f"tensor {name!r} begins at byte {offset} of the data, {padded_end} is next")
            end = offset + tensor.size_bytes
            padded_end = _aligned(end, alignment)
            tensors.append(tensor)
        return tuple(tensors), end

    def tensor(self) -> tuple[GgufTensor, int]:
        """One tensor info, and the offset of its data."""
        name = self.text()
        dimensions = self.number("<I")
        if dimensions > MAX_DIMENSIONS:
            raise _BadHeaderError(f"tensor {name[:80]!r} has {dimensions} dimensions; {MAX_DIMENSIONS} are possible")
        shape = tuple(self.number("<Q") for _ in range(dimensions))
        kind, offset = self.number("<I"), self.number("<Q")
        if kind not in TENSOR_TYPES:
            raise _BadHeaderError(f"tensor {name[:80]!r} is of the type {kind}, which holddown does not know")
        dtype, block_elements, block_bytes = TENSOR_TYPES[kind]
        elements = prod(shape)
        row = shape[0] if shape else 1
        if elements >= 2**63 or row % block_elements:
            raise _BadHeaderError(f"tensor {name[:80]!r} cannot be {dtype} of shape {list(shape)}")
        return GgufTensor(name, dtype, shape, elements, elements // block_elements * block_bytes), offset


def _aligned(at: int, alignment: int) -> int:
    return (at + alignment - 1) // alignment * alignment
