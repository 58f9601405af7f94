"""One deployment in another's place: what is on record while that goes on, and what is owed where it was cut short."""

from dataclasses import dataclass
from enum import StrEnum

from holddown.launch.lifecycle import ProcessRef, State
from holddown.remember.record import Deployment


@dataclass(frozen=True, slots=True)
class Switching:
    """before: id of the deployment that makes way. name: of the one that comes. owner: the command that does it. after:
    id of the start that is to take its place, empty before there is one."""

    before: str
    name: str
    owner: ProcessRef
    at: float
    after: str = ""


class Owed(StrEnum):
    """By whoever comes after a command that was killed. WAIT: it goes on by itself. DONE: nothing is. BACK: the one
    that made way is to be started again."""

    WAIT = "wait"
    DONE = "done"
    BACK = "back"


def owed(before: Deployment, after: Deployment | None) -> Owed:
    """Once the owner is gone."""
    if after is not None:
        if after.status.state is State.RELEASED or after.status.stop_asked:
            return Owed.DONE
        return Owed.BACK if after.status.state.over else Owed.WAIT
    if before.status.state.over:
        return Owed.BACK
    # it was told to stop, or never was
    return Owed.WAIT if before.status.state is State.STOPPING else Owed.DONE
