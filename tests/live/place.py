"""A home of its own with a real engine in it."""

import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from holddown.edges.store import SqliteStore
from holddown.remember.record import Deployment


@dataclass(frozen=True)
class Place:
    """env: of every command that is run in it."""

    path: Path
    env: dict[str, str]

    @property
    def store(self) -> SqliteStore:
        return SqliteStore(self.path / "state" / "holddown" / "records.sqlite")

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "holddown", *words],
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def record(self, name: str) -> Deployment:
        found = self.store.latest(name)
        assert found is not None
        return found


def free_port() -> str:
    """The default one may be another program's by the time that an engine binds it, half a minute later."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])
