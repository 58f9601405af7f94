"""Stopping a deployment: its supervisor is asked, and is waited for."""

from dataclasses import dataclass

from holddown.app.up import Doors, follow, lives
from holddown.base.errors import LaunchError
from holddown.launch.lifecycle import State
from holddown.remember.record import Deployment


@dataclass(frozen=True, slots=True)
class Stopped:
    """was_over: there was nothing to stop any more."""

    deployment: Deployment
    was_over: bool


def down(deployment: Deployment, doors: Doors) -> Stopped:
    """Waits until the engine and all its processes are gone. Raises: LaunchError."""
    if deployment.status.state.over:
        return Stopped(deployment, was_over=True)
    supervisor = deployment.status.supervisor
    if supervisor is None or not lives(supervisor, doors.host):
        raise LaunchError(
            f"{deployment.birth.name} has no supervisor to ask",
            code="down.unsupervised",
            do="holddown status    gives it one; then holddown down again",
        )
    doors.processes.terminate([supervisor])
    for _ in follow(deployment.birth.id, doors, frozenset({State.STOPPED, State.FAILED})):
        pass
    return Stopped(doors.store.get(deployment.birth.id) or deployment, was_over=False)
