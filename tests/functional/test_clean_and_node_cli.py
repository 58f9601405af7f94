"""`holddown node` and `holddown clean` as commands. Nothing here says --yes: a tester's own leftovers stay."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def call(tmp_path: Path) -> Iterator["Call"]:
    yield Call(tmp_path)


class Call:
    """The command line with a private home."""

    def __init__(self, home: Path) -> None:
        self._env = {
            **os.environ,
            "HOME": str(home),
            **{f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("DATA", "STATE", "CACHE")},
        }

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "holddown", *words],
            env=self._env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


def test_node_shows_the_machine(call: Call) -> None:
    """A card with CPUs, memory and GPUs or the reason why there are none."""
    done = call("node")
    assert done.returncode == 0, done.stderr
    labels = [line.split("  ")[0] for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert labels[:3] == ["machine", "cpu", "memory"]
    assert {"disk", "/dev/shm", "open files", "gpus"} <= set(labels)


def test_node_as_data(call: Call) -> None:
    """--json is the facts, whole."""
    facts = json.loads(call("node", "--json").stdout)
    assert facts["schema_version"] == 1
    assert facts["memory"]["limit_bytes"] > 0
    assert facts["gpus"] or facts["gpus_because"]


@pytest.fixture
def segment() -> Iterator[Path]:
    path = Path(f"/dev/shm/psm_holddowntest{uuid.uuid4().hex}")
    path.write_bytes(b"x")
    yield path
    path.unlink(missing_ok=True)


@pytest.mark.parametrize("words", [(), ("--dry-run",), ("--json",)])
def test_clean_shows_and_does_nothing_unasked(call: Call, segment: Path, words: tuple[str, ...]) -> None:
    """A fresh segment is found, is too young, and stays: exit 1, with and without a terminal."""
    done = call("clean", *words)
    assert done.returncode == 1, done.stderr
    assert str(segment) in done.stdout
    assert segment.exists()


def test_clean_refuses_wrong_names(call: Call) -> None:
    """Process 1 and this test, above the command: usage errors, said at once."""
    done = call("clean", "--pid", "1", "--pid", str(os.getpid()), "--yes")
    assert done.returncode == 2
    assert "error[clean.pid]" in done.stderr
    assert "pid 1 " in done.stderr
    assert f"pid {os.getpid()} " in done.stderr


def test_clean_names_a_live_process_and_spares_it(call: Call) -> None:
    """--pid without --yes and without a terminal: shown with owner, start and command; alive."""
    child = subprocess.Popen(["/bin/sleep", "300"])
    try:
        done = call("clean", "--pid", str(child.pid))
        assert done.returncode == 1
        assert f"to end     pid {child.pid} of " in done.stdout
        assert "/bin/sleep 300" in done.stdout
        assert "--yes" in done.stderr
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()
