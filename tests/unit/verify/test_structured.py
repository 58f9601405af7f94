"""JSON that fits a schema."""

import json

import pytest

from fakes.claims import ABLE, played
from fakes.client import FakeClient, answer
from holddown.facts.answers import Refusal
from holddown.verify.structured import Animal, json_schema, schema_of
from holddown.verify.verdict import Outcome

FITTING = '{"kind": "mammal", "legs": 4, "can_swim": true, "size": "large"}'


def test_the_schema_that_is_asked_for_is_whole() -> None:
    """All fields required, nothing more allowed, and nothing referred to elsewhere."""
    schema = json.loads(schema_of(Animal))
    assert schema["required"] == ["kind", "legs", "can_swim", "size"]
    assert schema["additionalProperties"] is False
    assert "$ref" not in json.dumps(schema)


@pytest.mark.parametrize(
    ("text", "finish", "outcome"),
    [
        (FITTING, "stop", Outcome.PASSED),
        ("A horse is a mammal.", "stop", Outcome.FAILED),
        ("A horse is a mammal.", "length", Outcome.FAILED),
        (FITTING.replace("4", "9"), "stop", Outcome.FAILED),
        (FITTING.replace("mammal", "horse"), "stop", Outcome.FAILED),
        (FITTING[:-1] + ', "name": "x"}', "stop", Outcome.FAILED),
        (FITTING[:20], "length", Outcome.INCONCLUSIVE),
        ("\ud83d", "stop", Outcome.FAILED),
    ],
)
def test_an_answer_is_held_against_it(text: str, finish: str, outcome: Outcome) -> None:
    """Prose, wrong values, fields too many; one that was cut shows nothing."""
    client = FakeClient(lambda ask: answer(text, finish_reason=finish, logprobs=()))
    assert played(json_schema(ABLE), client).outcome is outcome


def test_the_schema_goes_out() -> None:
    """And a server that takes none does not claim it."""
    client = FakeClient(lambda ask: Refusal(400, "no response_format"))
    assert played(json_schema(ABLE), client).outcome is Outcome.NOT_APPLICABLE
    assert client.asked[0].schema == schema_of(Animal)
