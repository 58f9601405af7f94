"""A log of any length, by blocks of bytes: what cannot matter is passed over without being looked at."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from holddown.verify.diagnose import Reading

_LONGEST_LINE_BYTES = 1024 * 1024
_LAST_LINES = 8
_MOST_SHAPES = 100_000
_FIRST_LINES = 100  # are read all: they tell which engine it is
_FIGURES = b"0123456789"
# what is left of a request's UUID without its figures: no two lines with one are of one shape
_IDENTITY = re.compile(rb"[a-f-]{5,}")
# A line without any of these shows no failure. Every captured failure is read through here.
_TRIGGERS = (
    b"rror", b"ERR", b"xcept", b"raceback", b"ail", b"illed", b" E ", b"WARN", b"SIG", b"bort", b"FATAL", b"fault",
    b"nterrupt", b"xhausted", b"ied", b"not ", b"No ", b"imeout", b"imed out", b"annot",
    b"atal", b" dead", b"ore dumped", b"Xid", b"Surprise", b"requires", b"xit code",
)  # fmt: skip


def scan(blocks: Iterable[bytes], engine: str = "", told: Callable[[int], None] | None = None) -> Reading:
    """blocks: of any size. told: hears how many bytes were read."""
    scanning, size = _Scan(Reading(engine)), 0
    for block in _whole_lines(blocks):
        scanning.feed(block)
        size += len(block) + 1
        if told is not None:
            told(size)
    return scanning.end()


class _Scan:
    """By far the most lines of a log are of a few shapes: the same words around other figures. One that told nothing
    once is passed over from then on."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._number = 1
        self._dull: set[bytes] = set()
        self._last = b""

    def feed(self, block: bytes) -> None:
        """block: whole lines, without the last one's end."""
        lines = block.split(b"\n")
        shapes = block.translate(None, _FIGURES).split(b"\n")
        if len(self._dull) > _MOST_SHAPES:
            self._dull.clear()
        at = 0
        while at < len(lines):
            if self._reading.waits(self._number + at):
                at = self._read_on(lines, at)
            else:
                at = self._read_what_may_tell(lines, shapes, at)
        self._number += len(lines)
        self._last = block

    def _read_what_may_tell(self, lines: Sequence[bytes], shapes: Sequence[bytes], start: int) -> int:
        """Where to go on: at the end, or after a line from which all others matter."""
        dull = self._dull
        for at in [at for at in range(start, len(lines)) if shapes[at] not in dull]:
            shape = _IDENTITY.sub(b"", shapes[at])
            if shape in dull:
                continue
            if self._number + at > _FIRST_LINES and not _may_tell(shape):
                dull.add(shape)
                continue
            if self._read(lines[at], at):
                dull.add(shape)
            if self._reading.waits(self._number + at):
                return at + 1
        return len(lines)

    def _read_on(self, lines: Sequence[bytes], start: int) -> int:
        """After a traceback's begin every line matters, until who raised is seen to live on."""
        for at in range(start, len(lines)):
            self._read(lines[at], at)
            if not self._reading.waits(self._number + at):
                return at + 1
        return len(lines)

    def _read(self, line: bytes, at: int) -> bool:
        """Whether it is of a kind that tells nothing. A progress bar writes over itself: each of its states is one."""
        told = [self._reading.feed(text, self._number + at) for text in _text(line).split("\r") if text]
        return False not in told

    def end(self) -> Reading:
        lines = self._last.split(b"\n")[-_LAST_LINES:]
        self._reading.end([_text(line) for line in lines], self._number - len(lines))
        return self._reading


def _may_tell(line: bytes) -> bool:
    return any(trigger in line for trigger in _TRIGGERS)


def _whole_lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Blocks that end where a line does, without its end. A line longer than a MiB is cut there."""
    rest = b""
    for block in blocks:
        whole, found, after = (rest + block).rpartition(b"\n")
        if found:
            yield whole
            rest = after
        elif len(after) > _LONGEST_LINE_BYTES:
            yield after
            rest = b""
        else:
            rest = after
    if rest:
        yield rest


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")
