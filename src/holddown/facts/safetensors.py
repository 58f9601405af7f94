"""A safetensors shard, from its header alone.

A shard is: 8 bytes, little endian, the header's length N; N bytes of JSON; the data. Each row of the JSON names a
tensor with its dtype, its shape and its place in the data. The rows cover the data without gap or overlap.
Source: the format description and `SafeTensors::deserialize` of huggingface/safetensors.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from holddown.base.finding import Finding, Severity
from holddown.base.units import count_text, size_text
from holddown.facts.json_object import json_object

LENGTH_BYTES = 8
MAX_HEADER_BYTES = 100_000_000
"""Source: MAX_HEADER_SIZE of huggingface/safetensors, which refuses longer ones too."""

DTYPE_BITS = {
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32,
    "I64": 64, "U64": 64, "F64": 64, "C64": 64,
}  # fmt: skip

_SCALES = (
    "_scale", "_scales", ".scales", "_scale_inv", "_scale_2", "_zero_point", ".qzeros", ".g_idx", "weight_shape",
    ".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map", ".SCB", ".inv_freq",
)  # fmt: skip
"""What a quantiser writes beside the weights: it takes space but is not a parameter of the model.

Source: tensor names written by compressed-tensors, modelopt, AutoGPTQ, AutoAWQ, bitsandbytes and DeepSeek's fp8.
"""

_TOO_MANY_ELEMENTS = 2**63


@dataclass(frozen=True, slots=True)
class DtypeTally:
    """All tensors of one dtype. elements: of their shapes as stored; scale_elements: those of a quantiser's scales."""

    dtype: str
    size_bytes: int
    tensors: int
    elements: int
    scale_elements: int = 0


@dataclass(frozen=True, slots=True)
class ShardHeader:
    """header_bytes: length word and JSON. data_bytes: how much data the header says must follow."""

    name: str
    size_bytes: int
    header_bytes: int
    data_bytes: int
    tensor_names: tuple[str, ...]
    by_dtype: tuple[DtypeTally, ...]


class _BadRowError(ValueError):
    """A row of the header that contradicts the format; the text is for a person."""


def header_bytes_wanted(first: bytes) -> int:
    """How many bytes of the file to read for its header, given its first 8; never more than the format allows."""
    if len(first) < LENGTH_BYTES:
        return len(first)
    length = int.from_bytes(first[:LENGTH_BYTES], "little")
    return LENGTH_BYTES + min(length, MAX_HEADER_BYTES)


def read_header(name: str, size_bytes: int, head: bytes) -> ShardHeader | Finding:
    """The header in `head`, the first `header_bytes_wanted` bytes of a file of `size_bytes`; or why there is none."""
    if head.startswith(b"version https://git-lfs"):
        return Finding(
            "shard.lfs-pointer",
            Severity.BLOCK,
            name,
            f"{name} is a Git LFS pointer, not weights: the clone did not fetch the large files",
            f"{size_text(size_bytes)} of text: {head[:42].decode('ascii', 'replace')}",
            f"git lfs pull --include {name}",
        )
    if len(head) < LENGTH_BYTES:
        return _unreadable(name, f"the file has {size_bytes} bytes, a header begins with {LENGTH_BYTES}")
    length = int.from_bytes(head[:LENGTH_BYTES], "little")
    if not 2 <= length <= MAX_HEADER_BYTES:
        return _unreadable(name, f"it begins with {head[:8]!r}; as the length of a header that would be {length} bytes")
    if LENGTH_BYTES + length > size_bytes or len(head) < LENGTH_BYTES + length:
        return truncated(name, f"its header alone takes {size_text(length)}", size_bytes, LENGTH_BYTES + length)
    try:
        rows = json_object(head[LENGTH_BYTES : LENGTH_BYTES + length])
        names, tallies, data_bytes = _tally(rows)
    except ValueError as error:
        return _unreadable(name, str(error))
    return ShardHeader(name, size_bytes, LENGTH_BYTES + length, data_bytes, names, tallies)


def size_finding(header: ShardHeader) -> Finding | None:
    """Whether the file is as long as its header says."""
    wanted = header.header_bytes + header.data_bytes
    tensors = f"its header lists {count_text(len(header.tensor_names))} tensors"
    if header.size_bytes < wanted:
        return truncated(header.name, tensors, header.size_bytes, wanted)
    if header.size_bytes > wanted:
        return Finding(
            "shard.extra-bytes",
            Severity.BLOCK,
            header.name,
            f"{header.name} has {header.size_bytes - wanted} bytes more than its header tells of; loading refuses it",
            f"{tensors} that end at byte {wanted}; the file has {header.size_bytes}",
            get_again(header.name),
        )
    return None


def truncated(name: str, why: str, size_bytes: int, wanted_bytes: int) -> Finding:
    """The finding for a file that ends before its header says."""
    return Finding(
        "shard.truncated",
        Severity.BLOCK,
        name,
        f"{name} is cut off: {size_text(wanted_bytes - size_bytes)} of {size_text(wanted_bytes)} are missing",
        f"{why} and ends at byte {wanted_bytes}; the file has {size_bytes}",
        get_again(name),
    )


def get_again(name: str) -> str:
    """The remedy for a file that did not arrive whole."""
    return f"get this file again, e.g. hf download REPO {name} --local-dir DIR --force-download"


def _unreadable(name: str, seen: str) -> Finding:
    what = f"{name} does not begin with a safetensors header"
    return Finding("shard.unreadable-header", Severity.BLOCK, name, what, seen, get_again(name))


@dataclass(slots=True)
class _Kind:
    """One dtype and shape, as often as it comes; the same few come for every expert of every layer."""

    dtype: str
    elements: int
    size_bytes: int
    tensors: int = 0
    scales: int = 0


def _tally(rows: dict[str, Any]) -> tuple[tuple[str, ...], tuple[DtypeTally, ...], int]:
    """Names, sums by dtype, and the end of the data. Big models have 200,000 rows, so a row that is like one before
    it costs one look-up; the first of a kind is checked in full.

    Raises: ValueError.
    """
    rows.pop("__metadata__", None)
    kinds: dict[Any, _Kind] = {}
    end, in_order = 0, True
    for name, row in rows.items():
        try:
            kind = kinds[(row["dtype"], *row["shape"])]
            first, last = row["data_offsets"]
        except (KeyError, TypeError, ValueError):
            kind, first, last = _first_of_kind(name, row)
            kinds[(kind.dtype, *row["shape"])] = kind
        if first.__class__ is not int or last.__class__ is not int or first < 0:
            raise _BadRowError(f"the data_offsets of {name[:80]!r} are no byte range")
        if last - first != kind.size_bytes:
            raise _BadRowError(f"{name[:80]!r} is {kind.dtype} {row['shape'][:8]} but has {last - first} bytes")
        kind.tensors += 1
        if name.endswith(_SCALES):
            kind.scales += 1
        if first != end:
            in_order = False
        end = last
    return tuple(rows), _by_dtype(kinds.values()), end if in_order else _end_of_data(rows)


def _by_dtype(kinds: Iterable[_Kind]) -> tuple[DtypeTally, ...]:
    sums: dict[str, DtypeTally] = {}
    for kind in kinds:
        so_far = sums.get(kind.dtype, DtypeTally(kind.dtype, 0, 0, 0))
        sums[kind.dtype] = DtypeTally(
            kind.dtype,
            so_far.size_bytes + kind.tensors * kind.size_bytes,
            so_far.tensors + kind.tensors,
            so_far.elements + kind.tensors * kind.elements,
            so_far.scale_elements + kind.scales * kind.elements,
        )
    return tuple(sums[dtype] for dtype in sorted(sums))


def _end_of_data(rows: dict[str, Any]) -> int:
    """Where the last tensor ends, for rows that do not stand in the order of their data. Raises: ValueError."""
    end = 0
    for first, last in sorted(row["data_offsets"] for row in rows.values()):
        if first != end:
            raise _BadRowError(f"the tensors leave a gap or overlap at byte {min(first, end)} of the data")
        end = last
    return end


def _first_of_kind(name: str, row: Any) -> tuple[_Kind, int, int]:
    """The row's dtype and shape, checked, and its place. Raises: ValueError."""
    try:
        dtype, shape, (first, last) = row["dtype"], row["shape"], row["data_offsets"]
    except (KeyError, TypeError, ValueError) as error:
        raise _BadRowError(f"the row of {name[:80]!r} lacks dtype, shape or data_offsets") from error
    if first.__class__ is not int or last.__class__ is not int or not 0 <= first <= last < _TOO_MANY_ELEMENTS:
        raise _BadRowError(f"the data_offsets of {name[:80]!r} are no byte range")
    if dtype.__class__ is not str or shape.__class__ is not list:
        raise _BadRowError(f"the row of {name[:80]!r} has no proper dtype and shape")
    elements = 1
    for dim in shape:
        if dim.__class__ is not int or dim < 0:
            raise _BadRowError(f"the shape of {name[:80]!r} is not a list of sizes")
        elements *= dim
        if elements >= _TOO_MANY_ELEMENTS:
            raise _BadRowError(f"the shape of {name[:80]!r} is beyond any file")
    bits = DTYPE_BITS.get(dtype)
    # a dtype newer than this table is taken at its word: its bytes are known, only its elements cannot be checked
    if bits is None:
        return _Kind(dtype, elements, last - first), first, last
    if elements * bits % 8:
        raise _BadRowError(f"{name[:80]!r} is {dtype} {shape[:8]}, which is no whole number of bytes")
    return _Kind(dtype, elements, elements * bits // 8), first, last
