"""A deployment's states, as a pure table: (life, event, now) -> (life, effects). The supervisor performs the effects.

starting ──health──> ready ──checks passed──> released
 ▲ │  ▲                │                        │   ▲
 │quiet moves         check failed            quiet answers
 │ ▼  │                ▼                        ▼   │
 │stuck ──given up──> stopping <──lost──────── stuck
 │                     │  ▲── from each: the engine ended, or a stop was asked for
 │                   engine gone
 │                     ├──> stopped, where the user asked
 │                     ├──> failed, where nobody did
 └──pause over── waiting-to-restart, where it had been released and its policy says so; from there, too, stopped
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

from holddown.launch.events import (
    EngineEnded,
    EngineGone,
    EngineStarted,
    Event,
    Exit,
    HealthAnswered,
    Hopeless,
    MeasurementEnded,
    Moved,
    StartHindered,
    StopAsked,
    Tick,
    VerificationEnded,
)
from holddown.launch.phases import Phase
from holddown.launch.restart import FAILURES, SERVED_S, Restart, pause_s


class State(StrEnum):
    """What a deployment is. Only `released` says that its answers were checked."""

    STARTING = "starting"
    READY = "ready"
    RELEASED = "released"
    STUCK = "stuck"
    WAITING = "waiting-to-restart"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def over(self) -> bool:
        return self in (State.STOPPED, State.FAILED)


@dataclass(frozen=True, slots=True)
class ProcessRef:
    """A process for good: a pid may be given to another program, the three together never are.

    started_at: clock ticks since boot (field 22 of /proc/PID/stat). boot_id: the kernel's.
    """

    pid: int
    started_at: int
    boot_id: str


@dataclass(frozen=True, slots=True)
class Patience:
    """How long silence may last, in seconds.

    quiet_s: no log line, no memory, disk or CPU activity before the release: `stuck`.
    give_up_s: stuck for so long before the release: ended, so that its GPUs are free again.
    grace_s: between SIGTERM and SIGKILL, and between one SIGKILL and the next.
    unanswered_s: no /health after the release: `stuck`. What it logs meanwhile is no answer.
    lost_s: stuck for so long after the release: ended, where its policy is to be started again.
    pause_s: before the first of its restarts; each further one doubles it.
    """

    quiet_s: float
    give_up_s: float
    grace_s: float
    unanswered_s: float = 60
    lost_s: float = 300
    pause_s: float = 5

    @staticmethod
    def for_load(load_bytes: int) -> "Patience":
        """A reader that sleeps between shards on slow network storage is not stuck: the limit grows with the bytes.

        100 MB/s is the slowest storage we plan for (a network mount); a busy two-core machine was seen silent and
        idle for 40 s during an engine's imports.
        """
        quiet_s = 90 + load_bytes / 100e6
        return Patience(quiet_s=quiet_s, give_up_s=4 * quiet_s, grace_s=30)


# --- effects ------------------------------------------------------------------------------------------------


class Effect(StrEnum):
    """What the supervisor does. TERMINATE: SIGTERM to the engine's server. KILL: SIGKILL to all of its processes.
    DIAGNOSE: find out from its log why it broke. SWEEP: SIGTERM to whatever its server left behind. STACKS: keep what
    its processes are at. START: look whether it can be started again, and do."""

    VERIFY = "verify"
    MEASURE = "measure"
    TERMINATE = "terminate"
    KILL = "kill"
    DIAGNOSE = "diagnose"
    SWEEP = "sweep"
    STACKS = "stacks"
    START = "start"


@dataclass(frozen=True, slots=True)
class Life:
    """state and since when; why: one sentence for `failed`, `stuck`, `stopping` and `waiting-to-restart`.

    moved_at: last sign of life. was: the state that `stuck` interrupted. asked: a person asked for the stop.
    killed_at: the last SIGKILL. silence: what has been missing since it moved last. restart: the policy. served: this
    deployment has been released, by this engine or one before it. failures: in a row. pauses: since it failed last.
    """

    state: State
    since: float
    moved_at: float
    phase: Phase = Phase.PROCESS
    why: str = ""
    was: State = State.STARTING
    asked: bool = False
    killed_at: float | None = None
    silence: str = ""
    restart: Restart = Restart.NEVER
    served: bool = False
    failures: int = 0
    pauses: int = 0

    @property
    def comes_back(self) -> bool:
        """Its failure is followed by another start."""
        return self.served and self.restart is Restart.ON_FAILURE

    def within(self, state: State) -> bool:
        """In that state, be it that silence hides it."""
        return self.state is state or (self.state is State.STUCK and self.was is state)


Step = tuple[Life, tuple[Effect, ...]]


def begin(now: float, restart: Restart = Restart.NEVER) -> Life:
    """An engine that was just spawned."""
    return Life(State.STARTING, since=now, moved_at=now, restart=restart)


@dataclass(frozen=True, slots=True)
class Left:
    """What a supervisor that is gone left on record. released: this engine had been, whatever it was last. served,
    failures: as of a life."""

    state: State
    why: str
    asked: bool
    released: bool
    restart: Restart = Restart.NEVER
    served: bool = False
    failures: int = 0


def resume(left: Left, now: float) -> Step:
    """The life of an engine for the supervisor that takes it over.

    Released stays released. Checks that had begun ended with the supervisor that ran them, so they come again after
    the next /health. A stop goes on, and the engine is told again: the last supervisor may not have come to it. A pause
    begins anew.
    """
    served = left.served or left.released
    life = replace(begin(now, left.restart), served=served, failures=left.failures, pauses=max(left.failures - 1, 0))
    if left.state.over or left.state is State.WAITING:
        return replace(life, state=left.state, why=left.why), ()
    if left.state is State.STOPPING:
        return replace(life, state=State.STOPPING, why=left.why, asked=left.asked), (Effect.TERMINATE,)
    return (replace(life, state=State.RELEASED) if left.released else life), ()


def step(life: Life, event: Event, now: float, patience: Patience) -> Step:
    """The next life and what to do about it. A life that is over changes no more."""
    if life.state.over:
        return life, ()
    match event:
        case Moved():
            return _moved(life, event, now)
        case HealthAnswered():
            return _health(life, event, now)
        case VerificationEnded():
            return _verified(life, event, now)
        case MeasurementEnded():
            return _measured(life, event, now)
        case EngineEnded():
            return _ended(life, event.exit, now)
        case EngineGone():
            return _gone(life, event, now, patience)
        case EngineStarted() | StartHindered():
            return _between_starts(life, event, now, patience)
        case StopAsked():
            return _stop(life, f"{event.by} asked for it", now, asked=True)
        case Hopeless():
            return _ended_for(life, event.why, now) if life.within(State.STARTING) else (life, ())
        case Tick():
            return _tick(life, now, patience)
        case _:
            assert_never(event)


def _to(life: Life, state: State, now: float, why: str = "") -> Life:
    return replace(life, state=state, since=now, why=why)


def _moved(life: Life, event: Moved, now: float) -> Step:
    if life.within(State.RELEASED):
        return life, ()  # an engine that hangs may well go on logging: only an answer counts once it serves
    life = replace(life, moved_at=now, phase=event.phase or life.phase)
    if life.state is State.STUCK:
        life = _to(life, life.was, now)
    return life, ()


def _health(life: Life, event: HealthAnswered, now: float) -> Step:
    if not event.ok:
        return replace(life, silence=event.silence or life.silence), ()
    life = replace(life, moved_at=now, silence="")
    if life.within(State.STARTING):
        return _to(life, State.READY, now), (Effect.VERIFY,)
    if life.state is State.STUCK:
        return _to(life, life.was, now), ()
    return life, ()


def _verified(life: Life, ended: VerificationEnded, now: float) -> Step:
    # a check can hang long enough for `stuck`; its end still counts
    if not life.within(State.READY):
        return life, ()
    if not ended.alive:
        return _broke(life, "while its answers were checked", now)
    if ended.failed:
        return _stop(life, f"verification failed: {', '.join(ended.failed)}", now)
    return _to(replace(life, moved_at=now), State.READY, now), (Effect.MEASURE,)


def _measured(life: Life, ended: MeasurementEnded, now: float) -> Step:
    if not life.within(State.READY):
        return life, ()
    if not ended.alive:
        return _broke(life, "while its speed was measured", now)
    return _to(replace(life, moved_at=now, served=True), State.RELEASED, now), ()


def _broke(life: Life, when: str, now: float) -> Step:
    """Its server still runs and answers /health no more: what broke stands in its log already."""
    return _to(life, State.STOPPING, now, f"the engine broke {when}"), (Effect.DIAGNOSE, Effect.TERMINATE)


def _ended(life: Life, exit: Exit, now: float) -> Step:
    if life.state is State.WAITING:
        return life, ()
    if life.state is State.STOPPING:
        # its server is gone; its workers may not be
        return life, (Effect.SWEEP,)
    before = "before it served" if life.within(State.STARTING) else f"while {life.state}"
    stopping = _to(life, State.STOPPING, now, f"the engine {exit.text} {before}")
    return stopping, (Effect.DIAGNOSE, Effect.SWEEP)


def _gone(life: Life, event: EngineGone, now: float, patience: Patience) -> Step:
    if life.state is not State.STOPPING:
        return life, ()
    if life.asked:
        return _to(life, State.STOPPED, now, life.why), ()
    if not life.comes_back:
        return _to(life, State.FAILED, now, life.why), ()
    life = replace(life, failures=life.failures + 1)
    if event.hopeless:
        return _to(life, State.FAILED, now, f"{life.why}; another start would fail as this one did"), ()
    if life.failures >= FAILURES:
        less = f"less than {SERVED_S / 60:.0f} minutes of service in between"
        return _to(life, State.FAILED, now, f"{life.why}; {life.failures} failures with {less}: it stays down"), ()
    return _wait(replace(life, pauses=life.failures - 1), life.why, now, patience), ()


def _wait(life: Life, why: str, now: float, patience: Patience) -> Life:
    told = f"{why}; it is started again in {pause_s(patience.pause_s, life.pauses):.0f} s"
    return _to(life, State.WAITING, now, told)


def _between_starts(life: Life, event: EngineStarted | StartHindered, now: float, patience: Patience) -> Step:
    """A hindrance is no failure of the engine's, and may last: it waits for longer and longer, and is not given up."""
    if life.state is not State.WAITING:
        return life, ()
    if isinstance(event, StartHindered):
        return _wait(replace(life, pauses=life.pauses + 1), event.why, now, patience), ()
    return replace(begin(now, life.restart), served=life.served, failures=life.failures), ()


def _stop(life: Life, why: str, now: float, *, asked: bool = False) -> Step:
    if life.state is State.STOPPING:
        # whoever asks while what failed is cleaned up does not want it back
        return (replace(life, asked=True) if asked and life.comes_back else life), ()
    if life.state is State.WAITING:  # nothing of it runs
        return replace(_to(life, State.STOPPED, now, why), asked=asked), ()
    return replace(_to(life, State.STOPPING, now, why), asked=asked), (Effect.TERMINATE,)


def _tick(life: Life, now: float, patience: Patience) -> Step:
    quiet_s = now - life.moved_at
    match life.state:
        case State.STOPPING:
            # again and again: one that was forked between our look and our signal has missed it
            if now - (life.since if life.killed_at is None else life.killed_at) > patience.grace_s:
                return replace(life, killed_at=now), (Effect.KILL,)
        case State.STUCK:
            return _stuck(life, now, patience)
        case State.WAITING:
            if now - life.since >= pause_s(patience.pause_s, life.pauses):
                return life, (Effect.START,)
        case State.STARTING | State.READY | State.RELEASED:
            if life.state is State.RELEASED and now - life.since >= SERVED_S:
                life = replace(life, failures=0)
            if quiet_s > (patience.unanswered_s if life.state is State.RELEASED else patience.quiet_s):
                why = f"{life.silence or 'no sign of life'} for {quiet_s:.0f} s"
                stuck = _to(life, State.STUCK, now, why)
                return replace(stuck, was=life.state), (Effect.STACKS,)
        case State.STOPPED | State.FAILED:
            pass
        case _:
            assert_never(life.state)
    return life, ()


def _stuck(life: Life, now: float, patience: Patience) -> Step:
    released = life.was is State.RELEASED
    if released and not life.comes_back:
        return life, ()  # it is for a person to say that it is worth nothing any more
    if now - life.since <= (patience.lost_s if released else patience.give_up_s):
        return life, ()
    silence = life.silence or "no sign of life"
    return _ended_for(life, f"{silence} for {now - life.moved_at:.0f} s while it was {life.was}", now)


def _ended_for(life: Life, why: str, now: float) -> Step:
    return _to(life, State.STOPPING, now, why), (Effect.STACKS, Effect.DIAGNOSE, Effect.TERMINATE)
