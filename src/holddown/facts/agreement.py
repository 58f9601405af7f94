"""Whether an index and the headers of its shards name the same tensors, without holding 200,000 names twice.

Each tensor's line in the index, as transformers and huggingface_hub write it, is hashed, and the hashes are summed:
once over the index and once over what the headers would make of it. Equal sums are equal sets of lines, with a doubt of
one in 2**60. Where the sums differ, or the index was written in another way, the names themselves are compared.

Hashes are Python's own: they are good in one process and its forks.
"""

from array import array
from collections.abc import Iterable, Sized
from dataclasses import dataclass, field
from typing import Protocol

from holddown.facts.json_object import json_object


class Names(Iterable[str], Sized, Protocol):
    """The names of one header, in any container."""


@dataclass(frozen=True, slots=True)
class NameMarks:
    """Of one shard. lines: sum of the hashes of the lines that an index should have. names: a hash for each name."""

    lines: int
    names: "array[int]" = field(default_factory=lambda: array("q"))
    sound: bool = True


NO_MARKS = NameMarks(0, sound=False)

_START, _END = '\n  "weight_map": {\n', "\n  }"


def marks_of(names: Names, shard: str, *, escaped: bool) -> NameMarks:
    """escaped: the header's text has a backslash somewhere, so a name may be spelt in two ways."""
    if escaped or '"' in shard or "\\" in shard or not len(names):
        return NameMarks(0, sound=not escaped and not len(names))
    between = f'": "{shard}"\n    "'
    lines = f'    "{between.join(names)}": "{shard}"'.split("\n")
    return NameMarks(sum(map(hash, lines)), array("q", map(hash, names)))


def agree(index_text: str, shards: Iterable[NameMarks]) -> bool:
    """Whether the index names every tensor of these shards, in its shard, no other, and none stands in two shards.

    False: they do not, or it takes the names to tell.
    """
    marks = tuple(shards)
    hashes: set[int] = set()
    for shard in marks:
        hashes.update(shard.names)
    if not all(shard.sound for shard in marks) or len(hashes) < sum(len(shard.names) for shard in marks):
        return False
    start = index_text.find(_START) + len(_START)
    end = index_text.rfind(_END)
    if not len(_START) <= start < end or "\\" in index_text:
        return False
    try:
        around = json_object(index_text[: start - 1] + index_text[end:])
    except ValueError:
        return False
    lines = index_text[start:end].split(",\n")
    return (
        around.get("weight_map") == {}
        and len(lines) == len(hashes)
        and sum(map(hash, lines)) == sum(shard.lines for shard in marks)
    )
