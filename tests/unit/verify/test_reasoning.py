"""Thinking and answering, told apart."""

from dataclasses import replace

import pytest

from fakes.claims import ABLE, STRANGER, played
from fakes.client import FakeClient, answer
from holddown.facts.answers import Ask, Reply
from holddown.verify.reasoning import reasoning
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
    """Where it claimed to, nothing is shown; of anybody's server it does not apply. It is asked once."""
    plain = FakeClient(lambda ask: answer("9.8", finish_reason="stop"))
    assert played(reasoning(ABLE), plain).outcome is Outcome.INCONCLUSIVE
    assert played(reasoning(STRANGER), plain).outcome is Outcome.NOT_APPLICABLE
    assert len(plain.asked) == 2


def test_one_that_thinks_too_long_shows_nothing() -> None:
    """All tokens went into its thinking."""

    def long(ask: Ask) -> Reply:
        return answer("", reasoning="and so on")

    assert played(reasoning(ABLE), FakeClient(long)).outcome is Outcome.INCONCLUSIVE
