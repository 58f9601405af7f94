"""Carries an engine's output into its log: `python -I pump.py PATH MAX_BYTES KEEP`, with the output on stdin.

A program of its own, standard library only, so that the log goes on when the supervisor is killed, and so that an
engine never sees a full disk: it would lose its output to an exception in the middle of a load. What cannot be
written is dropped and counted (a few bytes too many where a write got half way), and the log says so once there is
room again. Ends when the engine's last writer ends.
"""

import os
import signal
import sys
from pathlib import Path


class RotatingLog:
    """Appends to `path`; at `max_bytes` it becomes `path.1`, `path.1` becomes `path.2`, ... `keep` of them stay."""

    def __init__(self, path: str, max_bytes: int, keep: int) -> None:
        self._path, self._max_bytes, self._keep = path, max_bytes, keep
        self._fd = -1
        self._size = 0
        self._lost = 0
        self._why = ""

    def write(self, data: bytes) -> None:
        try:
            if self._fd < 0:
                self._open()
            if self._size and self._size + len(data) > self._max_bytes:
                # at the end of a line: half a line in each of two files is found by nobody
                end = data.find(b"\n") + 1
                data = data[self._append(data[:end]) :]
                self._rotate()
                self._open()
            if self._lost:
                self._append(f"\n[holddown] {self._lost} bytes of output were lost here: {self._why}\n".encode())
                self._lost = 0
            self._append(data)
        except OSError as error:
            self._lost += len(data)
            self._why = error.strerror or str(error)

    def _append(self, data: bytes) -> int:
        view = memoryview(data)
        while view:
            written = os.write(self._fd, view)
            self._size += written
            view = view[written:]
        return len(data)

    def _open(self) -> None:
        self._fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._size = os.fstat(self._fd).st_size

    def _rotate(self) -> None:
        os.close(self._fd)
        self._fd = -1
        for number in range(self._keep - 1, 0, -1):
            older = Path(f"{self._path}.{number}")
            if older.exists():
                older.replace(f"{self._path}.{number + 1}")
        Path(self._path).replace(f"{self._path}.1")


def main() -> None:
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    log = RotatingLog(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    while data := os.read(0, 65536):
        log.write(data)


if __name__ == "__main__":
    main()
