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
    findings: list[Finding] = []
    for deployment in doors.store.all(active_only=True):
        if deployment.birth.boot_id != boot_id:
            findings.append(_ended_by_reboot(deployment, doors))
        elif _abandoned(deployment, doors):
            findings.append(_adopted(deployment, doors, supervisor_log(deployment.birth.id)))
    return Attended(tuple(findings))


def _abandoned(deployment: Deployment, doors: Doors) -> bool:
    supervisor = deployment.status.supervisor
    if supervisor is None:
        # recorded, and its supervisor not yet on record: young, or the command died in between
        return doors.clock.now() - deployment.birth.created_at > _YOUNG_S
    return not lives(supervisor, doors.host)


def _ended_by_reboot(deployment: Deployment, doors: Doors) -> Finding:
    finding = Finding(
        code="state.reboot",
        severity=Severity.WARN,
        subject=deployment.birth.name,
        what=f"{deployment.birth.name} ended when the machine was restarted; it was {deployment.status.state}",
        seen=f"its boot id was {deployment.birth.boot_id[:8]}",
        do=f"holddown up {deployment.birth.plan.model_path} --name {deployment.birth.name}",
    )
    now = doors.clock.now()
    status = replace(deployment.status, state=State.FAILED, since=now, why=finding.what, cause=finding)
    doors.store.write(deployment.birth.id, status, (Noted(finding), StateChanged(State.FAILED, finding.what)), now)
    return finding


def _adopted(deployment: Deployment, doors: Doors, log_path: str) -> Finding:
    doors.processes.start_supervisor(deployment.birth.id, log_path)
    deadline = doors.clock.monotonic() + _HANDOVER_S
    now_there = deployment
    while now_there.status.supervisor == deployment.status.supervisor and doors.clock.monotonic() < deadline:
        doors.clock.sleep(0.1)
        now_there = doors.store.get(deployment.birth.id) or deployment
    engine = deployment.status.engine
    return Finding(
        code="supervisor.adopted",
        severity=Severity.WARN,
        subject=deployment.birth.name,
        what=f"the supervisor of {deployment.birth.name} was gone; a new one watches its engine now",
        seen=f"engine pid {engine.pid}, {deployment.status.state}" if engine else "no engine had been started",
    )
