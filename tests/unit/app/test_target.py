"""Which server a verb asks."""

from dataclasses import dataclass, replace

import pytest

from fakes.client import FakeClient
from fakes.records import a_birth
from holddown.app.target import Doors, Target, target
from holddown.base.errors import FactError, UsageError
from holddown.base.evidence import Unknown, from_probe, known_or
from holddown.facts.answers import Refusal
from holddown.facts.served import Served
from holddown.launch.lifecycle import State
from holddown.remember.record import Deployment, Status

_SERVED = Served(("m",), from_probe("sglang", "x"), Unknown("x"), Unknown("x"))


@dataclass
class _Server(FakeClient):
    says_of_itself: Served | Refusal = _SERVED

    def served(self) -> Served | Refusal:
        return self.says_of_itself


def _asked(
    word: str, model: str = "", *, served: Served | Refusal = _SERVED, state: State = State.RELEASED
) -> tuple[Target, list[tuple[str, str]]]:
    keys: list[tuple[str, str]] = []

    def client(base_url: str, key: str) -> FakeClient:
        keys.append((base_url, key))
        return _Server(says_of_itself=served)

    doors = Doors(lambda name: Deployment(a_birth(), Status(state, 1.0)), client, lambda birth: "its own key")
    return target(word, model, "the user's key", doors), keys


def test_a_deployment_is_asked_with_its_own_key() -> None:
    """By its name; what it is stands on record."""
    found, keys = _asked("m")
    assert keys == [("http://127.0.0.1:8000", "its own key")]
    assert (found.subject.key, found.subject.model) == ("0123abcd", "m")
    assert known_or(found.subject.checkpoint, "") == "d1"


def test_any_server_is_asked_by_its_url() -> None:
    """Of its models the only one; a trailing /v1 changes nothing."""
    found, keys = _asked("https://example.test/v1/")
    assert keys == [("https://example.test", "the user's key")]
    assert (found.subject.key, found.subject.model, found.deployment) == ("https://example.test", "m", None)
    assert found.subject.engine == _SERVED.engine
    assert isinstance(found.subject.checkpoint, Unknown)


@pytest.mark.parametrize(
    ("models", "wanted", "answer"),
    [(("a", "b"), "b", "b"), (("a", "b"), "", None), ((), "", None), (("a",), "z", None)],
)
def test_which_of_its_models(models: tuple[str, ...], wanted: str, answer: str | None) -> None:
    """Never one by guess: the words must name one that is there."""
    served = replace(_SERVED, models=models)
    if answer is None:
        with pytest.raises(UsageError, match="serves"):
            _asked("http://h:1", wanted, served=served)
    else:
        assert _asked("http://h:1", wanted, served=served)[0].subject.model == answer


def test_one_that_is_down_and_one_that_does_not_answer() -> None:
    """Each has its own error, with what to do."""
    with pytest.raises(UsageError, match="m is stopped"):
        _asked("m", state=State.STOPPED)
    with pytest.raises(FactError, match="does not say which models"):
        _asked("http://h:1", served=Refusal(0, "cannot connect"))
