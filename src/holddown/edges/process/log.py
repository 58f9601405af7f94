"""Reading an engine's log while it grows and rotates."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


class LogFile:
    """Follows `path` across rotations: the old file is read to its end before the new one is opened."""

    def __init__(self, path: str, *, from_end: bool = False) -> None:
        self._path = Path(path)
        self._fd = -1
        self._rest = b""
        if from_end and self._reopen():
            os.lseek(self._fd, 0, os.SEEK_END)

    def new(self) -> Iterator[str]:
        while True:
            yield from self._lines()
            if not self._rotated():
                return
            yield from self._lines()  # what was written between our last read and the rotation
            if not self._reopen():
                return

    def tail(self, count: int) -> tuple[str, ...]:
        """Reaches back into the last rotated file when the newest is short."""
        lines: list[str] = []
        for path in (self._path, self._path.with_name(self._path.name + ".1")):
            if len(lines) < count:
                with suppress(FileNotFoundError):  # never rotated, or just about to be
                    text = path.read_text(encoding="utf-8", errors="replace").replace("\r", "\n")
                    lines = [line for line in text.split("\n") if line][-count:] + lines
        return tuple(lines[-count:])

    def _lines(self) -> Iterator[str]:
        while self._fd >= 0 and (data := os.read(self._fd, 1 << 20)):
            *whole, self._rest = (self._rest + data).replace(b"\r", b"\n").split(b"\n")
            yield from (line.decode("utf-8", errors="replace") for line in whole if line)

    def _rotated(self) -> bool:
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return False
        if self._fd < 0:
            return True
        open_ = os.fstat(self._fd)
        return (there.st_dev, there.st_ino) != (open_.st_dev, open_.st_ino)

    def _reopen(self) -> bool:
        try:
            fd = os.open(self._path, os.O_RDONLY)
        except FileNotFoundError:
            return False  # between its rotation and its next line
        self.close()
        self._fd = fd
        return True

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def __del__(self) -> None:
        self.close()
