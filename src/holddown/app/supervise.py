"""The supervisor: one loop per deployment, and the only writer of its state. Decisions are `lifecycle.step`'s."""

import queue
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import assert_never

from holddown import ports
from holddown.app.announce import Announcer
from holddown.app.chronicle import Chronicle
from holddown.app.measure import measure
from holddown.app.verify import verify
from holddown.app.watch import Watch
from holddown.base.errors import LaunchError, MachineError, StoreError
from holddown.base.finding import Finding, Severity
from holddown.explain.supervision import adopted, broken, killed_for_memory, log_disk_full, never_started, port_taken
from holddown.facts.machine import ProcessFacts
from holddown.launch import lifecycle
from holddown.launch.engines import adapter
from holddown.launch.lifecycle import Effect, Left, Life, Patience, ProcessRef, State
from holddown.launch.ownership import Activity, leader, members, reference
from holddown.launch.phases import Phase, PhaseSeen
from holddown.measure.metrics import Measured
from holddown.remember import record
from holddown.remember.calibrate import comparisons
from holddown.remember.record import Birth, PhaseTime, Status
from holddown.verify import expect
from holddown.verify.diagnose import as_finding, read_log
from holddown.verify.verdict import Outcome, Verdict

_UNSEEN_S = 1.0
_STARTING_POLL_S = 0.2
# what a log tells of a process that was killed from outside, by whomever: at most that another misses it
_MAYBE_FOR_MEMORY = frozenset({
    "engine.killed", "engine.worker-killed", "engine.worker-died", "engine.child-failed", "engine.scheduler-killed",
    "engine.exception", "engine.no-reason-found",
})  # fmt: skip
_SERVING_POLL_S = 2.0
_LOOK_AROUND_S = 2.0  # a look at every process of the machine costs about 10 ms
_SERVING_LOOK_S = 10.0  # also how often /health is asked: an engine logs each request
_DIAGNOSED_LINES = 2000
_LOG_DISK_LOW_BYTES = 8 * 1024**2
# Between an engine's last word and its place in the log stand a pipe and the program that empties it.
_LOG_SETTLED_S = 0.3
_LOG_SETTLES_WITHIN_S = 3.0


@dataclass(frozen=True, slots=True)
class Doors:
    """What the supervisor reaches the world through. notify: the service manager that started it, if one did."""

    store: ports.Store
    host: ports.Host
    processes: ports.Processes
    leftovers: ports.Leftovers
    client: ports.Client
    log: ports.Log
    signals: ports.Signals
    background: ports.Background
    clock: ports.Clock
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
        supervisor.not_started(Finding(error.code, Severity.BLOCK, birth.name, error.what, error.seen, error.do))
    except Exception as bug:
        supervisor.report(bug)
        raise
    supervisor.chronicle.finish()
    return supervisor.chronicle.status


class _Supervisor:
    def __init__(self, birth: Birth, status: Status, doors: Doors, patience: Patience) -> None:
        self.birth, self._doors, self._patience = birth, doors, patience
        self.chronicle = Chronicle(birth, status, doors.store, doors.clock)
        self._phase_of = adapter(birth.engine.kind).phase
        self._life: Life = lifecycle.begin(doors.clock.monotonic())
        self._started = doors.clock.monotonic()
        self._done: queue.SimpleQueue[lifecycle.Event | Verdict | record.Doing] = queue.SimpleQueue()
        self._measured = Measured((), ())
        self._looked_at = self._asked_health_at = float("-inf")
        self._activity: Activity | None = None
        self._unseen_since: float | None = None
        self._engine_ended = self._log_disk_noted = self._stranger_noted = False
        self._oom_kills = doors.host.oom_kills()
        self._watch = Watch(doors.client, birth.engine.kind, birth.plan.served_model_name)
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
        engine = self._doors.processes.start_engine(self.birth.spec, self.birth.run_dir, self.birth.log_path)
        self.chronicle.change(replace(self._status, engine=engine))
        self.chronicle.try_to_write()
        self._enter(PhaseSeen(Phase.PROCESS, detail=f"pid {engine.pid}"))

    def adopt(self) -> None:
        """The engine of a supervisor that is gone. It goes on from where it is: verified stays verified."""
        before = self._status
        engine = before.engine
        if engine is None and (found := leader(self._doors.host.processes(), self.birth.run_dir)) is not None:
            engine = reference(found, self.birth.boot_id)
        self.chronicle.change(
            replace(before, supervisor=self._doors.processes.me(), engine=engine, adopted=True)  # written below, whole
        )
        if engine is None:
            self.not_started(never_started(self.birth.name, self.birth.up_again))
            return
        left = Left(before.state, before.why, before.stop_asked, self._was_released())
        self._life, effects = lifecycle.resume(left, self._doors.clock.monotonic())
        if self._life.state is State.STARTING:
            self.chronicle.change(replace(self._status, verdicts=()))  # they come again
        if self._life.state is not before.state:
            self._change_state()
        for effect in effects:
            self._perform(effect, None)
        self._started -= max(0.0, self._doors.clock.now() - self.birth.created_at)
        for _ in self._doors.log.new():
            pass  # what its log says already was seen then, or has no time that we know
        self._look_at_engine()  # before anything is written: the record must not say `released` of a dead engine
        self.chronicle.note(adopted(self.birth.name, engine, before.state, alive=not self._engine_ended))
        self.chronicle.try_to_write()

    def _was_released(self) -> bool:
        if self._status.state is not State.STUCK:
            return self._status.state is State.RELEASED
        happenings = (entry.happening for entry in self._doors.store.entries(self.birth.id))
        return any(isinstance(each, record.StateChanged) and each.state is State.RELEASED for each in happenings)

    # --- one turn -----------------------------------------------------------------------------------------

    def turn(self) -> None:
        serving = self._life.state is State.RELEASED
        asked = self._doors.signals.wait(_SERVING_POLL_S if serving else _STARTING_POLL_S)
        if asked is not None:
            self._take(lifecycle.StopAsked("the user"))
        self._read_log()
        self._look_at_engine()  # before the jobs are heard: a dead engine is not released
        self._drain_background()
        if self._life.state not in (State.STOPPING, State.STOPPED, State.FAILED):
            self._ask_health()
        self._take(lifecycle.Tick())
        self.chronicle.try_to_write()
        self._announce()

    def _announce(self) -> None:
        if self._announcer is not None:
            self._announcer.see(self._status, self._doors.clock.monotonic())

    def _take(self, event: lifecycle.Event) -> None:
        before = self._life
        now = self._doors.clock.monotonic()
        self._life, effects = lifecycle.step(self._life, event, now, self._patience)
        changed = self._life.state is not before.state
        if changed:
            self._change_state()
            if self._life.within(State.READY):
                self.chronicle.hear(self._doors.processes)
        for effect in effects:
            self._perform(effect, event)
        if changed:
            self.chronicle.try_to_write()

    def _change_state(self) -> None:
        life = self._life
        self.chronicle.add(record.StateChanged(life.state, life.why))
        self.chronicle.change(
            replace(self._status, state=life.state, since=self._doors.clock.now(), why=life.why, stop_asked=life.asked)
        )

    def _perform(self, effect: Effect, event: lifecycle.Event | None) -> None:
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
                self._diagnose(event.exit.code if isinstance(event, lifecycle.EngineEnded) else None)
            case Effect.SWEEP:
                left = self._members()
                self._know_segments(left)
                processes.terminate(self._references(left))
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
            self._take(lifecycle.Moved())
        return bool(lines)

    def _is_of_the_start(self, seen: PhaseSeen) -> bool:
        """What it wrote before it answered /health may come through its pipe after that."""
        late = self._life.within(State.READY) and seen.phase not in {each.phase for each in self._status.phases}
        return late or self._life.within(State.STARTING)

    def _enter(self, seen: PhaseSeen) -> None:
        at_s = self._doors.clock.monotonic() - self._started
        known = {entered.phase for entered in self._status.phases}
        if seen.phase not in known:
            self.chronicle.change(replace(self._status, phases=(*self._status.phases, PhaseTime(seen.phase, at_s))))
        self.chronicle.add(record.PhaseEntered(seen.phase, at_s, seen.done, seen.total, seen.detail))
        self._take(lifecycle.Moved(seen.phase))

    def _ask_health(self) -> None:
        # a server that is busy verifying may answer late; its log and its CPU time say that it lives
        now = self._doors.clock.monotonic()
        every_s = _SERVING_LOOK_S if self._life.state is State.RELEASED else _STARTING_POLL_S
        if self._doors.background.running() or now - self._asked_health_at < every_s:
            return
        self._asked_health_at = now
        ok, silence = self._doors.client.healthy(), ""
        if ok and self._life.within(State.STARTING):
            ok = self._is_own_answer()
        elif ok and self._life.within(State.RELEASED):
            silence = self._watch.look(now)
        elif not ok:
            self._unseen_since = None
        self._take(lifecycle.HealthAnswered(ok and not silence, silence))
        if ok and self._life.state is State.RELEASED and self._watch.due(now):
            self._take(lifecycle.HealthAnswered(False, "idle, and one token is not answered"))
            self._doors.background.start(self._probe)

    def _is_own_answer(self) -> bool:
        """The port was free when it was chosen, and an engine binds it many seconds later: another may have been first.

        Its good health would be taken for ours, and its answers for our model's.
        """
        port, held = self.birth.spec.port, self._doors.leftovers.held
        own = {each.pid for each in self._members()}
        if any(port in held(pid).ports for pid in own):
            return True
        others = (each for each in self._doors.host.processes() if each.pid not in own)
        stranger = next((each for each in others if port in held(each.pid).ports), None)
        if stranger is not None and not self._stranger_noted:
            self._stranger_noted = True
            self.chronicle.note(port_taken(self.birth.name, port, stranger))
        if stranger is not None:
            self._unseen_since = None
            return False
        # nobody is seen to listen: /proc hides it, or the one that answered has just ended; that one answers no more
        now = self._doors.clock.monotonic()
        self._unseen_since = self._unseen_since if self._unseen_since is not None else now
        return now - self._unseen_since >= _UNSEEN_S

    def _look_at_engine(self) -> None:
        if not self._engine_ended:
            exit = self._doors.processes.exit_of(self._engine())
            if exit is not None:
                self._engine_ended = True
                self.chronicle.change(replace(self._status, exit=self._status.exit or exit))
                self._take(lifecycle.EngineEnded(exit))
        now = self._doors.clock.monotonic()
        every_s = _SERVING_LOOK_S if self._life.state is State.RELEASED else _LOOK_AROUND_S
        if self._life.state is not State.STOPPING and now - self._looked_at < every_s:
            return
        self._looked_at = now
        left = self._members()
        self._know_segments(left)
        if self._engine_ended and not left:
            self._clean_up()
            self._take(lifecycle.EngineGone())
            return
        self._watch_log_disk()
        if not self._life.within(State.RELEASED):
            self._watch_growth(left)

    def _watch_growth(self, left: tuple[ProcessFacts, ...]) -> None:
        activity = self._doors.processes.activity(left)
        before, self._activity = self._activity, activity
        if before is None or activity == before:
            return
        self._take(lifecycle.Moved())
        if self._life.state is State.STARTING:
            self.chronicle.add(record.Growing(activity.rss_bytes, activity.read_bytes))

    def _watch_log_disk(self) -> None:
        if self._log_disk_noted:
            return
        with suppress(MachineError):  # what it says would be about the log's folder, not about the engine
            free_bytes = self._doors.host.disk(self.birth.log_path).free_bytes
            if free_bytes >= _LOG_DISK_LOW_BYTES:
                return
            self._log_disk_noted = True
            self.chronicle.note(log_disk_full(self.birth.log_path, free_bytes))

    # --- jobs beside the loop -----------------------------------------------------------------------------

    def _verify(self) -> None:
        checks = expect.checks(self.birth.model, self.birth.plan)
        verdicts = verify(self._doors.client, checks, frozenset(self.birth.skip_checks), self._done.put)
        failed = tuple(verdict.check for verdict in verdicts if verdict.outcome is Outcome.FAILED)
        self._done.put(lifecycle.VerificationEnded(failed, alive=not failed or self._doors.client.healthy()))

    def _probe(self) -> None:
        silence = self._watch.probe(self._doors.clock.monotonic())
        self._done.put(lifecycle.HealthAnswered(not silence, silence))

    def _measure(self) -> None:
        name = self.birth.plan.served_model_name
        self._measured = measure(self._doors.client, name, lambda text: self._done.put(record.Doing(text)))
        self._done.put(lifecycle.MeasurementEnded(alive=self._doors.client.healthy()))

    def _drain_background(self) -> None:
        self._doors.background.running()  # raises what a job raised: a bug of ours is no silence
        while not self._done.empty():
            item = self._done.get()
            if isinstance(item, lifecycle.HealthAnswered):
                self._take(item)
                continue
            if not self._life.within(State.READY):
                continue  # it was stopped or it ended meanwhile: what was asked of it then says nothing about it
            if isinstance(item, record.Doing):
                self.chronicle.add(item)
                continue
            if isinstance(item, Verdict):
                item = replace(item, findings=tuple(self.chronicle.addressed(each) for each in item.findings))
                self.chronicle.change(replace(self._status, verdicts=(*self._status.verdicts, item)))
                self.chronicle.add(record.VerdictGiven(item))
                self._take(lifecycle.Moved())
                continue
            if isinstance(item, lifecycle.MeasurementEnded):
                taken = self._measured.measurements
                compared = comparisons(self.birth.plan, self.birth.model, taken)
                self.chronicle.change(replace(self._status, measurements=taken, comparisons=compared))
                self.chronicle.add(record.MeasurementTaken(self._measured.measurements))
                for finding in self._measured.findings:
                    self.chronicle.note(self.chronicle.addressed(finding))
            self._take(item)

    # --- endings ------------------------------------------------------------------------------------------

    def not_started(self, cause: Finding) -> None:
        """No engine came of it."""
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

    def _diagnose(self, exit_code: int | None) -> None:
        self._settle_log()
        report = read_log(self._doors.log.tail(_DIAGNOSED_LINES), self.birth.engine.kind).report(exit_code)
        cause = as_finding(report, exit_code)
        kills = self._doors.host.oom_kills() - self._oom_kills
        if kills > 0 and cause.code in _MAYBE_FOR_MEMORY:
            cause = killed_for_memory(cause, kills, self._doors.host.facts().memory)
        cause = self.chronicle.addressed(cause)
        edits = report.diagnosis.edits if report.diagnosis else ()
        self.chronicle.change(replace(self._status, cause=cause, edits=edits))
        self.chronicle.add(record.Noted(cause))

    def _settle_log(self) -> None:
        clock = self._doors.clock
        deadline = clock.monotonic() + _LOG_SETTLES_WITHIN_S
        quiet_since = clock.monotonic()
        while clock.monotonic() < min(deadline, quiet_since + _LOG_SETTLED_S):
            clock.sleep(0.05)
            if any(True for _ in self._doors.log.new()):
                quiet_since = clock.monotonic()

    def _clean_up(self) -> None:
        """Its private folder and the segments that it was seen to map. One that it made after our last look is for
        `clean`: by name alone it could be another program's."""
        self._doors.processes.remove(frozenset(self._status.segments), self.birth.run_dir)

    # --- the rest -----------------------------------------------------------------------------------------

    def _know_segments(self, left: tuple[ProcessFacts, ...]) -> None:
        if not left:
            return
        known = self._status.segments
        new = self._doors.processes.shared_memory(left) - frozenset(known)
        if new:
            self.chronicle.change(replace(self._status, segments=(*known, *sorted(new, key=lambda each: each.path))))

    def _members(self) -> tuple[ProcessFacts, ...]:
        me = self._doors.processes.me().pid
        return members(self._doors.host.processes(), self._engine(), self.birth.run_dir, me)

    def _references(self, of: tuple[ProcessFacts, ...]) -> list[ProcessRef]:
        return [reference(process, self.birth.boot_id) for process in of]

    def _engine(self) -> ProcessRef:
        if self._status.engine is None:
            raise AssertionError("no engine was started")
        return self._status.engine
