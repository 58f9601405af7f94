"""A deployment's states, as a pure table: (life, event, now) -> (life, effects). The supervisor performs the effects.

starting ──health──> ready ──checks passed──> released ──engine ended──> failed
   │  ▲                │                        │   ▲
 quiet moves          check failed            quiet answers
   ▼  │                ▼                        ▼   │
  stuck            stopping ──engine gone──>  stuck
                       └──> stopped, or failed when it was not the user who asked
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

from holddown.launch.phases import Phase


class State(StrEnum):
    """What a deployment is. Only `released` says that its answers were checked."""

    STARTING = "starting"
    READY = "ready"
    RELEASED = "released"
    STUCK = "stuck"
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
class Exit:
    """How an engine ended. code: its exit status, or minus the signal; None when it was not our child to wait for."""

    code: int | None

    @property
    def text(self) -> str:
        if self.code is None:
            return "ended; exit status unknown, as this supervisor had adopted it"
        if self.code < 0:
            return f"killed by signal {-self.code}"
        return f"exited with status {self.code}"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long silence may last, in seconds.

    quiet_s: no log line, no memory, disk or CPU activity while starting, or no /health while serving: `stuck`.
    give_up_s: stuck for so long while starting: ended, so that its GPUs are free again.
    grace_s: between SIGTERM and SIGKILL.
    """

    quiet_s: float
    give_up_s: float
    grace_s: float

    @staticmethod
    def for_load(load_bytes: int) -> "Patience":
        """A reader that sleeps between shards on slow network storage is not stuck: the limit grows with the bytes.

        100 MB/s is the slowest storage we plan for (a network mount); a busy two-core machine was seen silent and
        idle for 40 s during an engine's imports.
        """
        quiet_s = 90 + load_bytes / 100e6
        return Patience(quiet_s=quiet_s, give_up_s=4 * quiet_s, grace_s=30)


# --- events -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Moved:
    """The engine did something: a log line, memory growth, disk reads, CPU time."""

    phase: Phase | None = None


@dataclass(frozen=True, slots=True)
class HealthAnswered:
    ok: bool


@dataclass(frozen=True, slots=True)
class VerificationEnded:
    """failed: names of the checks that failed."""

    failed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MeasurementEnded:
    pass


@dataclass(frozen=True, slots=True)
class EngineEnded:
    exit: Exit


@dataclass(frozen=True, slots=True)
class EngineGone:
    """No process of the engine's session is left."""


@dataclass(frozen=True, slots=True)
class StopAsked:
    by: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed."""


Event = Moved | HealthAnswered | VerificationEnded | MeasurementEnded | EngineEnded | EngineGone | StopAsked | Tick


# --- effects ------------------------------------------------------------------------------------------------


class Effect(StrEnum):
    """What the supervisor does. TERMINATE: SIGTERM to the engine's server. KILL: SIGKILL to its whole session.
    SWEEP: end what is left of its session and remove its shared memory and private folder."""

    VERIFY = "verify"
    MEASURE = "measure"
    TERMINATE = "terminate"
    KILL = "kill"
    DIAGNOSE = "diagnose"
    SWEEP = "sweep"


@dataclass(frozen=True, slots=True)
class Life:
    """state and since when; why: one sentence for `failed`, `stuck` and `stopping`.

    moved_at: last sign of life. was: the state that `stuck` interrupted. asked: a person asked for the stop.
    """

    state: State
    since: float
    moved_at: float
    phase: Phase = Phase.PROCESS
    why: str = ""
    was: State = State.STARTING
    asked: bool = False
    killed: bool = False


Step = tuple[Life, tuple[Effect, ...]]


def begin(now: float) -> Life:
    """An engine that was just spawned."""
    return Life(State.STARTING, since=now, moved_at=now)


def step(life: Life, event: Event, now: float, patience: Patience) -> Step:
    """The next life and what to do about it. A life that is over changes no more."""
    if life.state.over:
        return life, ()
    match event:
        case Moved():
            return _moved(life, event, now)
        case HealthAnswered():
            return _health(life, ok=event.ok, now=now)
        case VerificationEnded():
            return _verified(life, event.failed, now)
        case MeasurementEnded():
            return (_to(life, State.RELEASED, now), ()) if life.state is State.READY else (life, ())
        case EngineEnded():
            return _ended(life, event.exit, now)
        case EngineGone():
            return _gone(life, now)
        case StopAsked():
            return _stop(life, f"{event.by} asked for it", now, asked=True)
        case Tick():
            return _tick(life, now, patience)
        case _:
            assert_never(event)


def _to(life: Life, state: State, now: float, why: str = "") -> Life:
    return replace(life, state=state, since=now, why=why)


def _moved(life: Life, event: Moved, now: float) -> Step:
    life = replace(life, moved_at=now, phase=event.phase or life.phase)
    if life.state is State.STUCK and life.was is State.STARTING:
        life = _to(life, State.STARTING, now)
    return life, ()


def _health(life: Life, *, ok: bool, now: float) -> Step:
    if not ok:
        return life, ()
    life = replace(life, moved_at=now)
    if life.state is State.STARTING or (life.state is State.STUCK and life.was is State.STARTING):
        return _to(life, State.READY, now), (Effect.VERIFY,)
    if life.state is State.STUCK:
        return _to(life, life.was, now), ()
    return life, ()


def _verified(life: Life, failed: tuple[str, ...], now: float) -> Step:
    # a check can hang long enough for `stuck`; its end still counts
    if life.state is not State.READY and not (life.state is State.STUCK and life.was is State.READY):
        return life, ()
    if failed:
        return _stop(life, f"verification failed: {', '.join(failed)}", now)
    return _to(life, State.READY, now), (Effect.MEASURE,)


def _ended(life: Life, exit: Exit, now: float) -> Step:
    if life.state is State.STOPPING:
        # its server is gone; its workers may not be
        return life, (Effect.SWEEP,)
    before = "before it served" if life.state is State.STARTING else f"while {life.state}"
    stopping = _to(life, State.STOPPING, now, f"the engine {exit.text} {before}")
    return stopping, (Effect.DIAGNOSE, Effect.SWEEP)


def _gone(life: Life, now: float) -> Step:
    if life.state is not State.STOPPING:
        return life, ()
    return _to(life, State.STOPPED if life.asked else State.FAILED, now, life.why), ()


def _stop(life: Life, why: str, now: float, *, asked: bool = False) -> Step:
    if life.state is State.STOPPING:
        return life, ()
    return replace(_to(life, State.STOPPING, now, why), asked=asked), (Effect.TERMINATE,)


def _tick(life: Life, now: float, patience: Patience) -> Step:
    quiet_s = now - life.moved_at
    match life.state:
        case State.STOPPING:
            if now - life.since > patience.grace_s and not life.killed:
                return replace(life, killed=True), (Effect.KILL,)
        case State.STUCK:
            if life.was is State.STARTING and now - life.since > patience.give_up_s:
                return _stop(life, f"no sign of life for {quiet_s:.0f} s while it was starting", now)
        case State.STARTING | State.READY | State.RELEASED:
            if quiet_s > patience.quiet_s:
                stuck = _to(life, State.STUCK, now, f"no sign of life for {quiet_s:.0f} s")
                return replace(stuck, was=life.state), ()
        case State.STOPPED | State.FAILED:
            pass
        case _:
            assert_never(life.state)
    return life, ()
