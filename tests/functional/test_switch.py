"""One deployment in another's place, with real processes and the fake engine: and back, wherever the other fails."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from functional.deployed import NAME, QUICK, Site, kill, until
from holddown.edges.store import SqliteStore
from holddown.launch.lifecycle import State
from holddown.remember.record import Deployment

OTHER = "other"


@pytest.fixture
def site(home: Any, holddown: Any, fake_engine_added: str, tiny_checkpoint: Path) -> Iterator[Site]:
    site = Site(home, holddown, tiny_checkpoint)
    yield site
    for process in site.started:
        if process.poll() is None:
            process.kill()
        process.wait()
    for name in (NAME, OTHER):
        site.run("down", name)


def switch(site: Site, *args: str, **cues: str) -> "subprocess.CompletedProcess[str]":
    words = ("switch", NAME, str(site.checkpoint), "--name", OTHER, "--drain", "5", *args)
    return site.run(*words, env={**QUICK, **cues})


def newest(site: Site, name: str) -> Deployment:
    found = SqliteStore(site.database).latest(name)
    assert found is not None
    return found


def switchings(site: Site) -> int:
    return len(SqliteStore(site.database).switchings())


def test_the_other_serves_on_the_same_port(site: Site) -> None:
    """Clients need no other address; the outage is said in seconds."""
    before = site.released()
    done = switch(site)

    assert done.returncode == 0, done.stderr
    after = newest(site, OTHER)
    assert after.status.state is State.RELEASED
    assert after.birth.spec.port == before.birth.spec.port
    assert newest(site, NAME).status.state is State.STOPPED
    assert "outage " in done.stdout
    assert switchings(site) == 0


def test_the_same_name_with_other_settings(site: Site) -> None:
    """A deployment in its own place."""
    before = site.released()
    words = ("switch", NAME, str(site.checkpoint), "--name", NAME, "--set", "max-model-len=2048")
    done = site.run(*words, env=QUICK)

    assert done.returncode == 0, done.stderr
    after = newest(site, NAME)
    assert after.birth.id != before.birth.id
    assert "--max-model-len 2048" in " ".join(after.birth.spec.argv)


FAILS = (
    *({"FAKE_CRASH_AT": phase} for phase in ("config", "weights", "kv-cache", "server", "first-request")),
    {"FAKE_ANSWER": "gibberish"},
)


def test_wherever_the_other_fails_the_first_one_comes_back(site: Site) -> None:
    """In each phase of its start, and where it comes up and its answers are wrong; the way back has the same checks."""
    before = site.released()
    for cues in FAILS:
        there = newest(site, NAME)
        done = switch(site, "--no-retry", **cues, FAKE_ONLY=OTHER)

        assert done.returncode == 4, (cues, done.stdout)
        back = newest(site, NAME)
        assert (back.status.state, newest(site, OTHER).status.state) == (State.RELEASED, State.FAILED), cues
        assert back.birth.id != there.birth.id
        assert back.birth.spec == before.birth.spec
        assert [each.check for each in back.status.verdicts] == [each.check for each in before.status.verdicts]
        assert f"{NAME} serves again" in done.stdout
        assert switchings(site) == 0


def test_what_can_be_known_before_stops_nothing(site: Site) -> None:
    """The first one serves on, undisturbed; a dry run plans for the machine without it, on its port."""
    before = site.released()
    for words in (
        ("--set", "max-model-len=1000000000"),
        ("--engine", "nothing@1.0"),
        ("--set", "tensor-parallel-size=3"),
    ):
        assert switch(site, *words).returncode in (1, 2), words
    shown = switch(site, "--dry-run")
    assert shown.returncode == 0 and f"--port {before.birth.spec.port}" in shown.stdout, shown.stderr
    there = newest(site, NAME)
    assert (there.birth.id, there.status.state) == (before.birth.id, State.RELEASED)
    assert site.get("/v1/models") == 200


@pytest.mark.parametrize("words", [("nobody", "/tmp"), (NAME,)])
def test_what_cannot_be_switched_is_said(site: Site, words: tuple[str, ...]) -> None:
    """Nothing of that name, or no checkpoint."""
    assert site.run("switch", *words).returncode == 2


def test_a_killed_switch_is_rolled_back_by_the_next_command(site: Site) -> None:
    """SIGKILL while the other loads, and the other fails: whoever asks next starts the first one again."""
    site.released()
    command = ["switch", NAME, str(site.checkpoint), "--name", OTHER, "--no-retry"]
    cues = {"FAKE_HANG_AT": "weights", "FAKE_ONLY": OTHER}
    process = begin(site, command, cues)
    until(lambda: there(site, OTHER) and newest(site, OTHER).status.engine, "the other starts")
    kill(process.pid)
    process.wait()

    assert switchings(site) == 1
    site.run("list")
    assert switchings(site) == 1, "it still comes up"
    engine = newest(site, OTHER).status.engine
    assert engine is not None
    kill(engine.pid)
    until(lambda: newest(site, OTHER).status.state is State.FAILED, "the other failed")
    said = site.run("list").stderr

    assert "was cut short" in said
    assert until(lambda: newest(site, NAME).status.state is State.RELEASED, "the first one serves again")
    assert switchings(site) == 0


def test_a_switch_that_is_killed_before_the_other_begins_is_rolled_back(site: Site) -> None:
    """Right after the stop: nothing serves, and nothing comes."""
    site.released()
    command = ["switch", NAME, str(site.checkpoint), "--name", OTHER]
    process = begin(site, command, {})
    until(lambda: switchings(site) == 1, "it is on record")
    os.kill(process.pid, signal.SIGSTOP)
    if there(site, OTHER):
        pytest.skip("the machine was too quick for this test")
    kill(process.pid)
    process.wait()
    until(lambda: newest(site, NAME).status.state is not State.STOPPING, "it has stopped, or never was told to")
    site.run("list")

    assert until(lambda: newest(site, NAME).status.state is State.RELEASED, "the first one serves")
    assert json.loads(site.run("list", "--json").stdout)
    assert switchings(site) == 0


def there(site: Site, name: str) -> bool:
    return SqliteStore(site.database).latest(name) is not None


def begin(site: Site, command: list[str], cues: dict[str, str]) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-m", "holddown", *command],
        env={**site.home.env, **QUICK, **cues},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        process_group=0,
    )
    site.started.append(process)
    return process
