"""Stopping a deployment: its supervisor is asked, and is waited for."""

from dataclasses import dataclass

from holddown.app.up import POLL_S, SUPERVISOR_START_S, Doors, follow, over, supervised
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
    deployment = _supervised(deployment, doors)
    supervisor = deployment.status.supervisor
    if deployment.status.state.over or supervisor is None:
        return Stopped(deployment, was_over=True)
    doors.processes.terminate([supervisor])
    for _ in follow(deployment.birth.id, doors, frozenset({State.STOPPED, State.FAILED})):
        pass
    return Stopped(doors.store.get(deployment.birth.id) or deployment, was_over=False)


def _supervised(deployment: Deployment, doors: Doors) -> Deployment:
    """As it is once its supervisor is on record, or it is over: right after `up` began, it is neither yet.

    Raises: LaunchError.
    """
    deadline = doors.clock.monotonic() + SUPERVISOR_START_S
    while True:
        deployment = doors.store.get(deployment.birth.id) or deployment
        if deployment.status.state.over or supervised(deployment, doors):
            return deployment
        if over(deployment.birth.id, doors):
            continue
        if deployment.status.supervisor is not None or doors.clock.monotonic() > deadline:
            raise LaunchError(
                f"{deployment.birth.name} has no supervisor to ask",
                code="down.unsupervised",
                do="holddown status    gives it one; then holddown down again",
            )
        doors.clock.sleep(POLL_S)
