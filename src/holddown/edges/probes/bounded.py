"""A child process that may not run for ever, eat the memory, fill the disk or leave others behind."""

import os
import resource
import select
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

_MIB = 1024**2
_TAIL_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class Bounds:
    """data_bytes: private writable memory. output_bytes: of what it prints; a file that it writes may have no more."""

    seconds: float = 300
    data_bytes: int = 16 * 1024 * _MIB
    output_bytes: int = 256 * _MIB


@dataclass(frozen=True, slots=True)
class Ended:
    """trouble: how it ended where that was not well, else empty. complaint: the end of what it wrote to stderr."""

    trouble: str
    output: str
    complaint: str


def run_bounded(argv: Sequence[str], environment: Mapping[str, str], text: str, bounds: Bounds) -> Ended:
    """text: for its stdin. From `/`, in a process group of its own that is killed whole at the end, whatever happens
    here. Raises: OSError where it cannot be started."""
    with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as complained:
        asked.write(text.encode())
        asked.seek(0)
        child = subprocess.Popen(
            list(argv),
            cwd="/",
            env=dict(environment),
            stdin=asked,
            stdout=said,
            stderr=complained,
            start_new_session=True,
        )
        try:
            _limit(child.pid, bounds)
            in_time = _ended_within(child.pid, bounds.seconds)
        finally:
            # its own pid still stands for the group: it is not waited for yet
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            code = child.wait()
        trouble = _trouble(code) if in_time else f"it did not end within {bounds.seconds:g} s"
        return Ended(trouble, _start(said, bounds.output_bytes), _end(complained))


def _limit(pid: int, bounds: Bounds) -> None:
    with suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_DATA, (bounds.data_bytes, bounds.data_bytes))
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (bounds.output_bytes, bounds.output_bytes))
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))


def _ended_within(pid: int, seconds: float) -> bool:
    handle = os.pidfd_open(pid)
    try:
        return bool(select.select([handle], [], [], seconds)[0])
    finally:
        os.close(handle)


def _trouble(code: int) -> str:
    if code < 0:
        return f"it was ended by {signal.Signals(-code).name}"
    return f"it ended with exit code {code}" if code else ""


def _start(file: IO[bytes], most: int) -> str:
    file.seek(0)
    return file.read(most).decode("utf-8", "replace")


def _end(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _TAIL_BYTES))
    return file.read().decode("utf-8", "replace")
