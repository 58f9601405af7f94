"""Carries an engine's output into its log: `python -I pump.py PATH MAX_BYTES KEEP`, with the output on stdin.

A program of its own, standard library only, so that the log goes on when the supervisor is killed, and so that an
engine never sees a full disk: it would lose its output to an exception in the middle of a load. What cannot be
written is dropped and counted (a few bytes too many where a write got half way), and the log says so once there is
room again. Ends when the engine's last writer ends.

What HOLDDOWN_HIDDEN holds, one secret a line, comes out as `***`: SGLang prints its own API key among its arguments.
Source: SGLang 0.5.8 and 0.5.23 srt/entrypoints/engine.py, `server_args=`.
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


class Veil:
    """Hides secrets in a stream. What may be the beginning of one is held back until more is there."""

    def __init__(self, secrets: list[bytes]) -> None:
        self._secrets = secrets
        self._held = b""

    def over(self, data: bytes) -> bytes:
        data, self._held = self._held + data, b""
        for secret in self._secrets:
            data = data.replace(secret, b"***")
        held = max((_overlap(data, secret) for secret in self._secrets), default=0)
        if held:
            data, self._held = data[:-held], data[-held:]
        return data

    @property
    def rest(self) -> bytes:
        return self._held


def _overlap(data: bytes, secret: bytes) -> int:
    """How many of the last bytes are the first of the secret."""
    return next((length for length in range(len(secret) - 1, 0, -1) if data.endswith(secret[:length])), 0)


def main() -> None:
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    log = RotatingLog(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    veil = Veil([os.fsencode(line) for line in os.environ.get("HOLDDOWN_HIDDEN", "").splitlines() if line])
    while data := os.read(0, 65536):
        log.write(veil.over(data))
    log.write(veil.rest)


if __name__ == "__main__":
    main()
