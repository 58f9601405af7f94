"""What goes between the load client and its processes: frames of MessagePack, each with its length before it."""

import struct
from dataclasses import dataclass
from typing import IO

import msgspec

from holddown.measure.drive import Drive

_LENGTH = struct.Struct("!I")


@dataclass(frozen=True, slots=True)
class Order:
    """For one process. share, of: it takes every `of`th user or request, from `share` on. start_at: by the monotonic
    clock, which is the same for all processes of a machine."""

    base_url: str
    api_key: str
    drive: Drive
    share: int
    of: int
    start_at: float


@dataclass(frozen=True, slots=True)
class Beat:
    """Since the last one; counts are since the beginning."""

    running: int
    done: int
    failed: int
    deltas: int
    ttfts: tuple[float, ...]


Row = tuple[float, float, float | None, float | None, float, int, int, int, str]
"""due, sent, first, answer, ended, input tokens, output tokens, deltas, fault."""


@dataclass(frozen=True, slots=True)
class Harvest:
    """pauses: float32 ms. lags: float32 ms, how long it was away between two looks at its sockets. idle_at: when its
    first user found nothing more to do, or its last request was due. reads: from sockets."""

    rows: tuple[Row, ...]
    pauses: bytes
    pause_count: int
    lags: bytes
    idle_at: float
    cpu_s: float
    wall_s: float
    reads: int


Frame = Beat | Harvest


class _Sent(msgspec.Struct):
    beat: Beat | None = None
    harvest: Harvest | None = None


def order_bytes(order: Order) -> bytes:
    data = msgspec.msgpack.encode(order)
    return _LENGTH.pack(len(data)) + data


def read_order(stream: IO[bytes]) -> Order:
    return msgspec.msgpack.decode(_framed(stream), type=Order)


def frame_bytes(frame: Frame) -> bytes:
    sent = _Sent(beat=frame) if isinstance(frame, Beat) else _Sent(harvest=frame)
    data = msgspec.msgpack.encode(sent)
    return _LENGTH.pack(len(data)) + data


def read_frame(stream: IO[bytes]) -> Frame | None:
    """None when the process is gone."""
    try:
        sent = msgspec.msgpack.decode(_framed(stream), type=_Sent)
    except EOFError:
        return None
    return sent.beat or sent.harvest


def _framed(stream: IO[bytes]) -> bytes:
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return data
