"""Engines that fail after their release, with real processes: started again, checked, and after three failures not."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from functional.deployed import NAME, Site, kill, until
from holddown.edges.store import SqliteStore
from holddown.launch.lifecycle import State
from holddown.launch.restart import MARK
from holddown.remember.record import Deployment

POLICY = ("--restart", "on-failure")


@pytest.fixture
def site(home: Any, holddown: Any, fake_engine_added: str, tiny_checkpoint: Path) -> Iterator[Site]:
    site = Site(home, holddown, tiny_checkpoint)
    yield site
    site.down()


def start(site: Site, number: int) -> Deployment:
    """Once it is released for that time."""

    def there() -> Deployment | None:
        found = site.record()
        released = found.status.state is State.RELEASED and found.status.starts == number
        return found if released else None

    return until(there, f"start {number} is released")


def kill_engine(site: Site) -> None:
    engine = site.record().status.engine
    assert engine is not None
    kill(engine.pid)


def lengthen_pause(site: Site) -> None:
    """From 5 to 80 s, which a busy machine does not use up: on record are five failures in a row."""
    there = site.record()
    failed = replace(there.status.failures[-1], in_a_row=5)
    SqliteStore(site.database).write(there.birth.id, replace(there.status, failures=(failed,)), (), failed.at)


def test_killed_while_it_serves_it_comes_back_and_after_three_times_it_stays_down(site: Site) -> None:
    """Under one id, on one port, with the checks each time; every view tells of it, and nothing is left at the end."""
    before = site.released(*POLICY)
    assert before.status.supervisor is not None
    kill(before.status.supervisor.pid)
    supervisor = site.impatient(before.birth.id, 60, 60, 5, 60, 60, 0.2)
    until(lambda: site.record().status.adopted, "it is adopted")
    kill_engine(site)
    after = start(site, 2)
    assert after.birth == before.birth and after.status.engine != before.status.engine
    assert [each.check for each in after.status.verdicts] == [each.check for each in before.status.verdicts]
    assert site.get("/v1/models") == 200

    for verb in ("status", "explain"):
        text = " ".join(site.run(verb, NAME).stdout.split())
        assert "ended with a status that nobody saw while released" in text
    log = Path(before.birth.log_path).read_text()
    assert log.count(f"\n{MARK}start 2 of {NAME}") == 1
    diagnosed = json.loads(site.run("diagnose", NAME, "--json").stdout)
    assert diagnosed["last"] and MARK not in json.dumps(diagnosed)

    kill_engine(site)
    until(lambda: site.record().status.starts == 3 and site.record().status.engine, "a third engine is started")
    kill_engine(site)
    ended = site.await_state(State.FAILED).status
    supervisor.wait()
    assert "3 failures with less than 10 minutes of service in between: it stays down" in ended.why
    assert [each.in_a_row for each in ended.failures] == [1, 2]
    assert site.run("status", NAME).stdout.count("\n  failed    ") == 2
    site.assert_nothing_is_left()


def test_down_in_a_pause_that_another_supervisor_took_over(site: Site) -> None:
    """Killed while it waits: the next command gives it a supervisor that goes on waiting; `up` is told that the name is
    taken; `down` has nothing to end and is quick."""
    before = site.released(*POLICY)
    kill_engine(site)
    waiting = site.await_state(State.WAITING)
    assert waiting.birth.id == before.birth.id and waiting.status.supervisor is not None
    kill(waiting.status.supervisor.pid)
    until(lambda: not site.pids_of("holddown supervise"), "the supervisor is gone")
    lengthen_pause(site)
    said = site.run("status", NAME)
    assert said.returncode == 0 and "waiting-to-restart" in said.stdout
    assert "a new one will start its engine again" in said.stderr
    assert "is waiting-to-restart already" in site.up().stderr
    assert site.down().returncode == 0
    assert site.record().status.state is State.STOPPED and site.record().status.starts == 1
    site.assert_nothing_is_left()
