"""A private home with the fake engine in it, and what a test asks of the deployments there."""

import json
import os
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from holddown.edges.store import SqliteStore
from holddown.launch.lifecycle import State
from holddown.remember.record import Deployment

T = TypeVar("T")
NAME = "m"
QUICK = {"FAKE_TOKEN_SECONDS": "0"}


def until(what: Callable[[], T | None], why: str, patience_s: float = 30.0) -> T:
    """What it gives as soon as it gives something. A loaded machine is slow, so patience is long."""
    deadline = time.monotonic() + patience_s
    while not (found := what()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {patience_s:.0f} s: {why}")
        time.sleep(0.05)
    return found


@dataclass
class Site:
    """home: has `processes()` and `segments()` of this test alone."""

    home: Any
    run: Callable[..., subprocess.CompletedProcess[str]]
    checkpoint: Path
    started: list["subprocess.Popen[str]"] = field(default_factory=list)
    port: int = field(default_factory=lambda: free_port())

    # --- commands ---------------------------------------------------------------------------------------

    def up(self, *args: str, **cues: str) -> subprocess.CompletedProcess[str]:
        return self.run("up", *self._words(*args), env={**QUICK, **cues})

    def _words(self, *args: str) -> tuple[str, ...]:
        # a port of its own: whoever else tests on this machine takes the first free one, too
        return (str(self.checkpoint), "--name", NAME, "--port", str(self.port), *args)

    def released(self, *args: str, **cues: str) -> Deployment:
        done = self.up(*args, **cues)
        assert done.returncode == 0, done.stderr
        return self.record()

    def begin(self, *args: str, **cues: str) -> "subprocess.Popen[str]":
        """`up` as a shell runs it: in a process group of its own, its words in a file each."""
        number = len(self.started)
        with (self.home.path / f"out{number}").open("w") as out, (self.home.path / f"err{number}").open("w") as err:
            process = subprocess.Popen(
                [sys.executable, "-m", "holddown", "up", *self._words(*args)],
                env={**self.home.env, **QUICK, **cues},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                text=True,
                process_group=0,
            )
        self.started.append(process)
        return process

    def said(self, process: "subprocess.Popen[str]") -> str:
        return (self.home.path / f"err{self.started.index(process)}").read_text()

    def down(self) -> subprocess.CompletedProcess[str]:
        return self.run("down", NAME)

    def status_json(self) -> dict[str, Any]:
        given: dict[str, Any] = json.loads(self.run("status", NAME, "--json").stdout)
        return given

    def impatient(self, deployment_id: str, *patience_s: float) -> "subprocess.Popen[bytes]":
        """A supervisor whose limits are seconds: quiet, give up, grace, unanswered."""
        code = (
            "import sys; from holddown import wiring; from holddown.app.supervise import supervise;"
            "from holddown.launch.lifecycle import Patience; store = wiring.store(); it = store.get(sys.argv[1]);"
            "supervise(it.birth, it.status, wiring.supervisor_doors(it.birth, store),"
            " Patience(*map(float, sys.argv[2:])))"
        )
        command = [sys.executable, "-c", code, deployment_id, *map(str, patience_s)]
        return subprocess.Popen(
            command, env={**self.home.env, **QUICK}, stdin=subprocess.DEVNULL, start_new_session=True
        )

    # --- what is there ----------------------------------------------------------------------------------

    @property
    def database(self) -> Path:
        path: Path = self.home.path / "state" / "holddown" / "records.sqlite"
        return path

    def find(self) -> Deployment | None:
        """Off the record, without a command that would look after it."""
        return SqliteStore(self.database).latest(NAME) if self.database.exists() else None

    def record(self) -> Deployment:
        found = self.find()
        assert found is not None
        return found

    def await_state(self, *states: State) -> Deployment:
        def there() -> Deployment | None:
            found = self.find()
            return found if found is not None and found.status.state in states else None

        return until(there, f"{NAME} is one of {states}")

    def await_engine(self) -> Deployment:
        """Its engine runs and is on record."""

        def there() -> Deployment | None:
            found = self.find()
            return found if found is not None and found.status.engine is not None else None

        return until(there, "an engine is on record")

    def doctor(self, column: str, change: Callable[[dict[str, Any]], None]) -> None:
        """Edits the newest record: what no program of ours would write."""
        with sqlite3.connect(self.database) as database:
            row = database.execute(f"SELECT id, {column} FROM deployment ORDER BY created_at DESC").fetchone()
            value = json.loads(row[1])
            change(value)
            database.execute(f"UPDATE deployment SET {column} = ? WHERE id = ?", (json.dumps(value), row[0]))
        database.close()

    def titles(self) -> list[str]:
        """Command lines of all processes of this home."""
        found = []
        for pid in self.home.processes():
            try:
                found.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip())
            except OSError:
                continue
        return found

    def pids_of(self, title: str) -> list[int]:
        """Of processes whose command line holds that."""
        found = []
        for pid in self.home.processes():
            try:
                if title in Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode():
                    found.append(pid)
            except OSError:
                continue
        return found

    def get(self, path: str, key: str = "") -> int:
        """The HTTP status of a request; 0 where nobody listens."""
        request = urllib.request.Request(self.record().birth.spec.base_url + path)
        if key:
            request.add_header("Authorization", f"Bearer {key}")
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                status: int = answer.status
                return status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def complete(self, seconds: float) -> bool:
        """Whether it answers a completion in that time. One that it does not is left with it."""
        body = json.dumps({"model": NAME, "prompt": "a", "max_tokens": 1}).encode()
        url = f"{self.record().birth.spec.base_url}/v1/completions"
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=seconds) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def assert_nothing_is_left(self) -> None:
        """No process, no shared memory, no private folder."""
        until(lambda: not self.home.processes(), f"its processes end: {self.titles()}", 10)
        assert self.home.segments() == []
        assert not Path(self.record().birth.run_dir).exists()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def kill(pid: int) -> None:
    os.kill(pid, 9)
