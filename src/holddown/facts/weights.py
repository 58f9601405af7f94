"""The weight files of a checkpoint together: which there should be, what they sum to, how they are known again."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from holddown.base.evidence import Fact, Unknown, derived
from holddown.base.finding import Finding, Severity
from holddown.base.units import MIB
from holddown.facts.gguf import GgufHeader
from holddown.facts.model import DtypeBytes
from holddown.facts.safetensors import DTYPE_BITS, DtypeTally, ShardHeader, get_again

TAIL_BYTES = MIB

_NUMBERED = re.compile(r"(?P<stem>.*-)(?P<part>\d{5})-of-(?P<count>\d{5})(?P<suffix>\.safetensors|\.gguf)", re.DOTALL)
_MOST_PARTS = 10_000

# Integers are a quantiser's packed weights, or small buffers such as position_ids; int8 holds one weight per element.
_PACKED = frozenset({"U8", "U16", "I16", "U32", "I32", "U64", "I64", "BOOL"})
_PACKED_SHARE = 0.01


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
    header: ShardHeader | GgufHeader | Finding
    tail: Tail


def numbered_parts(name: str) -> tuple[str, ...]:
    """All the names that `...-00002-of-00064.safetensors` (or `.gguf`) says there are; itself where it says nothing."""
    match = _NUMBERED.fullmatch(name)
    if match is None or not 1 <= int(match["count"]) <= _MOST_PARTS:
        return (name,)
    count = match["count"]
    return tuple(f"{match['stem']}{part:05}-of-{count}{match['suffix']}" for part in range(1, int(count) + 1))


def head_sha256(head: bytes) -> str:
    return hashlib.sha256(head).hexdigest()


def digest(shards: Iterable[ShardSeen], config: str) -> str:
    """Changes when a shard's name, size or header does, or config.json; reads no weights."""
    whole = hashlib.sha256(config.encode("utf-8", "surrogatepass"))
    for shard in sorted(shards, key=lambda shard: shard.name):
        whole.update(f"\n{shard.name!r} {shard.size_bytes} {shard.head_sha256}".encode())
    return whole.hexdigest()


def sum_tallies(tallies: Iterable[DtypeTally]) -> tuple[DtypeTally, ...]:
    """One per dtype, most bytes first."""
    sums: dict[str, DtypeTally] = {}
    for tally in tallies:
        so_far = sums.get(tally.dtype)
        sums[tally.dtype] = tally if so_far is None else _added(so_far, tally)
    return tuple(sorted(sums.values(), key=lambda tally: (-tally.size_bytes, tally.dtype)))


def _added(one: DtypeTally, other: DtypeTally) -> DtypeTally:
    return DtypeTally(
        one.dtype,
        one.size_bytes + other.size_bytes,
        one.tensors + other.tensors,
        one.elements + other.elements,
        one.scale_elements + other.scale_elements,
    )


def dtype_bytes(tallies: Iterable[DtypeTally]) -> tuple[DtypeBytes, ...]:
    return tuple(DtypeBytes(tally.dtype, tally.size_bytes, tally.tensors) for tally in tallies)


def safetensors_parameters(tallies: tuple[DtypeTally, ...], quantized: bool) -> Fact[int]:
    """How many numbers the model was trained with: elements of the tensors, less what a quantiser put beside them.

    Unknown where several weights are packed into one integer: the header does not say how many.
    """
    total_bytes = sum(tally.size_bytes for tally in tallies)
    unknown = [tally.dtype for tally in tallies if tally.dtype not in DTYPE_BITS]
    if unknown:
        return Unknown(f"tensors of dtype {', '.join(unknown)}, which holddown does not know")
    packed = [
        tally.dtype for tally in tallies if tally.dtype in _PACKED and tally.size_bytes > _PACKED_SHARE * total_bytes
    ]
    if packed:
        return Unknown(f"weights are packed into {', '.join(packed)}; the header does not say how many to an element")
    counted = [tally for tally in tallies if tally.dtype not in _PACKED and tally.dtype != "F8_E8M0"]
    elements = sum(tally.elements for tally in counted)
    if not quantized:
        return derived(elements, "elements of all tensors in the headers")
    scales = sum(tally.scale_elements for tally in counted)
    return derived(elements - scales, "elements of all tensors in the headers, without quantisation scales")


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
