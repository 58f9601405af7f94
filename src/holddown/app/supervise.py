"""The supervisor: one loop per deployment, and the only writer of its state. Decisions are `lifecycle.step`'s."""

import queue
from dataclasses import dataclass, replace
from typing import assert_never

from holddown import ports
from holddown.app.measure import measure
from holddown.app.verify import verify
from holddown.base.finding import Finding, Severity
from holddown.facts.machine import ProcessFacts
from holddown.launch import lifecycle
from holddown.launch.engines import adapter
from holddown.launch.lifecycle import Effect, Life, Patience, ProcessRef, State
from holddown.launch.ownership import Activity, ShmSegment, members, reference
from holddown.launch.phases import Phase, PhaseSeen
from holddown.measure.metrics import Measured
from holddown.remember import record
from holddown.remember.record import Birth, Happening, PhaseTime, Status
from holddown.verify import expect
from holddown.verify.diagnose import root_cause
from holddown.verify.verdict import Outcome, Verdict

_STARTING_POLL_S = 0.2
_SERVING_POLL_S = 2.0
_LOOK_AROUND_S = 2.0  # a look at every process of the machine costs about 10 ms
_SERVING_LOOK_S = 10.0  # also how often /health is asked: an engine logs each request
_DIAGNOSED_LINES = 2000
_LOG_DISK_LOW_BYTES = 8 * 1024**2


@dataclass(frozen=True, slots=True)
class Doors:
    """What the supervisor reaches the world through."""

    store: ports.Store
    host: ports.Host
    processes: ports.Processes
    client: ports.Client
    log: ports.Log
    signals: ports.Signals
    background: ports.Background
    clock: ports.Clock


def supervise(birth: Birth, status: Status, doors: Doors, patience: Patience | None = None) -> Status:
    """Runs until the deployment is over. Launches its engine, or adopts the one that `status` names."""
    supervisor = _Supervisor(birth, status, doors, patience or Patience.for_load(birth.plan.load_bytes))
    if status.engine is None:
        supervisor.launch()
    else:
        supervisor.adopt()
    while not supervisor.status.state.over:
        supervisor.turn()
    return supervisor.status


def record_failure(birth: Birth, status: Status, cause: Finding, store: ports.Store, now: float) -> Status:
    """For what ended before an engine ran: no supervisor will write it."""
    failed = replace(status, state=State.FAILED, since=now, why=cause.what, cause=cause)
    store.write(birth.id, failed, (record.Noted(cause), record.StateChanged(State.FAILED, cause.what)), now)
    return failed


class _Supervisor:
    def __init__(self, birth: Birth, status: Status, doors: Doors, patience: Patience) -> None:
        self.birth, self.status, self._doors, self._patience = birth, status, doors, patience
        self._phase_of = adapter(birth.engine.kind).phase
        self._life: Life = lifecycle.begin(doors.clock.monotonic())
        self._started = doors.clock.monotonic()
        self._done: queue.SimpleQueue[lifecycle.Event | Verdict] = queue.SimpleQueue()
        self._measured = Measured((), ())
        self._pending: list[Happening] = []
        self._looked_at = self._asked_health_at = 0.0
        self._activity: Activity | None = None
        self._shm: frozenset[ShmSegment] = frozenset()
        self._engine_ended = self._log_disk_noted = False

    # --- beginnings ---------------------------------------------------------------------------------------

    def launch(self) -> None:
        # on record before the engine exists: if we die in between, nobody takes this deployment for abandoned
        self.status = replace(self.status, supervisor=self._doors.processes.me())
        self._write(record.StateChanged(State.STARTING, ""))
        engine = self._doors.processes.start_engine(self.birth.spec, self.birth.run_dir, self.birth.log_path)
        self.status = replace(self.status, engine=engine)
        self._enter(PhaseSeen(Phase.PROCESS, detail=f"pid {engine.pid}"))

    def adopt(self) -> None:
        """The engine of a supervisor that is gone. It goes on from where it is: verified stays verified."""
        state = self.status.state
        if state is State.READY:
            state = State.STARTING  # its checks ended with the supervisor that ran them: once more from /health
        self._life = replace(self._life, state=state)
        self.status = replace(self.status, supervisor=self._doors.processes.me(), adopted=True, state=state)
        self._note(
            Finding(
                code="supervisor.adopted",
                severity=Severity.WARN,
                subject=self.birth.name,
                what="the supervisor of this deployment was gone; a new one watches its engine now",
                seen=f"engine pid {self.status.engine.pid if self.status.engine else '?'}, {state}",
            )
        )

    # --- one turn -----------------------------------------------------------------------------------------

    def turn(self) -> None:
        starting = self._life.state is not State.RELEASED
        asked = self._doors.signals.wait(_STARTING_POLL_S if starting else _SERVING_POLL_S)
        if asked is not None:
            self._take(lifecycle.StopAsked("the user"))
        self._read_log()
        self._drain_background()
        if self._life.state is not State.STOPPING:
            self._ask_health()
        self._look_at_engine()
        self._take(lifecycle.Tick())
        self._flush()

    def _take(self, event: lifecycle.Event) -> None:
        before = self._life
        now = self._doors.clock.monotonic()
        self._life, effects = lifecycle.step(self._life, event, now, self._patience)
        if self._life.state is not before.state:
            self._pending.append(record.StateChanged(self._life.state, self._life.why))
        for effect in effects:
            self._perform(effect, event)
        if self._life.state is not before.state:
            self._flush()

    def _perform(self, effect: Effect, event: lifecycle.Event) -> None:
        processes = self._doors.processes
        match effect:
            case Effect.VERIFY:
                self._doors.background.start(self._verify)
            case Effect.MEASURE:
                self._doors.background.start(self._measure)
            case Effect.TERMINATE:
                processes.terminate([self._engine()])
            case Effect.KILL:
                processes.kill(self._references(self._members()))
            case Effect.DIAGNOSE:
                assert isinstance(event, lifecycle.EngineEnded)
                self._diagnose(event.exit)
            case Effect.SWEEP:
                left = self._members()
                self._shm |= processes.shared_memory(left)
                processes.terminate(self._references(left))
            case _:
                assert_never(effect)

    # --- what is seen -------------------------------------------------------------------------------------

    def _read_log(self) -> None:
        lines = 0
        for line in self._doors.log.new():
            lines += 1
            seen = self._phase_of(line)
            if seen is not None and self._life.state in (State.STARTING, State.STUCK):
                self._enter(seen)
        if lines:
            self._take(lifecycle.Moved())

    def _enter(self, seen: PhaseSeen) -> None:
        at_s = self._doors.clock.monotonic() - self._started
        known = {entered.phase for entered in self.status.phases}
        if seen.phase not in known:
            self.status = replace(self.status, phases=(*self.status.phases, PhaseTime(seen.phase, at_s)))
        self._pending.append(record.PhaseEntered(seen.phase, at_s, seen.done, seen.total, seen.detail))
        self._take(lifecycle.Moved(seen.phase))

    def _ask_health(self) -> None:
        # a server that is busy verifying may answer late; its log and its CPU time say that it lives
        now = self._doors.clock.monotonic()
        every_s = _SERVING_LOOK_S if self._life.state is State.RELEASED else _STARTING_POLL_S
        if self._doors.background.running() or now - self._asked_health_at < every_s:
            return
        self._asked_health_at = now
        self._take(lifecycle.HealthAnswered(self._doors.client.healthy()))

    def _look_at_engine(self) -> None:
        if not self._engine_ended:
            exit = self._doors.processes.exit_of(self._engine())
            if exit is not None:
                self._engine_ended = True
                self.status = replace(self.status, exit=exit)
                self._take(lifecycle.EngineEnded(exit))
        now = self._doors.clock.monotonic()
        every_s = _SERVING_LOOK_S if self._life.state is State.RELEASED else _LOOK_AROUND_S
        if self._life.state is not State.STOPPING and now - self._looked_at < every_s:
            return
        self._looked_at = now
        left = self._members()
        self._shm |= self._doors.processes.shared_memory(left)
        if self._engine_ended and not left:
            self._doors.processes.remove(self._shm, self.birth.run_dir)
            self._take(lifecycle.EngineGone())
        elif self._life.state in (State.STARTING, State.STUCK, State.READY):
            self._watch_growth(left)
            self._watch_log_disk()

    def _watch_growth(self, left: tuple[ProcessFacts, ...]) -> None:
        activity = self._doors.processes.activity(left)
        before, self._activity = self._activity, activity
        if before is None or activity == before:
            return
        self._take(lifecycle.Moved())
        if self._life.state is State.STARTING:
            self._pending.append(record.Growing(activity.rss_bytes, activity.read_bytes))

    def _watch_log_disk(self) -> None:
        free_bytes = self._doors.host.disk(self.birth.log_path).free_bytes
        if free_bytes < _LOG_DISK_LOW_BYTES and not self._log_disk_noted:
            self._log_disk_noted = True
            self._note(
                Finding(
                    code="disk.log-full",
                    severity=Severity.WARN,
                    subject=self.birth.log_path,
                    what="the disk of the engine's log is full: the engine runs on, and lines of its log are lost",
                    seen=f"{free_bytes} bytes free",
                    do="make room there; the log goes on by itself",
                )
            )

    # --- jobs beside the loop -----------------------------------------------------------------------------

    def _verify(self) -> None:
        checks = expect.checks(self.birth.model, self.birth.plan)
        verdicts = verify(self._doors.client, checks, frozenset(self.birth.skip_checks), self._done.put)
        failed = tuple(verdict.check for verdict in verdicts if verdict.outcome is Outcome.FAILED)
        self._done.put(lifecycle.VerificationEnded(failed))

    def _measure(self) -> None:
        name = self.birth.plan.served_model_name
        self._measured = measure(self._doors.client, name, lambda _: None)
        self._done.put(lifecycle.MeasurementEnded())

    def _drain_background(self) -> None:
        self._doors.background.running()  # raises what a job raised: a bug of ours is no silence
        while not self._done.empty():
            item = self._done.get()
            if isinstance(item, Verdict):
                self.status = replace(self.status, verdicts=(*self.status.verdicts, item))
                self._pending.append(record.VerdictGiven(item))
                self._take(lifecycle.Moved())
                continue
            if isinstance(item, lifecycle.MeasurementEnded):
                self.status = replace(self.status, measurements=self._measured.measurements)
                self._pending.append(record.MeasurementTaken(self._measured.measurements))
                for finding in self._measured.findings:
                    self._note(finding)
            self._take(item)

    # --- the rest -----------------------------------------------------------------------------------------

    def _diagnose(self, exit: lifecycle.Exit) -> None:
        for line in self._doors.log.new():
            self._phase_of(line)
        cause = root_cause(self._doors.log.tail(_DIAGNOSED_LINES), exit.code)
        self.status = replace(self.status, cause=cause)
        self._pending.append(record.Noted(cause))

    def _members(self) -> tuple[ProcessFacts, ...]:
        me = self._doors.processes.me().pid
        return members(self._doors.host.processes(), self._engine(), self.birth.run_dir, me)

    def _references(self, of: tuple[ProcessFacts, ...]) -> list[ProcessRef]:
        return [reference(process, self.birth.boot_id) for process in of]

    def _engine(self) -> ProcessRef:
        if self.status.engine is None:
            raise AssertionError("no engine was started")
        return self.status.engine

    def _note(self, finding: Finding) -> None:
        self.status = replace(self.status, notes=(*self.status.notes, finding))
        self._write(record.Noted(finding))

    def _write(self, *happenings: Happening) -> None:
        self._pending.extend(happenings)
        self._flush()

    def _flush(self) -> None:
        life = self._life
        if not self._pending:
            return
        if life.state is not self.status.state:
            self.status = replace(self.status, state=life.state, since=self._doors.clock.now(), why=life.why)
        self._doors.store.write(self.birth.id, self.status, tuple(self._pending), self._doors.clock.now())
        self._pending.clear()
