"""Every log against every signature: it shows the failures that it is declared to show, in order, and no other."""

from pathlib import Path

import pytest

from fakes.diagnosis import root_cause
from fakes.failing_logs import CAPTURES, FailingLog, failing_logs
from holddown.tables.failure import Failure
from holddown.tables.load import failures
from holddown.verify.scan import scan

LOGS = failing_logs()
EVERY = pytest.mark.parametrize("log", LOGS, ids=lambda log: log.name)
_SHARED = Path(__file__).parents[3] / "shared" / "captures"
HEALTHY = sorted([*CAPTURES.rglob("ready*.log"), *_SHARED.rglob("ready*.log"), *_SHARED.rglob("sigterm-clean.log")])


@EVERY
def test_a_log_shows_its_failures_and_no_other(log: FailingLog) -> None:
    """Through the bytes that `holddown diagnose` reads, whatever the size of its blocks."""
    data = log.log.encode()
    assert scan([data]).signs == log.signs
    assert scan(data[at : at + 100] for at in range(0, len(data), 100)).signs == log.signs


@EVERY
def test_a_log_names_its_cause(log: FailingLog) -> None:
    """The cause with its figures, and what to do about it."""
    cause = root_cause(log.lines, log.exit)
    assert cause.code == log.code
    assert log.what in cause.what
    assert log.do in cause.do


@EVERY
def test_bytes_and_lines_have_one_diagnosis(log: FailingLog) -> None:
    """What is passed over unread would have told nothing."""
    found = scan([log.log.encode()]).report(log.exit).diagnosis
    assert found is not None
    assert found.id == log.diagnosis


@pytest.mark.parametrize("path", HEALTHY, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_healthy_log_shows_nothing(path: Path) -> None:
    """No diagnosis rests on a line that is also in the log of an engine that serves."""
    reading = scan([path.read_bytes()])
    assert reading.signs == ()
    assert reading.report(None).healthy


@pytest.mark.parametrize("row", failures(), ids=lambda row: row.id)
def test_every_failure_has_a_log(row: Failure) -> None:
    """One that no log shows was never seen to work."""
    assert any(row.id in log.signs for log in LOGS)


def test_no_two_logs_have_one_name() -> None:
    """A failing test must say which log it means."""
    assert len({log.name for log in LOGS}) == len(LOGS)
