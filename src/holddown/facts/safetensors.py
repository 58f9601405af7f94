"""A safetensors shard, from its header alone.

A shard is: 8 bytes, little endian, the header's length N; N bytes of JSON; the data. Each row of the JSON names a
tensor with its dtype, its shape and its place in the data. The rows cover the data without gap or overlap.
Source: the format description and `SafeTensors::deserialize` of huggingface/safetensors.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from json import JSONDecoder

import msgspec

from holddown.base.finding import Finding, Severity
from holddown.base.units import count_text, size_text
from holddown.facts.agreement import NO_MARKS, NameMarks, marks_of

LENGTH_BYTES = 8
MAX_HEADER_BYTES = 100_000_000
"""Source: MAX_HEADER_SIZE of huggingface/safetensors, which refuses longer ones too."""

MOST_TENSORS = 2**19
"""In one file. The largest seen have 210,000 in all their files; more is damage, and refused before it takes memory."""

DTYPE_BITS = {
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32,
    "I64": 64, "U64": 64, "F64": 64, "C64": 64,
}  # fmt: skip

_TOO_MANY_ELEMENTS = 2**63


@dataclass(frozen=True, slots=True)
class TensorKind:
    """Tensors that are alike but for the number of the expert: `model.layers.3.mlp.experts.*.up_proj.weight`.

    A tensor of no expert is a kind of its own. elements, size_bytes: of each; as stored.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    tensors: int
    elements: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ShardHeader:
    """header_bytes: length word and JSON. data_bytes: how much data the header says must follow.

    tensor_names: empty where only their marks were asked for.
    """

    name: str
    size_bytes: int
    header_bytes: int
    data_bytes: int
    tensors: int
    kinds: tuple[TensorKind, ...]
    tensor_names: tuple[str, ...]
    marks: NameMarks = NO_MARKS


class _Row(msgspec.Struct, gc=False):
    """What a row lacks gets a value that no tensor can have. gc: rows hold no cycle, and 200,000 of them need no
    visits from the collector."""

    dtype: str = ""
    shape: tuple[int, ...] = (-1,)
    data_offsets: tuple[int, int] = (0, -1)


_ROWS = msgspec.json.Decoder(dict[str, _Row])


class _BadRowError(ValueError):
    """A row of the header that contradicts the format; the text is for a person."""


def header_bytes_wanted(first: bytes) -> int:
    """How many bytes of the file to read for its header, given its first 8; never more than the format allows."""
    if len(first) < LENGTH_BYTES:
        return len(first)
    length = int.from_bytes(first[:LENGTH_BYTES], "little")
    return LENGTH_BYTES + min(length, MAX_HEADER_BYTES)


def read_header(name: str, size_bytes: int, head: bytes, *, only_marks: bool = False) -> ShardHeader | Finding:
    """The header in `head`, the first `header_bytes_wanted` bytes of a file of `size_bytes`; or why there is none.

    only_marks: give the marks of the tensors' names in place of the names.
    """
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
        rows = _rows(head, length)
        kinds, data_bytes = _kinds(rows)
    except ValueError as error:
        return _unreadable(name, str(error))
    return ShardHeader(
        name,
        size_bytes,
        LENGTH_BYTES + length,
        data_bytes,
        len(rows),
        kinds,
        () if only_marks else tuple(rows),
        marks_of(rows, name, escaped=head.find(b"\\", LENGTH_BYTES) >= 0) if only_marks else NO_MARKS,
    )


def size_finding(header: ShardHeader) -> Finding | None:
    """Whether the file is as long as its header says."""
    wanted = header.header_bytes + header.data_bytes
    tensors = f"its header lists {count_text(header.tensors)} tensors"
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


def _rows(head: bytes, length: int) -> dict[str, _Row]:
    """The tensors' rows. Raises: ValueError."""
    # each row has a brace, so braces bound the work and the memory
    braces = head.count(b"{", LENGTH_BYTES, LENGTH_BYTES + length)
    if braces > MOST_TENSORS:
        raise _BadRowError(f"it has {count_text(braces)} rows, more tensors than any model")
    text = memoryview(head)[LENGTH_BYTES : LENGTH_BYTES + length]
    try:
        rows = _decoded(text)
        # metadata is text by text, and so becomes a row that lacks everything
        has_metadata = rows.pop("__metadata__", None) is not None
    except _BadRowError:
        without = _without_metadata(bytes(text))
        if without is None:
            raise
        rows, has_metadata, braces = _decoded(without), False, without.count(b"{")
    if braces > 1 + has_metadata + len(rows):
        _refuse_duplicates(bytes(text))
    return rows


def _decoded(text: bytes | memoryview) -> dict[str, _Row]:
    try:
        return _ROWS.decode(text)
    except RecursionError as error:
        raise _BadRowError("it is nested too deeply") from error
    except msgspec.ValidationError as error:
        raise _BadRowError(f"a tensor's row is not as the format has it: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _BadRowError(f"it is no JSON: {error}") from error


_METADATA_FIRST = re.compile(rb'\s*\{\s*"__metadata__"\s*:\s*')


def _without_metadata(text: bytes) -> bytes | None:
    """The header less a `__metadata__` that is no text by text, for this reader needs nothing of it. None where it
    does not come first, which is where writers put it."""
    match = _METADATA_FIRST.match(text)
    if match is None:
        return None
    try:
        words = text[match.end() :].decode("utf-8")
        _, end = JSONDecoder().raw_decode(words)
    except (ValueError, RecursionError):
        return None
    return ("{" + words[end:].lstrip(" \t\r\n").removeprefix(",")).encode()


def _refuse_duplicates(text: bytes) -> None:
    """A JSON object may name a key twice and keeps the last; the format forbids it, as the first one's data is lost.

    Raises: ValueError.
    """

    def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
        names = dict(pairs)
        if len(names) < len(pairs):
            seen: set[str] = set()
            twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            raise _BadRowError(f"it names {twice[:80]!r} twice")
        return names

    try:
        JSONDecoder(object_pairs_hook=once).decode(text.decode("utf-8"))  # metadata that holds braces ends here too
    except RecursionError as error:
        raise _BadRowError("it is nested too deeply") from error


@dataclass(slots=True)
class _Kind:
    """One kind while it is counted."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    elements: int
    size_bytes: int
    tensors: int = 0


_EXPERT = re.compile(r"(.*\.experts\.)\d+(\..+)", re.DOTALL)


def kind_name(name: str) -> str:
    """The name with the number of the expert as `*`, as `TensorKind` has it."""
    expert = _EXPERT.fullmatch(name)
    return f"{expert[1]}*{expert[2]}" if expert else name


def _kinds(rows: dict[str, _Row]) -> tuple[tuple[TensorKind, ...], int]:
    """The kinds of tensors, and the end of the data. Every row is checked: its bytes against dtype and shape, and its
    place against the row before it.

    Big models have 200,000 rows, nearly all of experts, which come in runs of one layer. So the beginning of the name
    (up to `experts.`) is kept from row to row, and a row like one before it costs a comparison and a look-up.

    Raises: ValueError.
    """
    kinds: dict[tuple[object, ...], _Kind] = {}
    run: dict[str, _Kind] = {}
    runs: dict[str, dict[str, _Kind]] = {}
    prefix, cut = "\0", 1
    end, in_order = 0, True
    for name, row in rows.items():
        kind = None
        if name.startswith(prefix):
            kind = run.get(name[name.find(".", cut) :])
        if kind is None or kind.shape != row.shape or kind.dtype != row.dtype or name[cut] > "9":
            expert = _EXPERT.fullmatch(name)
            kind = _kind_of(name, row, expert, kinds)
            if expert is not None:
                prefix, cut = expert[1], len(expert[1])
                run = runs.setdefault(prefix, {})
                run[expert[2]] = kind
        first, last = row.data_offsets
        if last - first != kind.size_bytes:
            raise _BadRowError(f"{name[:80]!r} is {kind.dtype} {list(row.shape[:8])} but has {last - first} bytes")
        kind.tensors += 1
        if first != end:
            in_order = False
        end = last
    counted = tuple(
        TensorKind(kind.name, kind.dtype, kind.shape, kind.tensors, kind.elements, kind.size_bytes)
        for kind in kinds.values()
    )
    return counted, end if in_order else _end_of_data(rows.values())


def _end_of_data(rows: Iterable[_Row]) -> int:
    """Where the last tensor ends, for rows that do not stand in the order of their data. Raises: ValueError."""
    end = 0
    for first, last in sorted(row.data_offsets for row in rows):
        if first != end:
            raise _BadRowError(f"the tensors leave a gap or overlap at byte {min(first, end)} of the data")
        end = last
    return end


def _kind_of(name: str, row: _Row, expert: re.Match[str] | None, kinds: dict[tuple[object, ...], _Kind]) -> _Kind:
    """The row's kind, checked where it is the first of it. Raises: ValueError."""
    shown = f"{expert[1]}*{expert[2]}" if expert else name
    # a dtype newer than our table is taken at its word: its bytes are known, only its elements cannot be checked
    bits = DTYPE_BITS.get(row.dtype)
    first, last = row.data_offsets
    key = (shown, row.dtype, row.shape, None if bits else last - first)
    if key in kinds:
        return kinds[key]
    if not row.dtype or row.shape == (-1,) or row.data_offsets == (0, -1):
        raise _BadRowError(f"the row of {name[:80]!r} lacks dtype, shape or data_offsets")
    elements = 1
    for dim in row.shape:
        if dim < 0:
            raise _BadRowError(f"the shape of {name[:80]!r} is not a list of sizes")
        elements *= dim
        if elements >= _TOO_MANY_ELEMENTS:
            raise _BadRowError(f"the shape of {name[:80]!r} is beyond any file")
    if bits and elements * bits % 8:
        raise _BadRowError(f"{name[:80]!r} is {row.dtype} {list(row.shape[:8])}, which is no whole number of bytes")
    if not 0 <= first <= last < _TOO_MANY_ELEMENTS:
        raise _BadRowError(f"the data_offsets of {name[:80]!r} are no byte range")
    kind = kinds[key] = _Kind(shown, row.dtype, row.shape, elements, elements * bits // 8 if bits else last - first)
    return kind
