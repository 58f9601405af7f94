"""Clients that hang up, and requests that are none."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from fakes.claims import ABLE, played
from fakes.client import FakeClient, answer, tokens
from holddown.facts.answers import Ask, Refusal
from holddown.verify.abuse import CANCELLED, MALFORMED, cancellation, malformed, malformed_bodies
from holddown.verify.verdict import Outcome

RUNNING = "vllm:num_requests_running"


@dataclass
class Slots(FakeClient):
    """held: how many of the streams that were cut still run when it is asked for the n-th time after."""

    held: Callable[[int], int] = lambda asked: 0
    cut: int = 0
    looked: int = 0

    def abandon(self, ask: Ask, deltas: int) -> Refusal | None:
        self.cut += 1
        return None

    def gauges(self, *metrics: str) -> tuple[float | None, ...]:
        assert metrics == (RUNNING,)
        if not self.cut:
            return (1.0,)
        self.looked += 1
        return (1.0 + self.held(self.looked),)


def test_slots_that_are_free_again() -> None:
    """Not at once, and not fewer than others held before."""
    client = Slots(held=lambda asked: 16 if asked < 5 else 0)
    verdict = played(cancellation(ABLE), client)
    assert verdict.outcome is Outcome.PASSED and "after 1.0 s" in verdict.seen
    assert client.cut == CANCELLED


def test_slots_that_stay_held() -> None:
    """One of sixteen suffices."""
    verdict = played(cancellation(ABLE), Slots(held=lambda asked: 1))
    assert verdict.findings[0].code == "cancellation.held"
    assert "was 1, and is 2" in verdict.findings[0].seen


def test_a_server_that_does_not_tell_what_it_runs() -> None:
    """No metric, or no known engine: nothing is cut."""
    client = FakeClient()
    assert played(cancellation(ABLE), client).outcome is Outcome.NOT_APPLICABLE
    assert played(cancellation(replace(ABLE, engine="")), client).outcome is Outcome.NOT_APPLICABLE
    assert client.streamed == []


def test_the_bodies_are_the_same_each_time() -> None:
    """200 different ones, for a chat and for plain text; another seed mixes others in."""
    for chat in (True, False):
        bodies = malformed_bodies("m", chat=chat)
        assert len(set(bodies)) == MALFORMED == len(bodies)
        assert bodies == malformed_bodies("m", chat=chat)
        assert set(bodies) != set(malformed_bodies("m", chat=chat, seed=1))


def test_none_of_them_asks_for_much() -> None:
    """A malformed request must not become a long one on a server that takes it: each that is JSON bounds its tokens, or
    names a bound that cannot be."""
    assert all(
        b'"max_tokens": ' in body
        for body in malformed_bodies("m", chat=True)
        if b'"messages"' in body and body.endswith(b"}")
    )


@pytest.mark.parametrize(
    ("status", "outcome", "code"),
    [
        (400, Outcome.PASSED, ""),
        (200, Outcome.PASSED, ""),
        (501, Outcome.PASSED, ""),
        (500, Outcome.FAILED, "malformed.error"),
    ],
)
def test_refused_is_well_and_an_error_is_not(status: int, outcome: Outcome, code: str) -> None:
    """A field that is ignored is no fault either."""
    verdict = played(malformed(ABLE), FakeClient(posts=lambda body: status))
    assert verdict.outcome is outcome
    assert (verdict.findings[0].code if verdict.findings else "") == code


def test_a_few_errors_are_a_note() -> None:
    """With the body that made one."""
    verdict = played(malformed(ABLE), FakeClient(posts=lambda body: 500 if b"top_p" in body else 400))
    assert verdict.outcome is Outcome.PASSED
    assert not verdict.findings[0].blocks and "top_p" in verdict.findings[0].seen


def test_a_server_that_is_dead_afterwards() -> None:
    """The same question, which it answered before, is refused."""
    dead: list[bytes] = []

    def dies(body: bytes) -> int:
        dead.append(body)
        return 0

    client = FakeClient(lambda ask: Refusal(0, "connection refused") if dead else answer("well"), posts=dies)
    assert played(malformed(ABLE), client).findings[0].code == "malformed.died"


def test_a_server_that_answers_otherwise_afterwards() -> None:
    """No near-tie: the words were far apart."""
    said = iter(
        (answer("all is well", logprobs=tokens("all is well")), answer("all is lost", logprobs=tokens("all is lost")))
    )
    verdict = played(malformed(ABLE), FakeClient(lambda ask: next(said)))
    assert verdict.findings[0].code == "malformed.hurt"
