"""Deployments whose engine fails after its release, on a fake clock: what is started again, and what is not."""

import pytest

from fakes.client import well
from fakes.machine import ENGINE, SUPERVISOR, WORKER, FakeMachine, ref
from holddown.base.errors import CheckpointError, HolddownError, LaunchError, UsageError
from holddown.base.finding import Finding, Severity
from holddown.facts.answers import Ask, Refusal, Reply
from holddown.launch.lifecycle import State
from holddown.launch.restart import MARK, Restart
from holddown.remember.record import Entry, FailedStart, StateChanged, Status
from unit.app.test_supervise_app import HOUR_S, World, left_behind

ROUND = ["starting", "ready", "released", "stopping"]
TAKEN = Finding("port.taken", Severity.BLOCK, "127.0.0.1:8000", "port 8000 is taken by pid 7 of bob", "bind", "wait")


def returning(**more: object) -> World:
    return World(restart=Restart.ON_FAILURE, **more)  # type: ignore[arg-type]


def dies(world: World, *seconds: float, line: str = "") -> None:
    for second in seconds:
        if line:
            world.at(second, lambda: world.log.lines.append(line))
        world.at(second, lambda: world.machine.all_end(-11))


def test_an_engine_that_dies_while_it_serves_is_started_again_and_checked() -> None:
    """The same deployment: active all the time, with the cause on record, and a log that tells the starts apart."""
    world = returning(skip=())
    dies(world, 300.0)
    status = world.live()
    assert world.store.states() == [*ROUND, "waiting-to-restart", *ROUND[:3], "stopping", "stopped"]
    assert world.machine.started == status.starts == 2
    first, second = world.machine.heads
    assert first == "" and second.startswith(f"{MARK}start 2 of m, 1970-01-01 02:5")
    assert len(status.verdicts) == 7 and status.cause is None
    (failed,) = status.failures
    assert (failed.why, failed.in_a_row) == ("the engine was killed by signal 11 while released", 1)
    assert failed.cause is not None and failed.cause.code == "engine.signal-11"
    assert "engine.signal-11" in world.notes()


def test_nothing_of_the_engine_before_is_there_while_it_waits() -> None:
    """Its processes, its memory, its folder; nor is it shown as the one that runs."""
    world = returning()
    dies(world, 300.0)
    seen: list[tuple[Status, int]] = []
    world.at(304.0, lambda: seen.append((world.recorded, len(world.machine.alive))))
    world.live()
    ((waiting, alive),) = seen
    assert (waiting.state, waiting.engine, waiting.exit, waiting.segments, alive) == (State.WAITING, None, None, (), 0)
    assert "started again in 5 s" in waiting.why and waiting.supervisor == ref(SUPERVISOR)
    assert len(world.machine.removed) == 2


def test_the_policy_is_never_unless_it_is_asked_for() -> None:
    """As before."""
    world = World()
    dies(world, 300.0)
    assert world.live().state is State.FAILED and world.machine.started == 1


def test_a_first_start_that_fails_is_not_repeated() -> None:
    """It was never proven; whoever asked for it sees why."""
    world = returning(healthy_from=HOUR_S)
    dies(world, 3.0)
    assert world.live().state is State.FAILED and world.machine.started == 1


def test_after_three_failures_in_a_row_it_stays_down() -> None:
    """However far apart, as long as there was no service of ten minutes between: a load may take longer than that."""
    world = returning(lasts_s=9 * HOUR_S)
    dies(world, 300.0, 800.0, 1300.0)
    status = world.live()
    assert world.machine.started == 3
    assert status.state is State.FAILED and "it stays down" in status.why
    assert [each.in_a_row for each in status.failures] == [1, 2]
    assert status.cause is not None and world.machine.alive == {}


def test_ten_minutes_of_service_begin_the_count_anew() -> None:
    """One that dies every quarter of an hour serves for most of it."""
    world = returning(lasts_s=2 * HOUR_S)
    dies(world, *(900.0 * number for number in range(1, 7)))
    status = world.live()
    assert (status.state, world.machine.started) == (State.STOPPED, 7)
    assert {each.in_a_row for each in status.failures} == {1}


def test_a_start_that_fails_of_its_own_words_is_not_repeated() -> None:
    """They were right when it was released: what lies under them has changed, and stays so."""
    world = returning()
    dies(world, 300.0)

    def refuses() -> None:
        world.log.lines.append("api_server.py: error: unrecognized arguments: --bogus-flag")
        world.machine.all_end(2)

    world.at(308.0, refuses)
    world.at(305.0, lambda: setattr(world, "ill", True))
    status = world.live()
    assert status.cause is not None and status.cause.code == "engine.unknown-flag"
    assert status.state is State.FAILED and "another start would fail" in status.why and world.machine.started == 2


def test_an_older_failure_in_the_log_is_no_cause_of_this_one() -> None:
    """All starts write one log."""
    world = returning()
    dies(world, 300.0, line="ValueError: of the first")
    world.at(309.0, lambda: world.log.lines.append(world.machine.heads[-1]))
    dies(world, 320.0)
    status = world.live()
    first, second = status.failures
    assert first.cause is not None and second.cause is not None
    assert "of the first" in first.cause.seen and second.cause.code == "engine.signal-11"


def test_a_stop_while_it_waits_is_obeyed_at_once() -> None:
    """`down`: there is nothing to end."""
    world = returning()
    dies(world, 300.0)
    world.at(303.0, world.signals.ask)
    status = world.live()
    assert (status.state, status.stop_asked) == (State.STOPPED, True)
    assert world.machine.started == 1 and world.clock.elapsed < 305


def test_a_stop_while_its_workers_are_ended_is_obeyed() -> None:
    """`down` right after the failure: it is on record at once, and nothing is started again."""
    world = returning(machine=FakeMachine(stubborn=frozenset({WORKER})))
    world.at(300.0, lambda: world.machine.ends(ENGINE, -9))
    asked: list[Status] = []
    world.at(310.0, world.signals.ask)
    world.at(311.0, lambda: asked.append(world.recorded))
    status = world.live()
    assert asked[0].state is State.STOPPING and asked[0].stop_asked
    assert status.state is State.STOPPED and world.machine.started == 1
    assert status.cause is not None and "killed by signal 9" in status.why


def test_what_others_have_taken_is_told_and_waited_for() -> None:
    """The port, or memory of a GPU: no start, no failure, one note, and it comes back when that is free again."""
    world = returning(lasts_s=HOUR_S)
    dies(world, 300.0)
    world.obstacles = (TAKEN,)
    waiting: list[Status] = []
    world.at(1000.0, lambda: waiting.append(world.recorded))
    world.at(1001.0, lambda: setattr(world, "obstacles", ()))
    status = world.live()
    assert "cannot be started again yet: port 8000 is taken by pid 7 of bob" in waiting[0].why
    assert [note.code for note in waiting[0].notes] == ["restart.hindered"]
    assert world.machine.started == 2 and world.store.states()[-3:] == ["released", "stopping", "stopped"]
    assert [each.in_a_row for each in status.failures] == [1]


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (UsageError("other weights", code="again.checkpoint-changed"), State.FAILED),
        (CheckpointError("no such folder", code="checkpoint.not-found"), State.STOPPED),
    ],
)
def test_another_checkpoint_is_not_started_and_one_that_is_away_is_waited_for(
    error: HolddownError, state: State
) -> None:
    """What was proven is not there any more; or its mount is not there now."""
    world = returning()
    dies(world, 300.0)
    world.asking = error
    status = world.live()
    assert status.state is state and world.machine.started == 1


def test_a_released_engine_that_stays_stuck_is_ended_and_started_again() -> None:
    """With what its silence was."""
    world = returning()
    world.at(200.0, lambda: setattr(world, "ill", True))
    world.at(700.0, lambda: setattr(world, "ill", False))
    status = world.live()
    assert world.store.states() == [
        *ROUND[:3],
        "stuck",
        "stopping",
        "waiting-to-restart",
        *ROUND[:3],
        "stopping",
        "stopped",
    ]
    (failed,) = status.failures
    assert failed.cause is not None and failed.cause.code == "engine.silent"


@pytest.mark.parametrize(("seconds", "mended_at"), [(1.0, 664.0), (None, 700.0)])
def test_an_idle_engine_that_answers_no_token_is_started_again(seconds: float | None, mended_at: float) -> None:
    """Its server says that all is well; the token is refused, or never comes. Nothing is started while that request is
    still open."""
    world = returning(lasts_s=HOUR_S)
    world.client.measured = {"vllm:num_requests_running": 0, "vllm:generation_tokens_total": 5}

    def breaks() -> None:
        world.client.says = dies_of_it
        world.background.seconds = seconds

    def mends() -> None:
        world.client.says = well
        world.background.seconds, world.background.under_way = 1.0, False

    world.at(200.0, breaks)
    world.at(mended_at, mends)
    (failed,) = world.live().failures
    assert "idle, and" in failed.why and failed.cause is not None and failed.cause.code == "engine.silent"
    assert world.machine.started == 2


def dies_of_it(ask: Ask) -> Reply:
    return Refusal(500, "EngineDeadError")


def test_a_request_that_was_refused_long_ago_is_no_cause_of_silence() -> None:
    """The engine lived on after it."""
    world = returning()
    refused = (
        "ValueError: As of transformers v4.44, default chat template is no longer allowed, so you must provide one"
    )
    world.at(150.0, lambda: world.log.lines.append(refused))
    world.at(200.0, lambda: setattr(world, "ill", True))
    world.at(700.0, lambda: setattr(world, "ill", False))
    (failed,) = world.live().failures
    assert failed.cause is not None and failed.cause.code == "engine.silent"


# --- killed supervisors -----------------------------------------------------------------------------------------


def waiting(world: World, failures: int = 1) -> Status:
    """What a supervisor that was killed in a pause left on record."""
    kept = tuple(FailedStart(0.0, "it died", None, None, number + 1) for number in range(failures))
    state = Status(State.WAITING, 0.0, why="it died", supervisor=ref(899), failures=kept, starts=failures)
    for number, each in enumerate((State.STARTING, State.RELEASED, State.WAITING), 1):
        world.store.happened.append((world.birth.id, Entry(number, 0.0, StateChanged(each, ""))))
    return state


def test_a_supervisor_that_takes_over_in_a_pause_goes_on_waiting() -> None:
    """And counts on: one more failure than are on record."""
    world = returning()
    dies(world, 60.0)
    status = world.live(waiting(world, failures=2))
    assert world.machine.started == 1 and status.adopted
    assert status.state is State.FAILED and "3 failures" in status.why


def test_an_engine_that_was_started_in_the_instant_before_is_found() -> None:
    """Its supervisor was killed between the start and the record of it: there must not be two engines."""
    world = returning()
    world.machine.engine_runs(supervisor=1)
    status = world.live(waiting(world))
    assert world.machine.started == 0 and status.starts == 2
    assert "released" in world.store.states()[3:]


def test_stuck_in_a_later_start_it_was_not_released() -> None:
    """The first one had been; this one is checked before it is."""
    world = returning()
    waiting(world)
    for state in (State.STARTING, State.STUCK):
        world.store.happened.append((world.birth.id, Entry(9, 5.0, StateChanged(state, ""))))
    status = left_behind(State.STUCK, world)
    world.live(status)
    assert "ready" in world.store.states()


def test_adopted_after_ten_minutes_of_service_nothing_is_counted() -> None:
    """It was forgiven while the supervisor before looked on."""
    world = returning()
    status = left_behind(State.RELEASED, world, failures=(FailedStart(0.0, "it died", None, None, 2),))
    world.store.happened.append((world.birth.id, Entry(1, 0.0, StateChanged(State.RELEASED, ""))))
    dies(world, 30.0)
    assert world.live(status).failures[-1].in_a_row == 1


def test_a_second_start_that_is_refused_is_the_end() -> None:
    """The interpreter of its environment is gone, say."""
    world = returning()
    dies(world, 300.0)
    gone = LaunchError("no such file", code="launch.spawn")
    world.at(302.0, lambda: setattr(world.machine, "refuses", gone))
    status = world.live()
    assert status.state is State.FAILED and status.cause is not None and status.cause.code == "launch.spawn"
    assert ENGINE not in world.machine.alive
