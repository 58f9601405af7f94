"""What goes between the load client and its processes: frames of MessagePack, each with its length before it.

An `Order` down; a `Beat` up, which says that all connections are open; the time to begin at down; then beats until the
`Harvest`.
"""

import struct
from dataclasses import dataclass
from typing import Protocol, TypeVar

import msgspec

from holddown.measure.drive import Drive

T = TypeVar("T")
_LENGTH = struct.Struct("!I")


class Stream(Protocol):
    """Unbuffered, so that what is readable is also seen by a selector."""

    def read(self, size: int, /) -> bytes | None: ...


@dataclass(frozen=True, slots=True)
class Order:
    """For one process. share, of: it takes every `of`th user or request, from `share` on."""

    base_url: str
    api_key: str
    drive: Drive
    share: int
    of: int


@dataclass(frozen=True, slots=True)
class Beat:
    """Counts are since the beginning; ttfts: of the answers since the last beat, in seconds."""

    running: int
    done: int
    failed: int
    deltas: int
    ttfts: tuple[float, ...]


Row = tuple[float, float, float | None, float | None, float, int, int, int, str]
"""due, sent, first, answer, ended, input tokens, output tokens, deltas, fault."""


@dataclass(frozen=True, slots=True)
class Harvest:
    """pauses: float32 ms; pauses_at: when each ended, float32 s. lags: float32 ms, how long it was away between two
    looks at its sockets. idle_at: when its first user found nothing more to do, or its last request was due. gave_up:
    why it stopped by itself."""

    rows: tuple[Row, ...]
    pauses: bytes = b""
    pauses_at: bytes = b""
    pause_count: int = 0
    lags: bytes = b""
    idle_at: float = 0.0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    gave_up: str = ""


class _Up(msgspec.Struct):
    beat: Beat | None = None
    harvest: Harvest | None = None


def read_order(stream: Stream) -> Order:
    return _read(stream, Order)


def read_start(stream: Stream) -> float:
    """By the monotonic clock, which is the same for all processes of a machine. Raises: EOFError."""
    return _read(stream, float)


def frame_bytes(value: Order | Beat | Harvest | float) -> bytes:
    match value:
        case Beat():
            data = msgspec.msgpack.encode(_Up(beat=value))
        case Harvest():
            data = msgspec.msgpack.encode(_Up(harvest=value))
        case _:
            data = msgspec.msgpack.encode(value)
    return _LENGTH.pack(len(data)) + data


def read_frame(stream: Stream) -> Beat | Harvest | None:
    """None when the process is gone."""
    try:
        sent = _read(stream, _Up)
    except EOFError:
        return None
    return sent.beat or sent.harvest


def _read(stream: Stream, type_: type[T]) -> T:
    (length,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
    return msgspec.msgpack.decode(_exactly(stream, length), type=type_)


def _exactly(stream: Stream, size: int) -> bytes:
    parts: list[bytes] = []
    while size:
        part = stream.read(size)
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
