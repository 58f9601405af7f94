"""Thinking and answering, told apart."""

from dataclasses import replace

import pytest

from fakes.claims import ABLE, SMALL, STRANGER, played
from fakes.client import FakeClient, answer, without_usage
from holddown.facts.answers import Answer, Ask, Refusal, Reply
from holddown.verify.reasoning import reasoning, reasoning_budget
from holddown.verify.verdict import Outcome

WHOLE = answer("9.8 is larger.", finish_reason="stop", reasoning="Compare the tenths.")
CUT = answer("", reasoning="Compare the")


def thinking(whole: Reply = WHOLE, cut: Reply = CUT) -> FakeClient:
    return FakeClient(lambda ask: whole if ask.max_tokens > 100 else cut)


def test_both_apart_and_the_budget_kept() -> None:
    """Of a model that thinks, whole and cut."""
    assert played(reasoning(ABLE), thinking()).outcome is Outcome.PASSED


@pytest.mark.parametrize(
    "text", ["<think>Compare</think> 9.8", "Compare.</think>\n9.8", "[THINK]Compare[/THINK]9.8", "<|channel|>analysis"]
)
def test_marks_of_thinking_in_the_answer(text: str) -> None:
    """Whole or one half of them; also of a server that says nothing of reasoning."""
    for claims in (ABLE, STRANGER):
        verdict = played(reasoning(claims), thinking(answer(text, finish_reason="stop")))
        assert verdict.findings[0].code == "reasoning.in-content"


def test_an_answer_that_went_into_the_reasoning() -> None:
    """It ended by itself, and its content is empty."""
    verdict = played(reasoning(ABLE), thinking(replace(WHOLE, text=" ")))
    assert verdict.findings[0].code == "reasoning.no-content"


def test_thinking_that_is_cut_is_not_given_out() -> None:
    """As content it would be read as the answer."""
    verdict = played(reasoning(ABLE), thinking(cut=answer("Compare the")))
    assert verdict.findings[0].code == "reasoning.budget"


def test_a_budget_that_thinking_does_not_count_in() -> None:
    """24 tokens were granted."""
    verdict = played(reasoning(ABLE), thinking(cut=answer("", reasoning="Compare", usage=(5, 900))))
    assert verdict.findings[0].code == "reasoning.budget" and "900 tokens" in verdict.findings[0].seen


def test_a_model_that_does_not_think() -> None:
    """Where it claimed to, it is asked to, and nothing is shown; of anybody's server it does not apply."""
    for script in (reasoning, reasoning_budget):
        plain = FakeClient(lambda ask: answer("9.8", finish_reason="stop"))
        assert played(script(ABLE), plain).outcome is Outcome.INCONCLUSIVE
        assert [ask.thinking for ask in plain.asked] == [False, True]
        assert played(script(STRANGER), plain).outcome is Outcome.NOT_APPLICABLE
        assert len(plain.asked) == 3


def test_a_model_that_thinks_when_it_is_asked_to() -> None:
    """All that follows asks it to: its template leaves thinking out otherwise."""

    def hybrid(ask: Ask) -> Reply:
        if not ask.thinking:
            return answer("9.8", finish_reason="stop")
        return WHOLE if ask.max_tokens > 100 else CUT

    assert played(reasoning(ABLE), FakeClient(hybrid)).outcome is Outcome.PASSED


def test_one_that_thinks_too_long_shows_nothing() -> None:
    """All tokens went into its thinking."""

    def long(ask: Ask) -> Reply:
        return answer("", reasoning="and so on")

    assert played(reasoning(ABLE), FakeClient(long)).outcome is Outcome.INCONCLUSIVE


THOUGHT = " ".join(f"word{number}" for number in range(100))
LONG = answer("9.8 is larger.", finish_reason="stop", reasoning=THOUGHT)


class Counting(FakeClient):
    """Its tokens are words."""

    def prompt_tokens(self, ask: Ask) -> int | None:
        return len(ask.prompt.split())


def granted(tokens: int, text: str = "9.8.") -> Answer:
    """Ended after so many tokens of thinking."""
    return replace(LONG, text=text, reasoning=" ".join(THOUGHT.split()[:tokens]))


def budgeted(reply: Reply, whole: Reply = LONG) -> Counting:
    return Counting(lambda ask: reply if ask.thinking_budget else whole)


@pytest.mark.parametrize("tokens", [1, 50, 82])
def test_thinking_that_ends_where_it_should(tokens: int) -> None:
    """Half of the 100 tokens are granted, and 32 to a phrase that the server ends it with."""
    client = budgeted(granted(tokens))
    verdict = played(reasoning_budget(ABLE), client)
    assert verdict.outcome is Outcome.PASSED and f"for {tokens} tokens with a budget of 50" in verdict.seen
    assert [ask.thinking_budget for ask in client.asked] == [0, 50]


def test_thinking_that_goes_on() -> None:
    """A token too many, also of a small model: the server ends it, not the model."""
    for claims in (ABLE, SMALL):
        verdict = played(reasoning_budget(claims), budgeted(granted(83)))
        assert verdict.findings[0].code == "reasoning-budget.over" and "for 83 tokens" in verdict.findings[0].seen


def test_a_server_that_never_claimed_to_keep_a_budget() -> None:
    """It may pass over it, and why is said."""
    verdict = played(reasoning_budget(replace(ABLE, no_budget="it is old")), budgeted(LONG))
    assert verdict.outcome is Outcome.NOT_APPLICABLE and "it is old" in verdict.seen


@pytest.mark.parametrize(("status", "outcome"), [(400, Outcome.NOT_APPLICABLE), (500, Outcome.INCONCLUSIVE)])
def test_a_budget_that_is_refused(status: int, outcome: Outcome) -> None:
    """In the server's words; an error of its own is no refusal."""
    verdict = played(reasoning_budget(ABLE), budgeted(Refusal(status, "set --reasoning-config")))
    assert verdict.outcome is outcome and "set --reasoning-config" in verdict.seen


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (granted(50, "word50 word51</think> 9.8."), "reasoning-budget.in-content"),
        (granted(0, f"{THOUGHT} 9.8."), "reasoning-budget.in-content"),
        (granted(50, " "), "reasoning-budget.no-content"),
    ],
)
def test_an_end_that_spoils_the_answer(reply: Answer, code: str) -> None:
    """Thinking in it, with its mark or from its beginning on, or nothing at all. A small model may do so itself."""
    assert played(reasoning_budget(ABLE), budgeted(reply)).findings[0].code == code
    assert played(reasoning_budget(SMALL), budgeted(reply)).outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(("tokens", "outcome"), [(65, Outcome.INCONCLUSIVE), (66, Outcome.PASSED)])
def test_thinking_too_short_to_cut(tokens: int, outcome: Outcome) -> None:
    """Half of it and the closing phrase must be less than the whole."""
    assert played(reasoning_budget(ABLE), budgeted(granted(20), whole=granted(tokens))).outcome is outcome


def test_a_budget_with_which_it_does_not_think() -> None:
    """It kept within it, and shows nothing."""
    assert played(reasoning_budget(ABLE), budgeted(granted(0))).outcome is Outcome.INCONCLUSIVE


def test_a_server_without_a_tokenizer_to_ask() -> None:
    """The thinking's share of the tokens generated stands for its count; without these nothing is shown."""

    spent = replace(LONG, usage=answer("", usage=(5, 200)).usage)
    cut = replace(granted(50), usage=answer("", usage=(5, 90)).usage)

    def says(ask: Ask) -> Answer:
        return cut if ask.thinking_budget else spent

    kept = played(reasoning_budget(ABLE), FakeClient(says, counts=None))
    assert (
        kept.outcome is Outcome.PASSED and "it thinks for 89 tokens with a budget of 98, for 196 without" in kept.seen
    )
    untold = FakeClient(lambda ask: without_usage(says(ask)), counts=None)
    assert played(reasoning_budget(ABLE), untold).outcome is Outcome.INCONCLUSIVE


def test_a_server_that_fails_at_the_plain_question() -> None:
    """Nothing is asked after it."""
    client = FakeClient(lambda ask: Refusal(503, "busy"))
    assert played(reasoning_budget(ABLE), client).outcome is Outcome.INCONCLUSIVE and len(client.asked) == 1
