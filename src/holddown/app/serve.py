"""What a service runs: a fresh start of a deployment on record, or the one that is up already, supervised until it is
over."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from holddown import ports
from holddown.app import up
from holddown.app.again import Again, same_command
from holddown.app.announce import Announcer
from holddown.app.attend import mark_rebooted
from holddown.app.down import down
from holddown.app.supervise import Doors as SupervisorDoors
from holddown.app.supervise import supervise
from holddown.app.up import SUPERVISOR_START_S, lives
from holddown.base.errors import LaunchError, UsageError
from holddown.launch.export.systemd import STAYS_DOWN
from holddown.launch.lifecycle import Patience, State
from holddown.launch.restart import Restart
from holddown.remember.record import Birth, Deployment, Status

_STAND_BY_POLL_S = 1.0


@dataclass(frozen=True, slots=True)
class Doors:
    """deployments: the record and the machine. again: a fresh birth after that one, checked. supervisor: the sole right
    to supervise it, with what that takes; None where another program has it. signals: takes them over when called."""

    deployments: up.Doors
    again: Callable[[Birth], Again]
    supervisor: Callable[[Birth], AbstractContextManager[SupervisorDoors | None]]
    signals: Callable[[], ports.Signals]
    notify: ports.Notify
    say: ports.Progress
    boot_id: str


def serve(pattern: Birth, doors: Doors) -> Deployment:
    """Until the deployment is over. One that is up by the same command is taken over where nobody supervises it, and
    stood by where somebody does: there is never a second engine beside it.

    Raises: UsageError where the record cannot be followed any more, LaunchError, FactError.
    """
    mark_rebooted(doors.deployments, doors.boot_id)
    while True:
        there = doors.deployments.store.latest(pattern.name)
        if there is None or there.status.state.over:
            return _fresh(pattern, doors)
        if not same_command(there.birth, pattern):
            raise _another(there, pattern)
        ended = _supervised(there, doors) or _stood_by(there, doors)
        if ended is not None:
            return ended


def exit_code(ended: Deployment) -> int:
    """By which systemd starts it again, or not."""
    if ended.status.state is State.STOPPED:
        return 0
    return STAYS_DOWN if ended.status.failures else 4


def settle(pattern: Birth, doors: Doors) -> Deployment | None:
    """After a service was stopped: ends what it left running because its supervisor was killed meanwhile. Gives the
    deployment, None where nothing was left. One that somebody supervises is theirs."""
    there = doors.deployments.store.latest(pattern.name)
    if there is None or there.status.state.over or not same_command(there.birth, pattern):
        return None
    supervisor = there.status.supervisor
    if supervisor is None or lives(supervisor, doors.deployments.host):
        return None
    with doors.supervisor(there.birth) as own:
        if own is None:
            return None
        doors.say(f"{there.birth.name} was to be stopped and its supervisor is gone; ending its engine")
        asked = replace(own, signals=_AskedAtOnce(own.signals))
        return Deployment(there.birth, supervise(there.birth, there.status, asked))


class _AskedAtOnce:
    """Port `Signals`: the stop was asked for before this program began."""

    def __init__(self, signals: ports.Signals) -> None:
        self._signals = signals
        self._told = False

    def wait(self, seconds: float) -> str | None:
        if self._told:
            return self._signals.wait(seconds)
        self._told = True
        return "SIGTERM"


def _fresh(pattern: Birth, doors: Doors) -> Deployment:
    doors.say(f"looking at {pattern.plan.model_path} and at this machine")
    made = doors.again(pattern)
    if made.blocked:
        raise _blocked(pattern, made)
    # the supervisor restarts the engine, systemd restarts the supervisor
    birth = replace(made.birth, restart=Restart.ON_FAILURE)
    with doors.supervisor(birth) as own:  # before it is on record: nobody else gets hold of it in between
        if own is None:
            raise AssertionError("its id is new")
        status = Status(State.STARTING, since=birth.created_at)
        in_the_way = doors.deployments.store.create(birth, status)
        if in_the_way is not None:
            raise _in_the_way(pattern, in_the_way)
        doors.say(f"starting {birth.name}, id {birth.id}; its log is {birth.log_path}")
        return Deployment(birth, supervise(birth, status, own))


def _supervised(there: Deployment, doors: Doors) -> Deployment | None:
    with doors.supervisor(there.birth) as own:
        current = doors.deployments.store.get(there.birth.id)
        if own is None or current is None:
            return None
        doors.say(f"taking over {there.birth.name}, id {there.birth.id}, which is {current.label}")
        return Deployment(there.birth, supervise(there.birth, current.status, own))


def _stood_by(there: Deployment, doors: Doors) -> Deployment | None:
    """None when its supervisor is gone and it is not over: then it is to be taken over."""
    doors.say(f"{there.birth.name} is {there.label} and supervised already; standing by")
    announcer = Announcer(doors.notify, Patience.for_load(there.birth.plan.load_bytes))
    signals, clock, store = doors.signals(), doors.deployments.clock, doors.deployments.store
    while True:
        current = store.get(there.birth.id) or there
        announcer.see(current.status, clock.monotonic())
        if current.status.state.over:
            return current
        if not _looked_after(current, doors.deployments):
            return None
        if signals.wait(_STAND_BY_POLL_S) is not None:
            return down(current, doors.deployments).deployment


def _looked_after(deployment: Deployment, doors: up.Doors) -> bool:
    """By a supervisor that lives, or by one that is about to go on record."""
    supervisor = deployment.status.supervisor
    if supervisor is None:
        return doors.clock.now() - deployment.birth.created_at < SUPERVISOR_START_S
    return lives(supervisor, doors.host)


def _another(there: Deployment, pattern: Birth) -> UsageError:
    return UsageError(
        f"{pattern.name} is up by another command than this service's",
        code="service.another",
        seen=f"id {there.birth.id}, {there.label}, {there.birth.spec.base_url}; the service is of {pattern.id}",
        do=f"holddown down {pattern.name}    makes way; holddown service install {pattern.name}    takes the new one",
    )


def _blocked(pattern: Birth, made: Again) -> LaunchError:
    """All of it: who reads a journal in the morning cannot ask again."""
    first, *more = made.blocked
    also = "".join(f"; also {each.code}: {each.what}" for each in more)
    return LaunchError(
        f"{pattern.name} was not started: {first.what}{also}", code=first.code, seen=first.seen, do=first.do
    )


def _in_the_way(pattern: Birth, there: Deployment) -> LaunchError:
    return LaunchError(
        f"{pattern.name} was not started: the deployment {there.birth.name} has its name, its port or a GPU of it",
        code="service.in-the-way",
        seen=f"id {there.birth.id}, {there.label}, {there.birth.spec.base_url}",
        do=f"holddown down {there.birth.name}    or leave it; the service tries again",
    )
