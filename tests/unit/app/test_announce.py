"""What a service manager is told."""

from dataclasses import replace

from fakes.service import FakeNotify
from holddown.app.announce import Announcer
from holddown.launch.lifecycle import Patience, State
from holddown.launch.phases import Phase
from holddown.remember.record import PhaseTime, Status

PATIENCE = Patience(quiet_s=90, give_up_s=360, grace_s=30)
STARTING = Status(State.STARTING, 0.0)


def told(*statuses: Status, every_s: float = 1.0) -> list[str]:
    notify = FakeNotify()
    announcer = Announcer(notify, PATIENCE)
    for number, status in enumerate(statuses):
        announcer.see(status, number * every_s)
    return notify.words


def test_ready_is_told_once_and_only_at_the_release() -> None:
    """Not when /health answers; and not again after it was stuck."""
    ready, released = replace(STARTING, state=State.READY), replace(STARTING, state=State.RELEASED)
    assert "READY=1" not in told(STARTING, ready)
    stuck = replace(STARTING, state=State.STUCK, why="no sign of life for 60 s")
    words = told(STARTING, ready, released, stuck, released)
    assert words.count("READY=1") == 1
    assert words.index("READY=1") > words.index("STATUS=ready: checking its answers, 0 done")
    assert "STATUS=stuck: no sign of life for 60 s" in words


def test_each_phase_is_told_once() -> None:
    """One line per change, not one per turn."""
    loading = replace(STARTING, phases=(PhaseTime(Phase.WEIGHTS, 3.0),))
    words = told(STARTING, loading, loading, loading)
    assert [word for word in words if word.startswith("STATUS=")] == ["STATUS=starting", "STATUS=starting: weights"]


def test_time_is_asked_for_while_it_lives_and_not_while_it_is_stuck() -> None:
    """Longer than the supervisor's own patience, and not at every turn."""

    def extensions(status: Status) -> list[int]:
        words = told(*[status] * 21)
        return [int(word.partition("=")[2]) for word in words if word.startswith("EXTEND_TIMEOUT_USEC=")]

    assert len(extensions(STARTING)) == 3
    assert min(extensions(STARTING)) > (PATIENCE.quiet_s + PATIENCE.give_up_s) * 1e6
    assert extensions(replace(STARTING, state=State.STUCK)) == []
    assert extensions(replace(STARTING, state=State.RELEASED)) == []


def test_stopping_is_told_of_a_stop_that_was_asked_for() -> None:
    """Of another only once it is over: systemd would take a restart of the engine for the end of the service."""
    stopping = replace(STARTING, state=State.STOPPING)
    assert "STOPPING=1" not in told(stopping)
    assert told(replace(stopping, stop_asked=True)).count("STOPPING=1") == 1
    assert told(stopping, replace(STARTING, state=State.FAILED)).count("STOPPING=1") == 1


def test_a_reason_of_two_lines_is_one() -> None:
    """A second line would be another assignment."""
    words = told(replace(STARTING, state=State.FAILED, why="it failed\nREADY=1"))
    assert "STATUS=failed: it failed READY=1" in words and "READY=1" not in words
