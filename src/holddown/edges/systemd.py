"""systemd of this machine: its units' files and its own programs."""

import os
import re
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from holddown.base.errors import MachineError, UsageError

_PATIENCE_S = 30
# `disable --now` waits for the stop: as long as the unit's own TimeoutStopSec, and some
_STOP_PATIENCE_S = 300
_NOT_THERE = ("offline", "unknown", "")


class Systemd:
    """folder: where units belong. user: whose own manager is asked; None: the system's."""

    def __init__(self, folder: Path, user: str | None) -> None:
        self._folder, self._user = folder, user
        self._scope = ["--system" if user is None else "--user"]

    def runs(self) -> bool:
        done = _run(["systemctl", *self._scope, "is-system-running"])
        return done is not None and done.stdout.strip() not in _NOT_THERE

    def version(self) -> int:
        done = _run(["systemctl", "--version"])
        found = re.match(r"systemd (\d+)", done.stdout) if done is not None else None
        return int(found[1]) if found else 0

    def path(self, unit: str) -> str:
        return str(self._folder / unit)

    def read(self, unit: str) -> str | None:
        try:
            return (self._folder / unit).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise MachineError(
                f"the unit {unit} cannot be read: {error.strerror}", code="service.unreadable", seen=self.path(unit)
            ) from error

    def write(self, unit: str, text: str) -> None:
        target = self._folder / unit
        beside = target.with_name(f".{unit}.new")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            beside.write_text(text, encoding="utf-8")
            beside.replace(target)
        except OSError as error:
            with suppress(OSError):
                beside.unlink()
            raise _not_writable(target, error) from error

    def delete(self, unit: str) -> None:
        target = self._folder / unit
        try:
            target.unlink(missing_ok=True)
        except OSError as error:
            raise _not_writable(target, error) from error

    def faults(self, unit: str, text: str) -> tuple[str, ...] | None:
        if shutil.which("systemd-analyze") is None:
            return None
        with tempfile.TemporaryDirectory(prefix="holddown-unit-") as folder:
            file = Path(folder) / unit
            file.write_text(text, encoding="utf-8")
            # for a user's units it wants a folder there, and takes none of what it finds in it
            environment = {"XDG_RUNTIME_DIR": folder, **os.environ}
            done = _run(["systemd-analyze", *self._scope, "verify", str(file)], environment)
        if done is None:
            return None
        # it also speaks of other units that it loads on the way
        about = (line for line in done.stderr.splitlines() if unit in line)
        return tuple(line.replace(f"{folder}/", "") for line in about)

    def ask(self, *words: str) -> None:
        command = ["systemctl", *self._scope, *words]
        done = _run(command, patience_s=_STOP_PATIENCE_S)
        if done is not None and done.returncode == 0:
            return
        raise MachineError(
            f"`{' '.join(command)}` failed",
            code="service.systemctl",
            seen=" ".join(done.stderr.split())[:300] if done is not None else "it did not run, or did not end",
            do=f"run it by hand: {' '.join(command)}",
        )

    def outlives_logout(self) -> bool:
        # Source: loginctl(1), enable-linger; logind keeps a file for each user there.
        return self._user is None or Path("/var/lib/systemd/linger", self._user).exists()


def _run(
    command: list[str], environment: dict[str, str] | None = None, patience_s: float = _PATIENCE_S
) -> subprocess.CompletedProcess[str] | None:
    """None where the program is not here, or does not end."""
    try:
        return subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=patience_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def _not_writable(target: Path, error: OSError) -> UsageError:
    return UsageError(
        f"{target.parent} is not this user's to write: {error.strerror}",
        code="service.not-writable",
        seen=str(target),
        do=f"with --print > {target.name}, then sudo cp {target.name} {target.parent} && sudo systemctl daemon-reload "
        f"&& sudo systemctl enable {target.name}",
    )
