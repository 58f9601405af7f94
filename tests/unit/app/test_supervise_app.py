"""Whole lives of a deployment on a fake clock: what its supervisor does, and what it puts on record."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from fakes.client import FakeClient, well
from fakes.clock import FakeClock
from fakes.leftovers import TRACES, FakeHost, FakeLeftovers
from fakes.machine import CORE, ENGINE, RUN_DIR, SUPERVISOR, WORKER, FakeMachine, ref
from fakes.records import a_birth
from fakes.store import FakeStore
from fakes.supervision import FakeBackground, FakeLog, FakeSignals
from holddown.app.supervise import Doors, supervise
from holddown.base.errors import HolddownError, LaunchError, StoreError
from holddown.base.evidence import Unknown
from holddown.base.finding import Finding
from holddown.facts.answers import Answer, Ask, Refusal, Reply
from holddown.facts.engine_report import EngineReport
from holddown.facts.leftovers import FileId, Form, FoundFile, Held, Kind
from holddown.launch.engines import adapter
from holddown.launch.events import Exit
from holddown.launch.lifecycle import Patience, State
from holddown.launch.ownership import ShmSegment
from holddown.launch.phases import Phase
from holddown.launch.restart import Restart
from holddown.remember.record import Birth, Entry, Noted, PhaseEntered, PhaseTime, StateChanged, Status
from holddown.verify.expect import CHECK_NAMES
from holddown.verify.verdict import Outcome, Verdict

PATIENCE = Patience(quiet_s=60, give_up_s=120, grace_s=30, unanswered_s=50)
SEGMENT = ShmSegment("/dev/shm/psm_1", 1, 7)
HOUR_S = 3600.0
QUICK = tuple(name for name in CHECK_NAMES if name != "first-token")
"""Skipped where the checks are not what a test is about."""


def timed(ask: Ask) -> Reply:
    """As a stream: a delta each tenth of a second."""
    reply = well(ask)
    if not isinstance(reply, Answer):
        return reply
    arrivals = tuple(0.1 * number for number in range(1, len(reply.logprobs) + 1))
    return replace(reply, arrivals=arrivals, ended_at=arrivals[-1])


def dies(ask: Ask) -> Reply:
    return Refusal(500, "EngineCore encountered an issue")


@dataclass
class World:
    """One machine with one deployment on it. It answers /health from `healthy_from` seconds on."""

    healthy_from: float = 5.0
    skip: tuple[str, ...] = QUICK
    clock: FakeClock = field(default_factory=FakeClock)
    machine: FakeMachine = field(default_factory=FakeMachine)
    store: FakeStore = field(default_factory=FakeStore)
    client: FakeClient = field(default_factory=FakeClient)
    log: FakeLog = field(default_factory=FakeLog)
    ill: bool = False
    lasts_s: float = 1200.0
    restart: Restart = Restart.NEVER
    gpus_by_user: bool = False
    obstacles: tuple[Finding, ...] = ()
    asking: HolddownError | None = None

    def __post_init__(self) -> None:
        self.signals = FakeSignals(self.clock)
        self.background = FakeBackground(self.clock)
        self.leftovers = FakeLeftovers(FakeHost(), TRACES)
        self.client.alive = lambda: (
            not self.ill and ENGINE in self.machine.alive and self.clock.elapsed >= self.healthy_from
        )

    @property
    def birth(self) -> Birth:
        birth = a_birth(skip_checks=self.skip)
        plan = replace(birth.plan, gpus=(0,)) if self.machine.gpu_load is not None else birth.plan
        return replace(birth, plan=plan, restart=self.restart, gpus_by_user=self.gpus_by_user)

    def at(self, seconds: float, action: Callable[[], None]) -> None:
        self.clock.at(seconds, action)

    def live(self, status: Status | None = None) -> Status:
        """From the given status (else: just recorded) to its end; after `lasts_s` it is told to stop."""
        status = status or Status(State.STARTING, self.clock.now())
        self.store.create(self.birth, status)
        self.at(self.lasts_s, self.signals.ask)
        doors = Doors(
            store=self.store,
            host=self.machine,
            processes=self.machine,
            leftovers=self.leftovers,
            client=lambda: self.client,
            log=self.log,
            signals=self.signals,
            background=self.background,
            clock=self.clock,
            obstacles=self.ask_obstacles,
        )
        return supervise(self.birth, status, doors, PATIENCE)

    def ask_obstacles(self, birth: Birth) -> tuple[Finding, ...]:
        if self.asking is not None:
            raise self.asking
        return self.obstacles

    @property
    def recorded(self) -> Status:
        return self.store.statuses[self.birth.id]

    def notes(self) -> list[str]:
        happenings = [entry.happening for entry in self.store.entries(self.birth.id)]
        return [each.finding.code for each in happenings if isinstance(each, Noted)]


def left_behind(state: State, world: World, **more: object) -> Status:
    """What a supervisor that was killed left on record, with its engine running."""
    world.machine.engine_runs(supervisor=1)
    world.machine.no_child = True
    return replace(Status(state, 0.0, supervisor=ref(899), engine=ref(ENGINE)), **more)  # type: ignore[arg-type]


# --- a life as it should be ---------------------------------------------------------------------------------


def test_it_is_started_checked_measured_and_released() -> None:
    """Every state in its order, every verdict, the figures, and at the end nothing is left."""
    world = World(skip=(), client=FakeClient(streams=timed))
    status = world.live()
    assert world.store.states() == ["starting", "ready", "released", "stopping", "stopped"]
    assert [verdict.check for verdict in status.verdicts] == list(CHECK_NAMES)
    assert {verdict.outcome for verdict in status.verdicts} == {Outcome.PASSED}
    assert status.measurements
    assert status.cause is None and status.exit == Exit(0)
    assert world.machine.alive == {}
    assert world.machine.removed == [(frozenset({SEGMENT}), RUN_DIR)]
    assert world.recorded == status


def test_a_skipped_check_is_on_record_as_unverified() -> None:
    """Released with a check skipped is not the same as released."""
    status = World(skip=("coherence",)).live()
    assert status.unverified == ("coherence",)


def test_what_the_engine_says_that_it_resolved_is_on_record_once_it_serves() -> None:
    """Rubbish, and an engine that says nothing, leave the record without it."""
    spoken = World(machine=FakeMachine(reported=(b'{"attention": ["FLASH_ATTN"]}', b'{"kv_cache": {"blocks": 7}}')))
    assert spoken.live().report == EngineReport(attention=("FLASH_ATTN",), kv_blocks=7)
    assert World(machine=FakeMachine(reported=(b"\xff{",))).live().report is None
    assert World().live().report is None


def test_the_supervisor_is_on_record_before_its_engine_exists() -> None:
    """Killed in between, it is found missing; the other way round there would be an engine that nobody knows."""
    world = World()
    world.live()
    first = world.store.written[0]
    assert first.supervisor == ref(SUPERVISOR) and first.engine is None


def test_phases_are_timed_from_the_log() -> None:
    """The first line of a phase sets its time; what is said in it later does not."""
    world = World()
    shards = "Loading safetensors checkpoint shards:  {}% Completed | {}/2 [00:00<00:00,  2.78it/s]"
    world.at(2.0, lambda: world.log.lines.append(shards.format(0, 0)))
    world.at(4.0, lambda: world.log.lines.append(shards.format(50, 1)))
    times = {each.phase: each.at_s for each in world.live().phases}
    assert 2.0 <= times[Phase.WEIGHTS] < 2.5


# --- ends that nobody asked for -----------------------------------------------------------------------------


def test_an_engine_that_dies_before_it_serves_is_diagnosed() -> None:
    """The cause is what its log says, in a state that says so."""
    world = World(healthy_from=HOUR_S)
    world.at(3.0, lambda: world.log.lines.append("ValueError: the shard is torn"))
    world.at(3.0, lambda: world.machine.all_end(1))
    status = world.live()
    assert status.state is State.FAILED
    assert "exited with status 1 before it served" in status.why
    assert status.cause is not None and "the shard is torn" in status.cause.seen
    assert world.store.states() == ["starting", "stopping", "failed"]


def test_the_last_words_of_an_engine_may_come_after_its_end() -> None:
    """A pipe and a program lie between its output and its log: the diagnosis waits for them."""
    world = World(healthy_from=HOUR_S)
    world.at(3.0, lambda: world.machine.all_end(1))
    world.at(3.35, lambda: world.log.lines.append("ValueError: said last"))
    cause = world.live().cause
    assert cause is not None and "said last" in cause.seen


def test_an_engine_that_dies_an_hour_after_its_release_fails() -> None:
    """Supervision does not end with the release."""
    world = World(lasts_s=2 * HOUR_S)
    world.at(HOUR_S, lambda: world.machine.all_end(-11))
    status = world.live()
    assert world.store.states() == ["starting", "ready", "released", "stopping", "failed"]
    assert status.why == "the engine was killed by signal 11 while released"
    assert status.cause is not None and status.cause.code == "engine.signal-11"


def test_workers_that_outlive_their_server_are_ended() -> None:
    """SIGTERM first, SIGKILL after the grace, and their shared memory goes."""
    world = World(machine=FakeMachine(stubborn=frozenset({WORKER})))
    world.at(100.0, lambda: world.machine.ends(ENGINE, -9))
    status = world.live()
    assert world.machine.signalled == [("SIGTERM", CORE), ("SIGTERM", WORKER), ("SIGKILL", WORKER)]
    assert 130 < world.clock.elapsed < 135
    assert world.machine.alive == {}
    assert world.machine.removed == [(frozenset({SEGMENT}), RUN_DIR)]
    assert status.state is State.FAILED and status.exit == Exit(-9)


def test_what_survives_one_sigkill_gets_another() -> None:
    """A process that was forked between our look and our signal has missed it."""
    world = World(machine=FakeMachine(stubborn=frozenset({WORKER})))
    world.at(100.0, lambda: world.machine.ends(ENGINE, -9))
    late = CORE + 50
    world.at(130.5, lambda: world.machine.add(late, "VLLM::Worker", parent=WORKER, session=ENGINE, cwd=RUN_DIR))
    world.live()
    assert ("SIGKILL", late) in world.machine.signalled
    assert world.machine.alive == {}


def test_an_engine_that_breaks_under_the_checks_is_diagnosed_and_not_released() -> None:
    """/health is good, the first request kills the engine, and its server takes its time to end: the log is asked."""
    world = World(skip=())

    def breaks(ask: Ask) -> Reply:
        world.ill = True
        world.log.lines.append("ValueError: kv_cache_dtype fp8 is not supported")
        return dies(ask)

    world.client.says = breaks
    status = world.live()
    assert status.state is State.FAILED
    assert "released" not in world.store.states()
    assert status.cause is not None and "fp8" in status.cause.seen
    assert world.machine.alive == {}


def test_an_engine_that_breaks_under_the_load_is_not_released() -> None:
    """The checks have passed, and measuring kills it."""
    world = World(client=FakeClient(streams=dies))
    world.client.says = well
    measured: list[bool] = []

    def breaks(ask: Ask) -> Reply:
        measured.append(True)
        world.ill = True
        return dies(ask)

    world.client.streams = breaks
    status = world.live()
    assert measured
    assert status.state is State.FAILED and "released" not in world.store.states()


def test_what_to_do_about_a_failed_measurement_can_be_pasted() -> None:
    """The deployment's own name stands in the command."""
    world = World(client=FakeClient(streams=dies))
    status = world.live()
    assert "released" in world.store.states()
    (finding,) = status.notes
    assert finding.code == "measure.failed-requests"
    assert finding.do == f"read the engine's log: holddown logs {world.birth.name}"


def test_wrong_answers_are_never_released() -> None:
    """A healthy engine whose answers fail their checks is stopped; its verdicts say which."""
    world = World(skip=())
    world.client.says = lambda ask: well(replace(ask, model="m"))  # takes every model name
    status = world.live()
    assert status.state is State.FAILED
    assert status.why == "verification failed: wrong-model"
    assert "released" not in world.store.states()
    assert world.machine.alive == {}


@dataclass
class Listening(FakeLeftovers):
    """listeners: who can be seen to listen on the port."""

    listeners: frozenset[int] = frozenset()

    def held(self, pid: int) -> Held:
        return Held((), (8000,) if pid in self.listeners else ())


def test_the_health_of_another_program_is_not_ours() -> None:
    """It took the port before our engine came to bind it: its answers would pass for those of our model."""
    world = World()
    stranger = 4242
    world.machine.add(stranger, "python other_server.py")
    world.leftovers = Listening(FakeHost(), TRACES, listeners=frozenset({stranger}))
    world.at(30.0, lambda: world.machine.all_end(1))
    status = world.live()
    assert world.store.states() == ["starting", "stopping", "failed"]
    assert world.client.asked == []
    assert [note.code for note in status.notes] == ["port.taken-meanwhile"]
    assert "pid 4242" in status.notes[0].seen


def test_where_nobody_can_be_seen_to_listen_the_answer_counts() -> None:
    """/proc may hide what a process has open, even one of ours."""
    world = World()
    world.leftovers = Listening(FakeHost(), TRACES)
    world.live()
    assert "released" in world.store.states()


# --- silence ------------------------------------------------------------------------------------------------


def test_a_released_engine_that_does_not_answer_is_stuck_until_it_does() -> None:
    """It is not ended for that: whether it is worth waiting for is for a person to say."""
    world = World()
    world.at(200.0, lambda: setattr(world, "ill", True))
    world.at(1000.0, lambda: setattr(world, "ill", False))
    world.live()
    assert world.store.states() == ["starting", "ready", "released", "stuck", "released", "stopping", "stopped"]


def test_a_log_that_goes_on_is_no_answer() -> None:
    """An API server may print its statistics for ever above an engine that hangs."""
    world = World()
    world.at(200.0, lambda: setattr(world, "ill", True))
    for second in range(200, 400, 5):
        world.at(second, lambda: world.log.lines.append("Engine 000: Avg prompt throughput: 0.0 tokens/s"))
    world.live()
    assert "stuck" in world.store.states()


def test_an_engine_that_hangs_while_it_starts_is_given_up() -> None:
    """Stuck first, so that it can be looked at; then ended, so that its GPUs are free again."""
    world = World(healthy_from=9 * HOUR_S, machine=FakeMachine(working=False))
    status = world.live()
    assert world.store.states() == ["starting", "stuck", "stopping", "failed"]
    assert "no sign of life" in status.why
    assert 180 < world.clock.elapsed < 190
    assert world.machine.alive == {}
    assert [head.partition(", ")[2][:8] for head in world.machine.dumped] == ["stuck: n", "stopping"]
    assert status.stacks == "/state/stacks.txt"
    assert status.cause is not None and status.cause.code == "engine.silent"
    assert "CPU idle, reads nothing" in status.cause.seen and "/state/stacks.txt" in status.cause.do
    (note,) = status.notes
    assert note.code == "engine.standing-still" and "CPU idle, reads nothing" in note.what
    assert "/state/stacks.txt has what its processes are at" in note.seen


def test_without_the_program_for_it_the_note_says_how_to_have_stacks() -> None:
    """No file is named that there is not."""
    world = World(healthy_from=9 * HOUR_S, machine=FakeMachine(working=False, stacks=Unknown("py-spy is not here")))
    status = world.live()
    assert status.stacks == "" and "pip install py-spy" in status.notes[0].do
    assert status.cause is not None and status.cause.do == "holddown logs m"


@pytest.mark.parametrize(
    ("load", "by_user", "stuck"), [(None, False, True), (0, False, True), (97, False, False), (97, True, True)]
)
def test_a_gpu_that_computes_is_a_sign_of_life(load: int | None, by_user: bool, stuck: bool) -> None:
    """Where only ours may compute on it."""
    world = World(healthy_from=HOUR_S, machine=FakeMachine(working=False, gpu_load=load), gpus_by_user=by_user)
    world.live()
    assert ("stuck" in world.store.states()) is stuck


# --- work that takes far too long ---------------------------------------------------------------------------


def before(world: World, server_at_s: float) -> None:
    """An earlier start of that checkpoint, on record."""
    phases = tuple(PhaseTime(phase, at_s) for phase, at_s in ((Phase.PROCESS, 0.0), (Phase.SERVER, server_at_s)))
    world.store.create(replace(world.birth, id="earlier"), Status(State.STOPPED, 0.0, phases=phases))


def test_a_phase_that_takes_far_longer_than_before_is_said_once_and_goes_on() -> None:
    """In silence, but with busy CPUs: a collective that waits for a peer, or work. Nothing is done to it."""
    world = World(healthy_from=250.0)
    before(world, server_at_s=20.0)
    status = world.live()
    (note,) = [each for each in status.notes if each.code == "engine.overdue"]
    assert "process up: for 2 min 4" in note.what and "at most 20.0 s in earlier starts" in note.what
    assert "stuck" not in world.store.states() and "released" in world.store.states()


def test_a_phase_that_is_overdue_for_longer_than_silence_may_last_is_ended() -> None:
    """Its GPUs are free again; the cause says why, with the stacks."""
    world = World(healthy_from=HOUR_S)
    before(world, server_at_s=20.0)
    status = world.live()
    assert world.store.states() == ["starting", "stopping", "failed"]
    assert status.cause is not None and status.cause.code == "engine.silent"
    assert "at most 20.0 s in earlier starts" in status.why and world.clock.elapsed < 300


def test_without_an_earlier_start_or_where_it_works_nothing_is_overdue() -> None:
    """What it normally takes is not known; who speaks works, and so does a compiler, which allocates without a word."""
    unknown = World(healthy_from=1000.0)
    unknown.live()
    talks = World(healthy_from=1000.0)
    before(talks, server_at_s=20.0)
    for second in range(0, 1000, 50):
        talks.at(second, lambda: talks.log.lines.append("still compiling"))
    talks.live()
    grows = World(healthy_from=1000.0, machine=FakeMachine(grows_bytes=10 * 1024**2))
    before(grows, server_at_s=20.0)
    grows.live()
    assert "engine.overdue" not in unknown.notes() + talks.notes() + grows.notes()


def test_an_engine_that_hangs_under_the_checks_is_given_up() -> None:
    """A request that is never answered must not hold GPUs for ever."""
    world = World(machine=FakeMachine(working=False))
    world.background.seconds = None
    status = world.live()
    assert world.store.states() == ["starting", "ready", "stuck", "stopping", "failed"]
    assert status.state is State.FAILED


def test_slow_but_busy_is_not_stuck() -> None:
    """A compiler that prints nothing for ten minutes uses CPU time."""
    world = World(healthy_from=600.0)
    assert world.live().state is State.STOPPED
    assert "stuck" not in world.store.states() and "released" in world.store.states()


# --- stopping -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("second", [0.1, 2.0, 5.5, 7.0, 100.0])
def test_a_stop_is_obeyed_at_any_time(second: float) -> None:
    """Just started, loading, checking, measuring, released: it stops, and that is no failure."""
    world = World()
    world.at(second, world.signals.ask)
    status = world.live()
    assert status.state is State.STOPPED and status.cause is None
    assert status.stop_asked
    assert world.machine.alive == {} and world.clock.elapsed < second + 5


def test_a_stop_does_not_wait_for_checks_that_hang() -> None:
    """The thread that asks may wait for ever; the deployment is over without it, and its verdicts are not kept."""
    world = World()
    world.background.seconds = None
    world.at(10.0, world.signals.ask)
    status = world.live()
    assert status.state is State.STOPPED and status.verdicts == ()
    assert world.clock.elapsed < 15


def test_an_engine_that_ignores_the_stop_is_killed_after_the_grace() -> None:
    """All of its processes."""
    world = World(machine=FakeMachine(stubborn=frozenset({ENGINE, CORE, WORKER})))
    world.at(100.0, world.signals.ask)
    status = world.live()
    assert [pid for name, pid in world.machine.signalled if name == "SIGKILL"] == [ENGINE, CORE, WORKER]
    assert status.state is State.STOPPED


# --- adoption -----------------------------------------------------------------------------------------------

GOOD = Verdict("first-token", Outcome.PASSED, "' Paris'")


def test_adopted_released_stays_released() -> None:
    """A crash of ours is no outage of theirs: no check is run again, no verdict is lost, no signal is sent."""
    world = World()
    status = left_behind(State.RELEASED, world, verdicts=(GOOD,))
    ended = world.live(status)
    assert world.store.states() == ["stopping", "stopped"]
    assert ended.adopted and ended.verdicts == (GOOD,)
    assert world.client.asked == []
    assert world.machine.started == 0


@pytest.mark.parametrize("state", [State.STARTING, State.READY, State.STUCK])
def test_adopted_before_its_release_it_is_checked_again(state: State) -> None:
    """The checks ended with the supervisor that ran them; what they had said is not kept twice."""
    world = World()
    ended = world.live(left_behind(state, world, verdicts=(GOOD,)))
    assert world.store.states()[-4:] == ["ready", "released", "stopping", "stopped"]
    assert [verdict.check for verdict in ended.verdicts] == list(CHECK_NAMES)


def test_adopted_while_stuck_after_its_release_it_is_not_given_up() -> None:
    """The record tells that it had been released."""
    world = World(ill=True, machine=FakeMachine(working=False))
    status = left_behind(State.STUCK, world)
    world.store.happened.append((world.birth.id, Entry(1, 0.0, StateChanged(State.RELEASED, ""))))
    world.live(status)
    assert world.store.states() == ["released", "released", "stuck", "stopping", "stopped"]
    assert world.clock.elapsed >= world.lasts_s


@pytest.mark.parametrize(("asked", "end"), [(True, State.STOPPED), (False, State.FAILED)])
def test_adopted_while_stopping_it_goes_on_stopping(asked: bool, end: State) -> None:
    """The last supervisor may have died before its signal: it is sent again, and the reason stays."""
    world = World()
    ended = world.live(left_behind(State.STOPPING, world, stop_asked=asked, why="verification failed: usage"))
    assert ended.state is end and ended.why == "verification failed: usage"
    assert world.machine.signalled == [("SIGTERM", ENGINE)]


def test_adopted_dead_is_never_shown_as_released() -> None:
    """Engine and supervisor were killed together: the first word of the new one already says that it ended."""
    world = World()
    status = left_behind(State.RELEASED, world, segments=(SEGMENT,))
    world.machine.all_end(-9)
    ended = world.live(status)
    assert world.store.written[0].state is State.STOPPING
    assert ended.state is State.FAILED and "a status that nobody saw" in ended.why
    assert world.machine.removed == [(frozenset({SEGMENT}), RUN_DIR)]


def test_an_engine_that_is_not_on_record_is_found_by_its_private_folder() -> None:
    """Its supervisor was killed between the start and the record of it: there must not be two engines."""
    world = World()
    status = replace(left_behind(State.STARTING, world), engine=None)
    ended = world.live(status)
    assert world.machine.started == 0
    assert ended.engine == ref(ENGINE) and "released" in world.store.states()


def test_a_supervisor_that_died_before_its_engine_starts_none() -> None:
    """Whoever asked for it has gone; the deployment is failed, and nothing is launched behind anybody's back."""
    world = World()
    ended = world.live(Status(State.STARTING, 0.0, supervisor=ref(899)))
    assert world.machine.started == 0
    assert ended.state is State.FAILED and ended.cause is not None and ended.cause.code == "supervisor.lost"


def test_a_pid_that_is_another_programs_now_is_not_touched() -> None:
    """Same number, another start time: the engine is gone, and the program that has its pid is left alone."""
    world = World()
    status = left_behind(State.RELEASED, world)
    world.machine.alive.clear()
    world.machine.add(ENGINE, "postgres")
    ended = world.live(replace(status, engine=replace(ref(ENGINE), started_at=5)))
    assert ended.state is State.FAILED
    assert world.machine.signalled == [] and ENGINE in world.machine.alive


def test_what_is_over_is_not_supervised() -> None:
    """A late supervisor of a deployment that was given up starts nothing."""
    world = World()
    over = Status(State.FAILED, 0.0)
    assert world.live(over) == over
    assert world.machine.started == 0 and world.store.written == []


# --- trouble of our own -------------------------------------------------------------------------------------


def test_a_launch_that_fails_is_on_record_with_its_cause() -> None:
    """The interpreter of the environment is gone, say."""
    world = World(machine=FakeMachine(refuses=LaunchError("no such file", code="launch.spawn", do="reinstall")))
    status = world.live()
    assert status.state is State.FAILED
    assert status.cause is not None and (status.cause.code, status.cause.do) == ("launch.spawn", "reinstall")
    assert world.machine.removed == [(frozenset(), RUN_DIR)]


def test_a_bug_in_a_job_is_reported_and_harms_no_engine() -> None:
    """It is on record and raised, and the engine runs on for the next supervisor."""
    world = World()

    def bug(ask: Ask) -> Reply:
        raise ZeroDivisionError("ours")

    world.client.says = bug
    with pytest.raises(ZeroDivisionError):
        world.live()
    assert world.notes() == ["bug.supervisor"]
    assert world.recorded.state is State.READY
    assert world.machine.signalled == [] and ENGINE in world.machine.alive


def test_a_store_that_cannot_be_written_ends_no_engine() -> None:
    """What happened meanwhile is on record afterwards, and that it was late."""
    world = World()
    world.at(3.0, lambda: setattr(world.store, "broken", True))
    world.at(300.0, lambda: setattr(world.store, "broken", False))
    status = world.live()
    assert world.store.states() == ["starting", "ready", "released", "stopping", "stopped"]
    assert "store.late" in [note.code for note in status.notes]


def test_the_last_word_is_tried_for_a_minute() -> None:
    """Then the error is raised: the next command finds the engine gone and writes it."""
    world = World()
    world.at(100.0, world.signals.ask)
    world.at(99.0, lambda: setattr(world.store, "broken", True))
    with pytest.raises(StoreError):
        world.live()
    assert world.machine.alive == {} and world.clock.elapsed < 180


def test_nothing_is_started_that_cannot_be_put_on_record() -> None:
    """An engine without a record is one that nobody can stop."""
    world = World()
    world.store.broken = True
    with pytest.raises(StoreError):
        world.live()
    assert world.machine.started == 0


def test_a_full_log_disk_is_noted_once() -> None:
    """Also long after the release; the engine is left alone."""
    world = World(lasts_s=2 * HOUR_S)
    world.at(HOUR_S, lambda: setattr(world.machine, "log_disk_free_bytes", 0))
    status = world.live()
    assert world.notes().count("disk.log-full") == 1
    assert status.state is State.STOPPED


def test_a_disk_that_cannot_be_looked_at_is_no_reason_to_stop_supervising() -> None:
    """The log's folder may be gone."""
    world = World(machine=FakeMachine(disk_fails=True))
    assert world.live().state is State.STOPPED


# --- shared memory that was never seen mapped -----------------------------------------------------------------


def test_a_file_that_no_process_of_the_engine_was_seen_to_map_is_not_touched() -> None:
    """Killed as a whole between two looks, it may leave a segment; by its name alone that could be anybody's."""
    world = World(healthy_from=HOUR_S)
    start = world.clock.now()
    new = FoundFile("/dev/shm/psm_new", Kind.SHM, Form.FILE, FileId(0, 1, 7), 1000, "me", 10, start + 2.5, start + 2.5)
    world.leftovers.traces = replace(TRACES, looked_at=start + 3, files=(new,))
    world.at(2.6, lambda: world.machine.all_end(-9))
    world.live()
    assert world.leftovers.removed == []


def test_findings_are_for_people() -> None:
    """Each note says what, what was seen, and what to do where there is something to do."""
    world = World(machine=FakeMachine(log_disk_free_bytes=0))
    world.live(left_behind(State.RELEASED, world))
    findings: list[Finding] = list(world.recorded.notes)
    assert {each.code for each in findings} == {"supervisor.adopted", "disk.log-full"}
    assert all(each.what and each.seen for each in findings)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("", "engine.killed-for-memory"),
        ("RuntimeError: Engine core initialization failed. See root cause above.", "engine.killed-for-memory"),
        ("attention heads (7) must be divisible by tensor parallel size (2)", "engine.heads-not-divisible"),
    ],
)
def test_a_kill_for_want_of_memory_is_told_from_any_other(line: str, code: str) -> None:
    """The counter of its control group grew; a line that tells why it failed stays the cause."""
    world = World(healthy_from=HOUR_S)

    def dies() -> None:
        world.log.lines.append(line)
        world.machine.kills += 1
        world.machine.all_end(-9)

    world.at(3.0, dies)
    cause = world.live().cause
    assert cause is not None and cause.code == code


def test_a_phase_that_is_read_after_the_first_answer_is_on_record_once() -> None:
    """Its line was on its way when /health answered; what it writes while it is checked enters nothing anew."""
    world = World()
    server_up = "INFO:     Application startup complete."
    assert adapter("vllm").phase(server_up) is not None
    world.at(5.5, lambda: world.log.lines.extend([server_up, server_up]))
    phases = [str(each.phase) for each in world.live().phases]

    assert phases.count("server") == 1
    entered = [each.happening for each in world.store.entries(world.birth.id)]
    assert [str(each.phase) for each in entered if isinstance(each, PhaseEntered)].count("server") == 1
