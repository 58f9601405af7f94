"""The weight files of a checkpoint together: which there should be, what they sum to, how they are known again."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from holddown.base.finding import Finding, Severity
from holddown.base.units import MIB
from holddown.facts.model import DtypeBytes
from holddown.facts.safetensors import ShardHeader, get_again

if TYPE_CHECKING:
    from holddown.facts.gguf import GgufHeader

TAIL_BYTES = MIB

_NUMBERED = re.compile(r"(?P<stem>.*-)(?P<part>\d{5})-of-(?P<count>\d{5})(?P<suffix>\.safetensors|\.gguf)", re.DOTALL)
_MOST_PARTS = 10_000


class Tail(StrEnum):
    """How the last MiB of a weight file is. UNWRITTEN: zero, and the file system has no data there."""

    DATA = "data"
    ZERO = "zero"
    UNWRITTEN = "unwritten"


@dataclass(frozen=True, slots=True)
class ShardSeen:
    """One weight file as its own header and the file system show it. head_sha256: of the header as stored."""

    name: str
    size_bytes: int
    head_sha256: str
    header: "ShardHeader | GgufHeader | Finding"
    tail: Tail


def numbered_parts(name: str) -> tuple[str, ...]:
    """All the names that `...-00002-of-00064.safetensors` (or `.gguf`) says there are; itself where it says nothing."""
    match = _NUMBERED.fullmatch(name)
    if match is None or not 1 <= int(match["count"]) <= _MOST_PARTS:
        return (name,)
    count = match["count"]
    return tuple(f"{match['stem']}{part:05}-of-{count}{match['suffix']}" for part in range(1, int(count) + 1))


def head_sha256(head: bytes) -> str:
    """Of a header as it stands in its file."""
    return hashlib.sha256(head).hexdigest()


def digest(shards: Iterable[ShardSeen], config: str) -> str:
    """Changes when a shard's name, size or header does, or config.json; reads no weights."""
    whole = hashlib.sha256(config.encode("utf-8", "surrogatepass"))
    for shard in sorted(shards, key=lambda shard: shard.name):
        whole.update(f"\n{shard.name!r} {shard.size_bytes} {shard.head_sha256}".encode())
    return whole.hexdigest()


def dtype_bytes(tensors: Iterable[tuple[str, int, int]]) -> tuple[DtypeBytes, ...]:
    """From (dtype, how many, bytes of each) of whatever a header lists; the dtype with most bytes first."""
    sums: dict[str, tuple[int, int]] = {}
    for dtype, count, size_bytes in tensors:
        total, tensor_count = sums.get(dtype, (0, 0))
        sums[dtype] = (total + count * size_bytes, tensor_count + count)
    ordered = sorted(sums.items(), key=lambda item: (-item[1][0], item[0]))
    return tuple(DtypeBytes(dtype, total, count) for dtype, (total, count) in ordered)


def missing_shards(names: tuple[str, ...], of: int, named_by: str) -> tuple[Finding, ...]:
    """One finding for all weight files that should be there and are not."""
    if not names:
        return ()
    some = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    what = f"{len(names)} of {of} weight files {'is' if len(names) == 1 else 'are'} missing: {some}"
    do = get_again(names[0]) if len(names) == 1 else "finish the download: hf download REPO --local-dir DIR"
    return (Finding("shard.missing", Severity.BLOCK, names[0], what, f"named by {named_by}, not in the directory", do),)


def tail_finding(shard: ShardSeen) -> Finding | None:
    """A download that made the file in its full size first, and stopped, ends in zeros."""
    if shard.tail is Tail.DATA:
        return None
    what = (
        f"the last MiB of {shard.name} is all zero: most likely a download that made the file first and did not finish"
    )
    if shard.tail is Tail.UNWRITTEN:
        seen = "the file system has no data there: nothing was ever written"
        return Finding("shard.zero-tail", Severity.BLOCK, shard.name, what, seen, get_again(shard.name))
    seen = "read the last 1048576 bytes; a padded vocabulary can look so too, so this is a warning"
    return Finding("shard.zero-tail", Severity.WARN, shard.name, what, seen, get_again(shard.name))


def gathered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The same, with the many LFS pointers of one clone told once: one command fetches them all."""
    rest: list[Finding] = []
    pointers: list[Finding] = []
    for finding in findings:
        (pointers if finding.code == "shard.lfs-pointer" else rest).append(finding)
    if len(pointers) > 1:
        first = pointers[0]
        some = f"{first.subject}, {pointers[1].subject}" + (", ..." if len(pointers) > 2 else "")
        what = f"{len(pointers)} weight files are Git LFS pointers, not weights: {some}"
        pointers = [Finding(first.code, first.severity, first.subject, what, first.seen, "git lfs pull")]
    return (*pointers, *rest)
