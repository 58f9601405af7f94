"""Whether an index and the headers of its shards name the same tensors, without holding 200,000 names twice.

Each tensor's line in the index, as transformers and huggingface_hub write it, is hashed, and the hashes are summed:
once over the index and once over what the headers would make of it. Equal sums are equal sets of lines, with a doubt of
one in 2**60. Where the sums differ, or the index was written in another way, the names themselves are compared.

Hashes are Python's own: they are good in one process and its forks.
"""

from array import array
from collections.abc import Iterable, Sized
from dataclasses import dataclass
from typing import Protocol

from holddown.facts.json_object import json_object


class Names(Iterable[str], Sized, Protocol):
    """The names of one header, in any container."""


@dataclass(frozen=True, slots=True)
class NameMarks:
    """Of one shard: how many lines the index should have for it, and the sum of their hashes. names: the hash of each
    tensor's name, as 64-bit words. sound: it can be told."""

    count: int
    lines: int
    names: bytes = b""
    sound: bool = True


NO_MARKS = NameMarks(0, 0, sound=False)

_START, _END, _NEXT = b'\n  "weight_map": {\n', b"\n  }", b",\n"


def marks_of(names: Names, shard: str, *, escaped: bool) -> NameMarks:
    """escaped: the header's text has a backslash somewhere, so a name may be spelt in two ways."""
    if escaped or '"' in shard or "\\" in shard:
        return NO_MARKS
    if not len(names):
        return NameMarks(0, 0)
    between = f'": "{shard}"\n    "'
    lines = f'    "{between.join(names)}": "{shard}"'.encode("utf-8", "surrogatepass").split(b"\n")
    return NameMarks(len(names), sum(map(hash, lines)), array("q", map(hash, names)).tobytes())


@dataclass(frozen=True, slots=True)
class IndexMarks:
    """Of an index: how many lines it has, and the sum of their hashes."""

    count: int
    lines: int


def index_marks(index: bytes) -> IndexMarks | None:
    """None where it takes the names to tell."""
    if b"\\" in index:
        return None
    lines = _lines(index)
    return IndexMarks(len(lines), sum(map(hash, lines)))


def agree(index: IndexMarks | None, shards: Iterable[NameMarks]) -> bool:
    """Whether the index names every tensor of these shards, in its shard, no other, and none stands in two shards.

    False: they do not, or it takes the names to tell.
    """
    marks = tuple(shards)
    return (
        index is not None
        and all(shard.sound for shard in marks)
        and index.count == sum(shard.count for shard in marks)
        and index.lines == sum(shard.lines for shard in marks)
        # the index then has the headers' lines, so a name stands twice in both or in neither
        and len(set[int]().union(*(memoryview(shard.names).cast("q") for shard in marks))) == index.count
    )


def _lines(index: bytes) -> list[bytes]:
    """One for each tensor; none where the file is laid out in another way."""
    start = index.find(_START) + len(_START)
    end = index.rfind(_END)
    if not len(_START) <= start < end:
        return []
    try:
        around = json_object(index[: start - 1] + index[end:])
    except ValueError:
        return []
    return index[start:end].split(_NEXT) if around.get("weight_map") == {} else []
