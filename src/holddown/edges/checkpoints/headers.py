"""The headers of weight files, and whether the end of each was ever written. Reads the header and the last MiB."""

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

from holddown.facts import safetensors
from holddown.facts.weights import TAIL_BYTES, ShardSeen, Tail, head_sha256

if TYPE_CHECKING:
    from holddown.base.finding import Finding
    from holddown.facts.gguf import GgufHeader

_FIRST_READ_BYTES = 1 << 20
_PAGE = 4096


def safetensors_shard(path: Path, *, only_marks: bool = False) -> ShardSeen:
    """only_marks: as `safetensors.read_header` has it."""
    with path.open("rb", buffering=0) as file:
        descriptor = file.fileno()
        size = os.fstat(descriptor).st_size
        wanted = min(safetensors.header_bytes_wanted(_read(descriptor, 0, safetensors.LENGTH_BYTES)), size)
        head = _read(descriptor, 0, wanted)
        header = safetensors.read_header(path.name, size, head, only_marks=only_marks)
        tail = Tail.DATA
        if isinstance(header, safetensors.ShardHeader) and header.header_bytes + header.data_bytes == size:
            tail = _tail(descriptor, size, header.header_bytes)
    return ShardSeen(path.name, size, head_sha256(head), header, tail)


def gguf_part(path: Path) -> ShardSeen:
    """A GGUF file, or one of the parts of a split one."""
    from holddown.facts import gguf  # no safetensors checkpoint must wait for it

    header: GgufHeader | Finding | gguf.NeedMore
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        head = _read(file.fileno(), 0, min(size, _FIRST_READ_BYTES))
        while isinstance(header := gguf.read_header(path.name, size, head), gguf.NeedMore):
            # doubling keeps the work in proportion: each try parses again from the start
            wanted = min(size, max(header.at_least_bytes, 2 * len(head)))
            more = _read(file.fileno(), len(head), wanted - len(head))
            if not more:
                header = safetensors.truncated(
                    path.name, "it shrank while it was read", len(head), header.at_least_bytes
                )
                break
            head += more
        tail = Tail.DATA
        if isinstance(header, gguf.GgufHeader):
            head = head[: header.header_bytes]
            if header.data_start + header.data_bytes <= size:
                tail = _tail(file.fileno(), size, header.data_start)
    return ShardSeen(path.name, size, head_sha256(head), header, tail)


def _read(descriptor: int, at: int, count: int) -> bytes:
    """`count` bytes, or fewer at the end of the file."""
    pieces = []
    while count > 0 and (piece := os.pread(descriptor, count, at)):
        pieces.append(piece)
        at += len(piece)
        count -= len(piece)
    return b"".join(pieces)


def _tail(descriptor: int, size: int, data_start: int) -> Tail:
    """Whether the end of the file was ever filled. A shard with less than a MiB of data is too small to tell."""
    start = size - TAIL_BYTES
    # most files show in their last page that they are whole
    if start < data_start or any(_read(descriptor, size - _PAGE, _PAGE)):
        return Tail.DATA
    if _read(descriptor, start, TAIL_BYTES) != bytes(TAIL_BYTES):
        return Tail.DATA
    try:
        os.lseek(descriptor, start, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return Tail.UNWRITTEN
    return Tail.ZERO
