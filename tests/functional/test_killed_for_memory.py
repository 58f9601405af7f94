"""The kernel's own word on a process that it killed for want of memory."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from functional.deployed import NAME, QUICK, Site
from holddown.launch.lifecycle import State

PLANNED_BYTES = 5 * 1024**3
# what the killed process held is given back in a moment, in which the kernel may end a second one: little is soon back
LEFT_BYTES = 512 * 1024**2


@pytest.fixture
def group() -> Iterator[Path]:
    """A memory control group of version 1 with a limit, below our own; skipped where none can be made."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    own = next((line.split(":", 2)[2] for line in lines if ":memory:" in line), None)
    if own is None:
        pytest.skip("no memory controller of version 1")
    folder = Path(f"/sys/fs/cgroup/memory{own}", f"holddown-test-{os.getpid()}")
    try:
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text(str(PLANNED_BYTES))
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    yield folder
    folder.rmdir()


@pytest.fixture
def site(home: Any, holddown: Any, fake_engine_added: str, tiny_checkpoint: Path) -> Site:
    return Site(home, holddown, tiny_checkpoint)


def test_a_memory_limit_that_kills_is_named(site: Site, group: Path) -> None:
    """Its engine takes more than the group may have: the kernel kills it, and its counter tells."""
    script = f"echo $$ > {group}/cgroup.procs; exec {sys.executable} -m holddown up {site.checkpoint}"
    cues = {**QUICK, "FAKE_LOAD_SECONDS": "3", "FAKE_EAT_MIB": str(2 * LEFT_BYTES // 1024**2)}
    command = ["bash", "-c", f"{script} --name {NAME} --port {site.port}"]
    with subprocess.Popen(command, env={**site.home.env, **cues}, stdout=subprocess.PIPE, text=True) as up:
        site.await_engine()
        (group / "memory.limit_in_bytes").write_text(str(LEFT_BYTES))
        out, _ = up.communicate(timeout=120)

    assert up.returncode == 4, out
    status = site.record().status
    assert status.state is State.FAILED
    assert status.cause is not None
    assert status.cause.code == "engine.killed-for-memory"
    assert "512.0 MiB are all there is (cgroup" in status.cause.what
    site.assert_nothing_is_left()
