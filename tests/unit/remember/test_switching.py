"""What is owed after a switch whose command was killed."""

import pytest

from fakes.records import a_birth
from holddown.launch.lifecycle import State
from holddown.remember.record import Deployment, Status
from holddown.remember.switching import Owed, owed


def one(state: State, *, stop_asked: bool = False) -> Deployment:
    return Deployment(a_birth(), Status(state, 0.0, stop_asked=stop_asked))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (State.RELEASED, None, Owed.DONE),
        (State.STUCK, None, Owed.DONE),
        (State.STOPPING, None, Owed.WAIT),
        (State.STOPPED, None, Owed.BACK),
        (State.FAILED, None, Owed.BACK),
        (State.STOPPED, State.STARTING, Owed.WAIT),
        (State.STOPPED, State.READY, Owed.WAIT),
        (State.STOPPED, State.STUCK, Owed.WAIT),
        (State.STOPPED, State.STOPPING, Owed.WAIT),
        (State.STOPPED, State.RELEASED, Owed.DONE),
        (State.STOPPED, State.FAILED, Owed.BACK),
    ],
)
def test_what_is_owed_at_each_moment(before: State, after: State | None, expected: Owed) -> None:
    """Nothing serves only where the first one is over and the other did not come: then it comes back."""
    assert owed(one(before), one(after) if after else None) is expected


def test_who_stops_the_other_by_hand_wants_neither() -> None:
    """`down` in the middle of it is a person's word."""
    assert owed(one(State.STOPPED), one(State.STOPPED, stop_asked=True)) is Owed.DONE
