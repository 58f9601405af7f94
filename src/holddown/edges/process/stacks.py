"""What Python processes are at, by py-spy: it reads their memory from outside, so that one that hangs tells it, too.

Source: py-spy 0.4, README: `dump`; it needs the right to trace them.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from holddown.base.evidence import Fact, Unknown, from_probe
from holddown.facts.machine import ProcessFacts

_EACH_S = 10.0
_ALL_S = 40.0
_MOST_BYTES = 4 * 1024**2


def keep(members: Sequence[ProcessFacts], executable: str, path: str, head: str) -> Fact[str]:
    """Appends the stacks of each of them to the file, under the head, and gives its path. executable: of the engine;
    py-spy may lie beside it. Unknown says why there is none."""
    program = _program(executable)
    if program is None:
        return Unknown("py-spy is not here")
    texts, why, deadline = [], "no process of it is left", time.monotonic() + _ALL_S
    for member in members:
        if time.monotonic() < deadline:
            text, error = _dump(program, member.pid)
            texts += [text] if text else []
            why = error or why
    if not texts:
        return Unknown(f"py-spy: {why}")
    try:
        _append(Path(path), "\n\n".join([f"=== {head}", *texts]) + "\n\n")
    except OSError as error:
        return Unknown(f"{path}: {error.strerror or error}")
    return from_probe(path, "py-spy dump")


def _program(executable: str) -> str | None:
    """On PATH, in our own environment, or in the engine's."""
    folders = (os.environ.get("PATH", ""), str(Path(sys.executable).parent), str(Path(executable).parent))
    return shutil.which("py-spy", path=os.pathsep.join(folders))


def _dump(program: str, pid: int) -> tuple[str, str]:
    """(stacks, why there are none)."""
    try:
        done = subprocess.run(
            [program, "dump", "--pid", str(pid)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=_EACH_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", str(error)
    if done.returncode:
        return "", (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[0]
    return done.stdout.strip(), ""


def _append(path: Path, text: str) -> None:
    with suppress(FileNotFoundError):
        if path.stat().st_size > _MOST_BYTES:  # one that stands still again and again, for months
            path.unlink()
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8") as file:
        file.write(text)
