"""One deployment makes way for another: nothing is stopped before all that can be asked of the other is asked, and what
made way comes back where the other fails."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from holddown import ports
from holddown.app.again import Again
from holddown.app.attend import SupervisorLog
from holddown.app.down import down
from holddown.app.up import Doors, lives
from holddown.base.errors import HolddownError, LaunchError
from holddown.facts.machine import Gpu
from holddown.launch.lifecycle import State
from holddown.plan.preflight import BUSY_BYTES, held_bytes
from holddown.remember.record import Birth, Deployment, Status
from holddown.remember.switching import Owed, Switching, owed
from holddown.tables.load import engine_table

_DRAIN_POLL_S = 0.5
_MEMORY_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class Starts:
    """after: starts the one that comes and watches it; gives it as it ended up, released or not; hears its id as soon
    as it has one. Raises: HolddownError where it cannot be started. back: the same of the one that made way."""

    after: Callable[[Callable[[str], None]], Deployment]
    back: Callable[[], Deployment]


@dataclass(frozen=True, slots=True)
class Switched:
    """deployment: what serves now, or was to. failed: the one that was to come, where it did not. obstacle: why it
    could not even be started. outage_s: from the first word to stop until something was released again."""

    deployment: Deployment
    outage_s: float
    failed: Deployment | None = None
    obstacle: HolddownError | None = None

    @property
    def done(self) -> bool:
        return self.failed is None and self.obstacle is None


def drain(client: ports.Client, kind: str, clock: ports.Clock, limit_s: float, say: ports.Progress) -> float:
    """Waits until nothing is computed. Gives the seconds that it took. The engine goes on taking requests: what comes
    in the last instant is lost, as with any stop."""
    began, metric = clock.monotonic(), engine_table(kind).running_metric
    told = False
    while (passed := clock.monotonic() - began) < limit_s:
        (running,) = client.gauges(metric) if metric else (None,)
        if not running:
            return passed
        if not told:
            told = True
            say(f"{running:.0f} requests are running: they have up to {limit_s:.0f} s to end")
        clock.sleep(_DRAIN_POLL_S)
    return clock.monotonic() - began


def switch(before: Deployment, name: str, starts: Starts, doors: Doors, say: ports.Progress) -> Switched:
    """name: of the one that comes. Raises: LaunchError where the one that serves cannot be stopped."""
    clock = doors.clock
    going = Switching(before.birth.id, name, doors.processes.me(), clock.now())
    doors.store.put_switching(going)
    began = clock.monotonic()
    down(before, doors)
    failed, obstacle = None, None
    try:
        _await_memory(before, doors, say)
        after = starts.after(lambda id: doors.store.put_switching(replace(going, after=id)))
        if after.status.state is State.RELEASED:
            doors.store.end_switching(before.birth.id)
            return Switched(after, clock.monotonic() - began)
        failed = after
    except HolddownError as error:
        obstacle = error
    say(f"{before.birth.name} is started again")
    back = starts.back()
    doors.store.end_switching(before.birth.id)
    return Switched(back, clock.monotonic() - began, failed, obstacle)


def _await_memory(before: Deployment, doors: Doors, say: ports.Progress) -> None:
    """A driver gives memory back after the process that held it is gone. What is not back is said, and not waited for
    any longer: the plan of the one that comes sees it."""
    deadline = doors.clock.monotonic() + _MEMORY_PATIENCE_S
    while busy := [gpu for gpu in _gpus(before, doors) if held_bytes(gpu) > BUSY_BYTES]:
        if doors.clock.monotonic() > deadline:
            names = ", ".join(str(gpu.index) for gpu in busy)
            say(f"GPU {names}: memory is still held after {before.birth.name} ended")
            return
        doors.clock.sleep(_DRAIN_POLL_S)


def _gpus(before: Deployment, doors: Doors) -> list[Gpu]:
    wanted = set(before.birth.plan.gpus)
    return [gpu for gpu in doors.host.facts(()).gpus if gpu.index in wanted] if wanted else []


def put_back(before: Deployment, again: Callable[[Birth], Again], log_of: SupervisorLog, doors: Doors) -> str:
    """Starts it again from its record, with the checks before release that it had. Gives the id of this start.

    Raises: LaunchError where the machine forbids it now, UsageError where checkpoint or engine is another, FactError.
    """
    made = again(before.birth)
    birth = made.birth
    if made.blocked:
        first = made.blocked[0]
        what = f"{birth.name} was not started again: {first.what}"
        raise LaunchError(what, code=first.code, seen=first.seen, do=first.do)
    there = doors.store.create(birth, Status(State.STARTING, since=birth.created_at))
    if there is not None:
        what = f"{birth.name} was not started again: {there.birth.name} has its name, its port or a GPU of it"
        raise LaunchError(what, code="switch.in-the-way", seen=there.label, do=f"holddown status {there.birth.name}")
    doors.processes.start_supervisor(birth.id, log_of(birth.id))
    return birth.id


# --- after a command that was killed ---------------------------------------------------------------------------------


def cut_short(doors: Doors) -> tuple[Deployment, ...]:
    """Those that made way for one that did not come, of commands that are gone: they are to be started again. What is
    settled is taken off the record."""
    found = []
    for going in doors.store.switchings():
        if lives(going.owner, doors.host):
            continue
        before, after = doors.store.get(going.before), _after(going, doors)
        # a restart of the machine ended all of it, and nothing comes back of that by itself
        rebooted = going.owner.boot_id != doors.processes.me().boot_id
        step = Owed.DONE if rebooted or before is None else owed(before, after)
        if step is Owed.DONE:
            doors.store.end_switching(going.before)
        elif step is Owed.BACK and before is not None:
            found.append(before)
    return tuple(found)


def _after(going: Switching, doors: Doors) -> Deployment | None:
    """A command may be killed between the start and its word of it: then it is the newest of that name."""
    if going.after:
        return doors.store.get(going.after)
    newest = doors.store.latest(going.name)
    return newest if newest is not None and newest.birth.created_at >= going.at else None
