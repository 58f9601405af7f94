"""The table of a deployment's states."""

from dataclasses import replace

import pytest

from holddown.launch.events import (
    EngineEnded,
    EngineGone,
    EngineStarted,
    Event,
    Exit,
    HealthAnswered,
    MeasurementEnded,
    Moved,
    StartHindered,
    StopAsked,
    Tick,
    VerificationEnded,
)
from holddown.launch.lifecycle import Effect, Left, Life, Patience, State, begin, resume, step
from holddown.launch.phases import Phase
from holddown.launch.restart import SERVED_S, Restart, mark, of_last_start, pause_s

PATIENCE = Patience(quiet_s=60, give_up_s=120, grace_s=30, unanswered_s=50)
NOW = 1000.0
OK, SILENT = HealthAnswered(True), HealthAnswered(False)
PASSED, WRONG, BROKE = VerificationEnded(()), VerificationEnded(("usage",)), VerificationEnded(("usage",), alive=False)
MEASURED, BROKE_LATER = MeasurementEnded(), MeasurementEnded(alive=False)
CRASH, GONE, STOP, TICK = EngineEnded(Exit(-9)), EngineGone(), StopAsked("the user"), Tick()
HINDERED, STARTED = StartHindered("its port is taken"), EngineStarted()

S = State


def life(state: State, *, was: State = S.STARTING) -> Life:
    return Life(state, since=NOW, moved_at=NOW, was=was)


def stuck(was: State) -> Life:
    return life(S.STUCK, was=was)


@pytest.mark.parametrize(
    ("before", "event", "after", "effects"),
    [
        (life(S.STARTING), OK, S.READY, (Effect.VERIFY,)),
        (life(S.STARTING), SILENT, S.STARTING, ()),
        (life(S.STARTING), PASSED, S.STARTING, ()),
        (life(S.STARTING), MEASURED, S.STARTING, ()),
        (life(S.STARTING), GONE, S.STARTING, ()),
        (life(S.READY), OK, S.READY, ()),
        (life(S.READY), PASSED, S.READY, (Effect.MEASURE,)),
        (life(S.READY), WRONG, S.STOPPING, (Effect.TERMINATE,)),
        (life(S.READY), BROKE, S.STOPPING, (Effect.DIAGNOSE, Effect.TERMINATE)),
        (life(S.READY), MEASURED, S.RELEASED, ()),
        (life(S.READY), BROKE_LATER, S.STOPPING, (Effect.DIAGNOSE, Effect.TERMINATE)),
        (life(S.RELEASED), OK, S.RELEASED, ()),
        (life(S.RELEASED), PASSED, S.RELEASED, ()),
        (life(S.RELEASED), WRONG, S.RELEASED, ()),
        (stuck(S.STARTING), Moved(), S.STARTING, ()),
        (stuck(S.STARTING), OK, S.READY, (Effect.VERIFY,)),
        (stuck(S.READY), Moved(), S.READY, ()),
        (stuck(S.READY), OK, S.READY, ()),
        (stuck(S.READY), PASSED, S.READY, (Effect.MEASURE,)),
        (stuck(S.READY), WRONG, S.STOPPING, (Effect.TERMINATE,)),
        (stuck(S.READY), MEASURED, S.RELEASED, ()),
        (stuck(S.RELEASED), Moved(), S.STUCK, ()),
        (stuck(S.RELEASED), OK, S.RELEASED, ()),
        (life(S.STOPPING), OK, S.STOPPING, ()),
        (life(S.STOPPING), PASSED, S.STOPPING, ()),
        (life(S.STOPPING), MEASURED, S.STOPPING, ()),
        (life(S.STOPPING), CRASH, S.STOPPING, (Effect.SWEEP,)),
        (life(S.STOPPING), STOP, S.STOPPING, ()),
        (life(S.STOPPING), GONE, S.FAILED, ()),
        (replace(life(S.STOPPING), asked=True), GONE, S.STOPPED, ()),
    ],
)
def test_every_state_answers_every_event_that_matters(
    before: Life, event: Event, after: State, effects: tuple[Effect, ...]
) -> None:
    """One row: state, event, next state, what is done about it."""
    life_, done = step(before, event, NOW + 1, PATIENCE)
    assert (life_.state, done) == (after, effects)


@pytest.mark.parametrize("before", [life(S.STARTING), life(S.READY), life(S.RELEASED), stuck(S.READY)])
def test_the_death_of_an_engine_is_diagnosed_and_what_it_left_is_swept(before: Life) -> None:
    """In whatever state it dies; the reason says when."""
    after, effects = step(before, CRASH, NOW, PATIENCE)
    assert after.state is S.STOPPING and not after.asked
    assert effects == (Effect.DIAGNOSE, Effect.SWEEP)
    assert "killed by signal 9" in after.why


@pytest.mark.parametrize("was", [S.STARTING, S.READY])
def test_before_it_served_is_said_of_starting_alone(was: State) -> None:
    """Stuck while starting is starting still."""
    after, _ = step(stuck(was), CRASH, NOW, PATIENCE)
    assert ("before it served" in after.why) is (was is S.STARTING)


@pytest.mark.parametrize(
    "before",
    [life(S.STARTING), life(S.READY), life(S.RELEASED), *map(stuck, (S.STARTING, S.READY, S.RELEASED))],
)
def test_a_stop_is_obeyed_in_every_state(before: Life) -> None:
    """By SIGTERM, and its end will be `stopped`."""
    after, effects = step(before, STOP, NOW, PATIENCE)
    assert (after.state, after.asked, effects) == (S.STOPPING, True, (Effect.TERMINATE,))
    ended, _ = step(after, GONE, NOW, PATIENCE)
    assert ended.state is S.STOPPED and ended.why == "the user asked for it"


@pytest.mark.parametrize("state", [S.STOPPED, S.FAILED])
@pytest.mark.parametrize("event", [OK, Moved(), PASSED, MEASURED, CRASH, GONE, STARTED, HINDERED, STOP, TICK])
def test_over_is_over(state: State, event: Event) -> None:
    """No event changes it and nothing is done any more."""
    assert step(life(state), event, NOW + 1e6, PATIENCE) == (life(state), ())


@pytest.mark.parametrize(("before", "quiet_s"), [(life(S.STARTING), 60), (life(S.READY), 60), (life(S.RELEASED), 50)])
def test_silence_is_stuck_after_its_own_patience(before: Life, quiet_s: float) -> None:
    """While serving the limit is the answer to /health, and does not grow with the bytes of the load."""
    assert step(before, TICK, NOW + quiet_s, PATIENCE)[0].state is before.state
    after, effects = step(before, TICK, NOW + quiet_s + 1, PATIENCE)
    assert (after.state, after.was, effects) == (S.STUCK, before.state, (Effect.STACKS,))


@pytest.mark.parametrize(
    ("was", "after", "effects"),
    [
        (S.STARTING, S.STOPPING, (Effect.STACKS, Effect.DIAGNOSE, Effect.TERMINATE)),
        (S.READY, S.STOPPING, (Effect.STACKS, Effect.DIAGNOSE, Effect.TERMINATE)),
        (S.RELEASED, S.STUCK, ()),
    ],
)
def test_only_what_was_never_released_is_given_up(was: State, after: State, effects: tuple[Effect, ...]) -> None:
    """A released one may come back, and people may be waiting for it."""
    assert step(stuck(was), TICK, NOW + 120, PATIENCE)[0].state is S.STUCK
    late, done = step(stuck(was), TICK, NOW + 121, PATIENCE)
    assert (late.state, done) == (after, effects)
    assert not late.asked


def test_sigkill_follows_the_grace_and_is_repeated() -> None:
    """Once per grace, for as long as anything lives."""
    stopping = life(S.STOPPING)
    assert step(stopping, TICK, NOW + 30, PATIENCE) == (stopping, ())
    killed, effects = step(stopping, TICK, NOW + 31, PATIENCE)
    assert effects == (Effect.KILL,)
    assert step(killed, TICK, NOW + 60, PATIENCE)[1] == ()
    assert step(killed, TICK, NOW + 62, PATIENCE)[1] == (Effect.KILL,)


def test_signs_of_life_carry_the_phase() -> None:
    """A sign without a phase leaves it as it was."""
    after, _ = step(life(S.STARTING), Moved(Phase.WEIGHTS), NOW + 5, PATIENCE)
    assert (after.phase, after.moved_at) == (Phase.WEIGHTS, NOW + 5)
    assert step(after, Moved(), NOW + 6, PATIENCE)[0].phase is Phase.WEIGHTS


def test_the_log_of_a_served_engine_is_no_sign_of_life() -> None:
    """Only its answers are."""
    assert step(life(S.RELEASED), Moved(), NOW + 5, PATIENCE)[0].moved_at == NOW
    assert step(life(S.RELEASED), OK, NOW + 5, PATIENCE)[0].moved_at == NOW + 5


@pytest.mark.parametrize(
    ("left", "state", "effects"),
    [
        (Left(S.STARTING, "", False, False), S.STARTING, ()),
        (Left(S.READY, "", False, False), S.STARTING, ()),
        (Left(S.STUCK, "quiet", False, False), S.STARTING, ()),
        (Left(S.STUCK, "quiet", False, True), S.RELEASED, ()),
        (Left(S.RELEASED, "", False, True), S.RELEASED, ()),
        (Left(S.STOPPING, "asked", True, True), S.STOPPING, (Effect.TERMINATE,)),
        (Left(S.FAILED, "over", False, True), S.FAILED, ()),
        (Left(S.WAITING, "it died", False, False, Restart.ON_FAILURE, served=True, failures=2), S.WAITING, ()),
    ],
)
def test_a_new_supervisor_goes_on_from_what_is_on_record(left: Left, state: State, effects: tuple[Effect, ...]) -> None:
    """Released stays released; half checked is checked again; a stop is told again."""
    after, done = resume(left, NOW)
    assert (after.state, done, after.moved_at) == (state, effects, NOW)
    assert after.asked is left.asked


def test_patience_grows_with_the_bytes_to_load() -> None:
    """540 GB from slow network storage are not stuck after two minutes; an engine that serves has no such excuse."""
    small, large = Patience.for_load(0), Patience.for_load(540 * 10**9)
    assert large.quiet_s - small.quiet_s == 5400
    assert large.unanswered_s == small.unanswered_s


@pytest.mark.parametrize(
    ("code", "text"), [(0, "exited with status 0"), (-9, "was killed by signal 9"), (None, "a status that nobody saw")]
)
def test_an_exit_says_how(code: int | None, text: str) -> None:
    """An adopted engine's exit status went to another process."""
    assert text in Exit(code).text


def test_a_life_begins_with_its_process() -> None:
    """Just spawned."""
    assert begin(NOW) == Life(S.STARTING, NOW, NOW)


# --- started again ----------------------------------------------------------------------------------------------


def served(state: State, *, was: State = S.STARTING, failures: int = 0) -> Life:
    """Of a deployment that was released, and is to come back."""
    return replace(life(state, was=was), restart=Restart.ON_FAILURE, served=True, failures=failures)


@pytest.mark.parametrize(
    "before",
    [
        life(S.STOPPING),
        replace(life(S.STOPPING), restart=Restart.ON_FAILURE),
        replace(life(S.STOPPING), served=True),
    ],
)
def test_only_what_was_released_comes_back_and_only_by_its_policy(before: Life) -> None:
    """A first start that fails is told to who asked for it."""
    assert step(before, GONE, NOW, PATIENCE)[0].state is S.FAILED


@pytest.mark.parametrize(("failures", "pause_s"), [(0, 5), (1, 10)])
def test_an_engine_that_failed_is_started_again_after_a_pause(failures: int, pause_s: float) -> None:
    """Which doubles; and a new life begins that remembers."""
    waiting, effects = step(served(S.STOPPING, failures=failures), GONE, NOW, PATIENCE)
    assert (waiting.state, waiting.failures, effects) == (S.WAITING, failures + 1, ())
    assert f"started again in {pause_s:.0f} s" in waiting.why
    assert step(waiting, TICK, NOW + pause_s - 0.1, PATIENCE) == (waiting, ())
    assert step(waiting, TICK, NOW + pause_s, PATIENCE) == (waiting, (Effect.START,))
    again, _ = step(waiting, STARTED, NOW + 6, PATIENCE)
    assert (again.state, again.failures, again.served, again.moved_at) == (S.STARTING, failures + 1, True, NOW + 6)


def test_the_third_failure_in_a_row_is_the_last() -> None:
    """However long each start took: it stays down, and says so."""
    after, effects = step(served(S.STOPPING, failures=2), GONE, NOW, PATIENCE)
    assert (after.state, effects) == (S.FAILED, ())
    assert "3 failures with less than 10 minutes of service in between: it stays down" in after.why


def test_ten_minutes_of_service_forgive_what_failed_before() -> None:
    """At a stretch."""
    before = replace(served(S.RELEASED, failures=2), moved_at=NOW + SERVED_S)
    assert step(before, TICK, NOW + SERVED_S - 1, PATIENCE)[0].failures == 2
    assert step(before, TICK, NOW + SERVED_S, PATIENCE)[0].failures == 0


def test_what_another_start_would_fail_of_too_is_not_tried() -> None:
    """Its words are wrong for what lies under them now."""
    after, _ = step(served(S.STOPPING), EngineGone(hopeless=True), NOW, PATIENCE)
    assert after.state is S.FAILED and "another start would fail" in after.why


def test_an_obstacle_of_others_is_waited_out() -> None:
    """For longer and longer, up to five minutes, and it is no failure of the engine's."""
    waiting = served(S.WAITING, failures=1)
    pauses = []
    for _ in range(9):
        waiting, effects = step(waiting, HINDERED, NOW, PATIENCE)
        assert (waiting.state, waiting.failures, effects) == (S.WAITING, 1, ())
        pauses.append(int(waiting.why.split()[-2]))
    assert pauses[:4] == [10, 20, 40, 80] and pauses[-1] == 300
    assert pause_s(5, 10**9) == 300


def test_a_stop_while_it_waits_is_the_end_at_once() -> None:
    """Nothing of it runs."""
    after, effects = step(served(S.WAITING), STOP, NOW, PATIENCE)
    assert (after.state, after.asked, effects) == (S.STOPPED, True, ())


def test_a_stop_while_a_failure_is_cleaned_up_keeps_it_from_coming_back() -> None:
    """The reason that it failed for stays. Of one that would not come back, a failure is a failure."""
    after, effects = step(served(S.STOPPING), STOP, NOW, PATIENCE)
    assert effects == () and step(after, GONE, NOW, PATIENCE)[0].state is S.STOPPED
    assert step(step(life(S.STOPPING), STOP, NOW, PATIENCE)[0], GONE, NOW, PATIENCE)[0].state is S.FAILED


@pytest.mark.parametrize("event", [OK, SILENT, Moved(), PASSED, MEASURED, CRASH, GONE])
def test_an_engine_that_is_gone_says_nothing_any_more(event: Event) -> None:
    """While it waits for the next."""
    assert step(served(S.WAITING), event, NOW + 1, PATIENCE)[0].state is S.WAITING


@pytest.mark.parametrize("state", [S.STARTING, S.READY, S.RELEASED, S.STOPPING])
@pytest.mark.parametrize("event", [STARTED, HINDERED])
def test_nothing_is_started_beside_what_runs(state: State, event: Event) -> None:
    """Not even by a word that comes late."""
    assert step(served(state), event, NOW + 1, PATIENCE) == (served(state), ())


def test_a_released_engine_that_stays_stuck_is_ended_where_it_comes_back() -> None:
    """After its own patience, with its stacks and a cause; it was released, so nobody has to look at it first."""
    stuck_ = replace(served(S.STUCK, was=S.RELEASED), silence="2 requests run, and not a token more")
    assert step(stuck_, TICK, NOW + PATIENCE.lost_s, PATIENCE)[0].state is S.STUCK
    after, effects = step(stuck_, TICK, NOW + PATIENCE.lost_s + 1, PATIENCE)
    assert (after.state, effects) == (S.STOPPING, (Effect.STACKS, Effect.DIAGNOSE, Effect.TERMINATE))
    assert after.why.startswith("2 requests run, and not a token more for")
    assert step(after, GONE, NOW, PATIENCE)[0].state is S.WAITING


def test_the_log_of_the_last_start_is_told_from_those_before() -> None:
    """A cause of the first one is none of the second's."""
    lines = ["old", mark("m", 2, 0.0), "older", mark("m", 3, 0.0), "new"]
    assert list(of_last_start(lines)) == ["new"]
    assert list(of_last_start(["first"])) == ["first"]
