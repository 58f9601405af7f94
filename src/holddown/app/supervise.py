"""The supervisor: one loop per deployment, and the only writer of its state. Decisions are `lifecycle.step`'s."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import assert_never

from holddown import ports
from holddown.app.adopt import taken_over
from holddown.app.announce import Announcer
from holddown.app.cause import cause_of_end, cause_of_silence, with_kernels_word
from holddown.app.chronicle import Chronicle
from holddown.app.engine_processes import EngineProcesses
from holddown.app.health import Health
from holddown.app.jobs import Jobs
from holddown.app.standing import Pace, Standing, standing
from holddown.base.errors import HolddownError, LaunchError, MachineError, StoreError, UsageError
from holddown.base.evidence import Known
from holddown.base.finding import Finding, Severity
from holddown.explain.happening import overdue_text
from holddown.explain.supervision import (
    adopted,
    broken,
    log_disk_full,
    never_started,
    overdue,
    port_taken,
    restart_hindered,
    standing_still,
)
from holddown.facts.machine import ProcessFacts
from holddown.launch import events, lifecycle
from holddown.launch.engines import adapter
from holddown.launch.lifecycle import Effect, Life, Patience, State
from holddown.launch.ownership import Activity
from holddown.launch.phases import Phase, PhaseSeen
from holddown.launch.restart import mark
from holddown.measure.metrics import Measured
from holddown.remember import record
from holddown.remember.record import Birth, Deployment, FailedStart, PhaseTime, Status
from holddown.verify.again import another_start_may_help
from holddown.verify.verdict import Verdict

_STARTING_POLL_S = 0.2
_SERVING_POLL_S = 2.0
_LOOK_AROUND_S = 2.0  # a look at every process of the machine costs about 10 ms
_SERVING_LOOK_S = 10.0
_LOG_DISK_LOW_BYTES = 8 * 1024**2


@dataclass(frozen=True, slots=True)
class Doors:
    """What the supervisor reaches the world through. client: of its endpoint, with its key as it is then. obstacles:
    what forbids another start of that deployment now. notify: the service manager that started it, if one did."""

    store: ports.Store
    host: ports.Host
    processes: ports.Processes
    leftovers: ports.Leftovers
    client: Callable[[], ports.Client]
    log: ports.Log
    signals: ports.Signals
    background: ports.Background
    clock: ports.Clock
    obstacles: Callable[[Birth], tuple[Finding, ...]]
    notify: ports.Notify | None = None


def supervise(birth: Birth, status: Status, doors: Doors, patience: Patience | None = None) -> Status:
    """Runs until the deployment is over. Launches its engine, or adopts it where an earlier supervisor is on record.

    Raises: StoreError when the record cannot be written before the engine is started, or for a minute after its end.
    Any other exception is a bug of ours: it is put on record, and the engine is left running for the next supervisor.
    """
    if status.state.over:
        return status
    supervisor = _Supervisor(birth, status, doors, patience or Patience.for_load(birth.plan.load_bytes))
    try:
        if status.supervisor is None:
            supervisor.launch()
        else:
            supervisor.adopt()
        while not supervisor.over:
            supervisor.turn()
    except StoreError:
        raise
    except LaunchError as error:
        supervisor.not_started(error)
    except Exception as bug:
        supervisor.report(bug)
        raise
    supervisor.chronicle.finish()
    return supervisor.chronicle.status


class _Start:
    """What is known of one start of the engine. began: by the monotonic clock."""

    def __init__(self, birth: Birth, doors: Doors) -> None:
        self.began = doors.clock.monotonic()
        client = doors.client()
        self.jobs = Jobs(birth, client, doors.background, doors.clock)
        self.health = Health(birth.spec.port, client, self.jobs, doors.host, doors.leftovers)
        self.oom_kills = doors.host.oom_kills()
        self.looked_at = float("-inf")
        self.pace = Pace(birth, doors.store.all, self.began)
        self.activity: Activity | None = None
        self.stood: Standing | None = None
        self.overdue: Phase | None = None
        self.ended = False


class _Supervisor:
    def __init__(self, birth: Birth, status: Status, doors: Doors, patience: Patience) -> None:
        self.birth, self._doors, self._patience = birth, doors, patience
        self.chronicle = Chronicle(birth, status, doors.store, doors.clock)
        self._phase_of = adapter(birth.engine.kind).phase
        self._life: Life = lifecycle.begin(doors.clock.monotonic(), birth.restart)
        self._own = EngineProcesses(birth, self.chronicle, doors.processes, doors.host)
        self._start = _Start(birth, doors)
        self._log_disk_noted = False
        self._announcer = Announcer(doors.notify, patience) if doors.notify is not None else None

    @property
    def over(self) -> bool:
        return self._life.state.over

    @property
    def _status(self) -> Status:
        return self.chronicle.status

    # --- beginnings ---------------------------------------------------------------------------------------

    def launch(self) -> None:
        # on record before the engine exists: if we die in between, nobody takes this deployment for abandoned
        self.chronicle.change(replace(self._status, supervisor=self._doors.processes.me()))
        self.chronicle.add(record.StateChanged(State.STARTING, ""))
        self.chronicle.write()
        self._start_engine("")

    def _start_engine(self, head: str) -> None:
        engine = self._doors.processes.start_engine(self.birth, head)
        self.chronicle.change(replace(self._status, engine=engine))
        if self._life.state is State.WAITING:
            self._take(events.EngineStarted())
        self.chronicle.try_to_write()
        self._enter(PhaseSeen(Phase.PROCESS, detail=f"pid {engine.pid}"))

    def _start_again(self) -> None:
        """Where nothing is in the way now that was not when it was planned. If we die after it and before the record of
        it, the next supervisor finds the engine by its private folder."""
        if self._start.jobs.running():
            return  # a request of ours to the engine before is still open
        try:
            in_the_way = self._doors.obstacles(self.birth)
        except UsageError as error:  # another checkpoint or engine than the one that was released
            self.not_started(error)
            return
        except HolddownError as error:  # a mount that is away for a while
            in_the_way = (_finding(error, self.birth.name),)
        if in_the_way:
            hindered = restart_hindered(self.birth.name, in_the_way[0])
            self.chronicle.change(replace(self._status, notes=()))  # it stands for what hindered before
            self.chronicle.note(hindered)
            self._take(events.StartHindered(hindered.what))
            return
        for _ in self._doors.log.new():
            pass  # the last words of the engine before
        self._start = _Start(self.birth, self._doors)
        number = self._status.starts + 1
        self.chronicle.change(replace(self._status, starts=number, notes=()))
        self._start_engine(mark(self.birth.name, number, self._doors.clock.now()))

    def adopt(self) -> None:
        """The engine of a supervisor that is gone. It goes on from where it is: verified stays verified."""
        before, doors, now = self._status, self._doors, self._doors.clock.now()
        entries = doors.store.entries(self.birth.id)
        taken = taken_over(Deployment(self.birth, before), entries, doors.host.processes(), now)
        mine = replace(before, supervisor=doors.processes.me(), engine=taken.engine, adopted=True, starts=taken.starts)
        self.chronicle.change(mine)  # written below, whole
        if taken.lost:
            self._fail(never_started(self.birth.name, self.birth.up_again))
            return
        self._life, effects = lifecycle.resume(taken.left, doors.clock.monotonic())
        if self._life.state is State.STARTING:
            self.chronicle.change(replace(self._status, verdicts=()))  # they come again
        if self._life.state is not before.state:
            self._change_state()
        for effect in effects:
            self._perform(effect, None)
        if taken.engine is not None:
            self._start.began -= max(0.0, now - taken.began_at)
            for _ in doors.log.new():
                pass  # what its log says already was seen then, or has no time that we know
            self._look_at_engine()  # before anything is written: the record must not say `released` of a dead engine
            self.chronicle.note(adopted(self.birth.name, taken.engine, before.state, alive=not self._start.ended))
        self.chronicle.try_to_write()

    # --- one turn -----------------------------------------------------------------------------------------

    def turn(self) -> None:
        serving = self._life.state is State.RELEASED
        asked = self._doors.signals.wait(_SERVING_POLL_S if serving else _STARTING_POLL_S)
        if asked is not None:
            self._take(events.StopAsked("the user"))
        if self._status.engine is not None:
            self._read_log()
            self._look_at_engine()  # before the jobs are heard: a dead engine is not released
            self._hear_jobs()
        if self._status.engine is not None and self._life.state is not State.STOPPING and not self.over:
            self._ask_health()
        self._take(events.Tick())
        self.chronicle.try_to_write()
        self._announce()

    def _announce(self) -> None:
        if self._announcer is not None:
            self._announcer.see(self._status, self._doors.clock.monotonic())

    def _take(self, event: events.Event) -> None:
        before = self._life
        now = self._doors.clock.monotonic()
        self._life, effects = lifecycle.step(self._life, event, now, self._patience)
        changed = (self._life.state, self._life.why, self._life.asked) != (before.state, before.why, before.asked)
        if changed:
            self._change_state()
            if self._life.within(State.READY):
                self.chronicle.hear(self._doors.processes)
        for effect in effects:
            self._perform(effect, event)
        if changed:
            self.chronicle.try_to_write()

    def _change_state(self) -> None:
        life, status, now = self._life, self._status, self._doors.clock.now()
        if life.state is State.WAITING and status.state is not State.WAITING:
            failed = FailedStart(now, status.why, status.cause, status.exit, life.failures)
            status = record.between_starts(status, failed)
        self.chronicle.add(record.StateChanged(life.state, life.why))
        self.chronicle.change(replace(status, state=life.state, since=now, why=life.why, stop_asked=life.asked))

    def _perform(self, effect: Effect, event: events.Event | None) -> None:
        match effect:
            case Effect.VERIFY:
                self._start.jobs.verify()
            case Effect.MEASURE:
                self._start.jobs.measure()
            case Effect.TERMINATE:
                self._own.terminate()
            case Effect.KILL:
                self._own.kill()
            case Effect.DIAGNOSE:
                self._diagnose(event)
            case Effect.SWEEP:
                self._own.sweep()
            case Effect.STACKS:
                self._look_closely()
            case Effect.START:
                self._start_again()
            case _:
                assert_never(effect)

    # --- what is seen -------------------------------------------------------------------------------------

    def _read_log(self) -> bool:
        lines = 0
        for line in self._doors.log.new():
            lines += 1
            seen = self._phase_of(line)
            if seen is not None and self._is_of_the_start(seen):
                self._enter(seen)
        if lines:
            self._start.pace.speaks(self._doors.clock.monotonic())
            self._take(events.Moved())
        return bool(lines)

    def _is_of_the_start(self, seen: PhaseSeen) -> bool:
        """What it wrote before it answered /health may come through its pipe after that."""
        late = self._life.within(State.READY) and seen.phase not in {each.phase for each in self._status.phases}
        return late or self._life.within(State.STARTING)

    def _enter(self, seen: PhaseSeen) -> None:
        now = self._doors.clock.monotonic()
        at_s = now - self._start.began
        self._start.pace.enters(seen.phase, now)
        known = {entered.phase for entered in self._status.phases}
        if seen.phase not in known:
            self.chronicle.change(replace(self._status, phases=(*self._status.phases, PhaseTime(seen.phase, at_s))))
        self.chronicle.add(record.PhaseEntered(seen.phase, at_s, seen.done, seen.total, seen.detail))
        self._take(events.Moved(seen.phase))

    def _ask_health(self) -> None:
        health, jobs, now = self._start.health, self._start.jobs, self._doors.clock.monotonic()
        if not health.due(self._life, now):
            return
        answered = health.ask(self._life, self._own.now() if self._life.within(State.STARTING) else (), now)
        codes = {note.code for note in self._status.notes}
        if health.stranger is not None and "port.taken-meanwhile" not in codes:
            self.chronicle.note(port_taken(self.birth.name, self.birth.spec.port, health.stranger))
        self._take(answered)
        if health.reached and self._life.within(State.RELEASED) and jobs.watch.due(now):
            self._take(events.HealthAnswered(False, "idle, and one token is not answered"))
            jobs.probe()

    def _look_at_engine(self) -> None:
        if not self._start.ended:
            exit = self._doors.processes.exit_of(self._own.engine)
            if exit is not None:
                self._start.ended = True
                self.chronicle.change(replace(self._status, exit=self._status.exit or exit))
                self._take(events.EngineEnded(exit))
        now = self._doors.clock.monotonic()
        every_s = _SERVING_LOOK_S if self._life.state is State.RELEASED else _LOOK_AROUND_S
        if self._life.state is not State.STOPPING and now - self._start.looked_at < every_s:
            return
        self._start.looked_at = now
        left = self._own.now()
        if self._start.ended and not left:
            self._own.clean_up()
            self._take(events.EngineGone(self._is_hopeless()))
            return
        self._watch_log_disk()
        if not self._life.within(State.RELEASED):
            self._watch_growth(left)

    def _watch_growth(self, left: tuple[ProcessFacts, ...]) -> None:
        activity = self._doors.processes.activity(left)
        before, self._start.activity = self._start.activity, activity
        still = before is None or activity == before
        # of GPUs that the user named, others may compute on them as well
        if still and (self.birth.gpus_by_user or not any(self._doors.host.gpu_loads(self.birth.plan.gpus))):
            return
        self._take(events.Moved())
        if self._life.state is State.STARTING:
            self._start.pace.looks(before or activity, activity, self._doors.clock.monotonic())
            self.chronicle.add(record.Growing(activity.rss_bytes, activity.read_bytes))
            self._watch_pace()

    def _watch_pace(self) -> None:
        """It moves, which need not be work."""
        found = self._start.pace.overdue(self._doors.clock.monotonic(), self._patience)
        if found is None:
            return
        what = overdue_text(found.phase, found.spent_s, found.usual_s, found.quiet_s)
        if found.hopeless:
            self._take(events.Hopeless(what))
        elif self._start.overdue is not found.phase:
            self._start.overdue = found.phase
            stood = self._look_closely()
            self.chronicle.note(self.chronicle.addressed(overdue(what, stood.activity, stood.stacks)))

    def _look_closely(self) -> Standing:
        """At one that gives no sign, or will be ended for it."""
        doors, why = self._doors, self._life.why
        at = datetime.fromtimestamp(doors.clock.now(), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        head = f"{at}, {self._life.state}: {why}"
        stood = standing(self.birth, self._own.now(), head, doors.processes, doors.host, doors.clock)
        self._start.stood = stood
        if isinstance(stood.stacks, Known):
            self.chronicle.change(replace(self._status, stacks=stood.stacks.value))
        if self._life.state is State.STUCK:
            self.chronicle.note(self.chronicle.addressed(standing_still(why, stood.activity, stood.stacks)))
        return stood

    def _watch_log_disk(self) -> None:
        if self._log_disk_noted:
            return
        with suppress(MachineError):  # what it says would be about the log's folder, not about the engine
            free_bytes = self._doors.host.disk(self.birth.log_path).free_bytes
            if free_bytes >= _LOG_DISK_LOW_BYTES:
                return
            self._log_disk_noted = True
            self.chronicle.note(log_disk_full(self.birth.log_path, free_bytes))

    def _hear_jobs(self) -> None:
        self._start.jobs.running()
        for found in self._start.jobs.found():
            if isinstance(found, events.HealthAnswered):
                self._take(found)
                continue
            if not self._life.within(State.READY):
                continue  # it was stopped or it ended meanwhile: what was asked of it then says nothing about it
            match found:
                case record.Doing():
                    self.chronicle.add(found)
                case Verdict():
                    self.chronicle.keep_verdict(found)
                    self._take(events.Moved())
                case Measured():
                    self.chronicle.keep_measured(found)
                case events.VerificationEnded() | events.MeasurementEnded():
                    self._take(found)
                case _:
                    assert_never(found)

    # --- endings ------------------------------------------------------------------------------------------

    def not_started(self, error: HolddownError) -> None:
        """No engine came of it."""
        self._fail(_finding(error, self.birth.name))

    def _fail(self, cause: Finding) -> None:
        self._doors.processes.remove(frozenset(), self.birth.run_dir)
        self._life = replace(self._life, state=State.FAILED, why=cause.what)
        self.chronicle.change(replace(self._status, cause=cause))
        self.chronicle.add(record.Noted(cause))
        self._change_state()

    def report(self, bug: Exception) -> None:
        """Puts a bug of ours on record. Nothing is done to the engine: the next command gives it a new supervisor."""
        self.chronicle.note(broken(self.birth.name, bug))
        with suppress(StoreError):  # the traceback in its own log has to do
            self.chronicle.write()

    def _diagnose(self, event: events.Event | None) -> None:
        log, kind = self._doors.log, self.birth.engine.kind
        if isinstance(event, events.Tick | events.Hopeless):
            activity = self._start.stood.activity if self._start.stood is not None else ""
            cause, edits = cause_of_silence(log, kind, self._life.why, activity, self._status.stacks)
        else:
            code = event.exit.code if isinstance(event, events.EngineEnded) else None
            cause, edits = cause_of_end(log, kind, code, self._doors.clock)
        cause = with_kernels_word(cause, self._doors.host.oom_kills() - self._start.oom_kills, self._doors.host)
        cause = self.chronicle.addressed(cause)
        self.chronicle.change(replace(self._status, cause=cause, edits=edits))
        self.chronicle.add(record.Noted(cause))

    def _is_hopeless(self) -> bool:
        """A start that failed before it served, of what another one would fail of, too."""
        cause = self._status.cause
        return cause is not None and not self._status.verdicts and not another_start_may_help(cause.code)


def _finding(error: HolddownError, name: str) -> Finding:
    return Finding(error.code, Severity.BLOCK, name, error.what, error.seen, error.do)
