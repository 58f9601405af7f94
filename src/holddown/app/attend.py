"""Every command first looks after deployments whose supervisor is gone: a crash of ours is no outage of theirs."""

from dataclasses import dataclass, replace
from typing import Protocol

from holddown.app.up import Doors, lives
from holddown.base.finding import Finding, Severity
from holddown.launch.lifecycle import State
from holddown.remember.record import Deployment, Noted, StateChanged

_YOUNG_S = 30.0
_HANDOVER_S = 10.0


@dataclass(frozen=True, slots=True)
class Attended:
    """What was found and done, to be said. All of it is on record too."""

    findings: tuple[Finding, ...]


class SupervisorLog(Protocol):
    """Deployment id -> path of its supervisor's own log."""

    def __call__(self, deployment_id: str) -> str: ...


def attend(doors: Doors, boot_id: str, supervisor_log: SupervisorLog) -> Attended:
    """Marks what a reboot ended, and gives every unsupervised engine a new supervisor."""
    findings = list(mark_rebooted(doors, boot_id))
    for deployment in doors.store.all(active_only=True):
        if deployment.status.supervisor is None:
            # recorded, and its supervisor not yet on record: young, or the command died in between
            if doors.clock.now() - deployment.birth.created_at > _YOUNG_S:
                findings.append(_ended(deployment, doors, _never_supervised(deployment)))
        elif not lives(deployment.status.supervisor, doors.host):
            findings.append(_adopted(deployment, doors, supervisor_log(deployment.birth.id)))
    return Attended(tuple(findings))


def mark_rebooted(doors: Doors, boot_id: str) -> tuple[Finding, ...]:
    """Only what a reboot ended: they would stand in the way of whatever starts after it."""
    before = (each for each in doors.store.all(active_only=True) if each.birth.boot_id != boot_id)
    return tuple(_ended(each, doors, _by_reboot(each)) for each in before)


def _ended(deployment: Deployment, doors: Doors, cause: Finding) -> Finding:
    """Nothing of it runs, so there is nothing to supervise and nothing to signal."""
    now = doors.clock.now()
    status = replace(deployment.status, state=State.FAILED, since=now, why=cause.what, cause=cause)
    doors.store.write(deployment.birth.id, status, (Noted(cause), StateChanged(State.FAILED, cause.what)), now)
    return cause


def _by_reboot(deployment: Deployment) -> Finding:
    return Finding(
        code="state.reboot",
        severity=Severity.WARN,
        subject=deployment.birth.name,
        what=f"{deployment.birth.name} ended when the machine was restarted; it was {deployment.status.state}",
        seen=f"its boot id was {deployment.birth.boot_id[:8]}",
        do=deployment.birth.up_again,
    )


def _never_supervised(deployment: Deployment) -> Finding:
    """Nothing starts it now: whoever asked for it has long gone, and would be surprised."""
    return Finding(
        code="supervisor.never",
        severity=Severity.WARN,
        subject=deployment.birth.name,
        what=f"{deployment.birth.name} was put on record, and its supervisor never came up",
        seen=f"supervisor.log beside {deployment.birth.log_path}",
        do=deployment.birth.up_again,
    )


def _adopted(deployment: Deployment, doors: Doors, log_path: str) -> Finding:
    doors.processes.start_supervisor(deployment.birth.id, log_path)
    deadline = doors.clock.monotonic() + _HANDOVER_S
    now_there = deployment
    while now_there.status.supervisor == deployment.status.supervisor and doors.clock.monotonic() < deadline:
        doors.clock.sleep(0.1)
        now_there = doors.store.get(deployment.birth.id) or deployment
    name, engine = deployment.birth.name, now_there.status.engine
    if now_there.status.supervisor == deployment.status.supervisor:
        what = f"the supervisor of {name} is gone, and the new one is not on record yet"
    elif now_there.status.state is State.WAITING:
        what = f"the supervisor of {name} was gone; a new one will start its engine again"
    elif engine is None or now_there.status.exit is not None or now_there.status.state.over:
        what = f"the supervisor of {name} was gone, and so is its engine"
    else:
        what = f"the supervisor of {name} was gone; a new one watches its engine now"
    pid = f"engine pid {engine.pid}" if engine else "no engine runs"
    return Finding(
        code="supervisor.adopted",
        severity=Severity.WARN,
        subject=name,
        what=what,
        seen=f"{pid}, it was {deployment.status.state}",
    )
