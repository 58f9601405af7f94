"""A home of its own with a real engine in it."""

import json
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


def loaded(place: Place, name: str, deployment: Deployment) -> dict[str, Any]:
    """The one phase of a short `bench` by name: exact lengths by its own tokenizer, each answer to its length."""
    done = place.run("bench", name, "--concurrency", "2", "--requests", "4", "--workload", "48:12", "--json")
    # on a busy machine the client may say that it is the limit, which is 1
    assert done.returncode in (0, 1), done.stderr
    (run,) = json.loads(done.stdout)
    phase: dict[str, Any]
    (phase,) = run["phases"]
    assert [one["fault"] for one in phase["traces"]] == [""] * 4
    assert {(one["input_tokens"], one["output_tokens"]) for one in phase["traces"]} == {(48, 12)}
    assert not [note for note in run["notes"] if "ignore_eos" in note or "usage" in note]
    assert run["subject"]["deployment"] == deployment.birth.id
    return phase


def free_port() -> str:
    """The default one may be another program's by the time that an engine binds it, half a minute later."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])
