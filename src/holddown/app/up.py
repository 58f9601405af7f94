"""From a prepared plan to a supervised engine on record; what happens then is followed on the record."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from holddown import ports
from holddown.app.prepare import Prepared, Request
from holddown.base.errors import LaunchError
from holddown.launch.environment import recordable
from holddown.launch.lifecycle import ProcessRef, State
from holddown.remember.record import Birth, Deployment, Entry, Status
from holddown.remember.trust import TrustedCode

POLL_S = 0.2
SUPERVISOR_START_S = 30.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where this deployment keeps its things."""

    id: str
    run_dir: str
    log_path: str
    supervisor_log_path: str


@dataclass(frozen=True, slots=True)
class Doors:
    store: ports.Store
    host: ports.Host
    processes: ports.Processes
    clock: ports.Clock


def launch(
    prepared: Prepared,
    request: Request,
    place: Place,
    environment: Iterable[tuple[str, str]],
    doors: Doors,
) -> Deployment | None:
    """Records the deployment and hands it to a supervisor. Gives the one that is up under that name instead, if any."""
    now = doors.clock.now()
    birth = Birth(
        id=place.id,
        name=request.name,
        created_at=now,
        boot_id=prepared.machine.boot_id,
        plan=prepared.plan,
        spec=prepared.spec,
        model=prepared.model,
        engine=prepared.candidate.engine,
        environment=recordable(environment),
        skip_checks=request.skip_checks,
        run_dir=place.run_dir,
        log_path=place.log_path,
        gpus_by_user=request.wishes.gpus is not None,
        after=request.after,
        restart=request.restart,
    )
    there = doors.store.create(birth, Status(State.STARTING, since=now))
    if there is None:
        if request.trust_remote_code and prepared.model.remote_code:
            doors.store.trust(TrustedCode(prepared.model.path, prepared.model.remote_code, now))
        doors.processes.start_supervisor(place.id, place.supervisor_log_path)
    return there


def follow(deployment_id: str, doors: Doors, until: frozenset[State]) -> Iterator[Entry | None]:
    """What is recorded of it, as it is recorded, until its state is one of `until` or it is over.

    None between polls, so that a caller can redraw. Raises: LaunchError when its supervisor is gone.
    """
    seq = 0
    quiet_since = doors.clock.monotonic()
    while True:
        # read before its entries: when it is over, they hold its last word
        deployment = doors.store.get(deployment_id)
        if deployment is None:
            raise LaunchError("the deployment is not on record any more", code="launch.record-gone")
        entries = doors.store.entries(deployment_id, seq)
        for entry in entries:
            seq = entry.seq
            yield entry
        if deployment.status.state in until or deployment.status.state.over:
            return
        now = doors.clock.monotonic()
        quiet_since = now if entries else quiet_since
        starting = deployment.status.supervisor is None and now - quiet_since < SUPERVISOR_START_S
        if not starting and not supervised(deployment, doors) and not over(deployment_id, doors):
            raise _unsupervised(deployment)
        yield None
        doors.clock.sleep(POLL_S)


def over(deployment_id: str, doors: Doors) -> bool:
    """Asked once more when its supervisor is gone: that may have been after its last word."""
    deployment = doors.store.get(deployment_id)
    return deployment is not None and deployment.status.state.over


def supervised(deployment: Deployment, doors: Doors) -> bool:
    """Its supervisor is on record and lives."""
    supervisor = deployment.status.supervisor
    return supervisor is not None and lives(supervisor, doors.host)


def lives(process: ProcessRef, host: ports.Host) -> bool:
    """Whether exactly that process still runs: its pid may be another program's by now."""
    there = host.process(process.pid)
    return there is not None and there.started_at == process.started_at and there.state != "Z"


def _unsupervised(deployment: Deployment) -> LaunchError:
    return LaunchError(
        f"the supervisor of {deployment.birth.name} is gone",
        code="launch.supervisor-gone",
        seen=f"its log lies beside {deployment.birth.log_path}",
        do="holddown status    looks after the engine again, if it still runs",
    )
