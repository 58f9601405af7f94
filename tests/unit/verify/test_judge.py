"""Answers in, verdicts out."""

from dataclasses import replace

import pytest

from fakes.client import answer, tokens, without_usage
from holddown.facts.answers import Refusal, TokenLogprob
from holddown.verify import judge
from holddown.verify.verdict import Outcome

DIED = Refusal(500, "EngineCore encountered an issue.")


def test_first_token_shows_the_candidates() -> None:
    """Any answer passes, and the reader sees what the model thought of."""
    verdict = judge.first_token(answer(" Paris"))
    assert verdict.outcome is Outcome.PASSED
    assert "Paris" in verdict.seen and "-0.10" in verdict.seen


def test_first_token_refused_blocks() -> None:
    """An engine that is healthy but answers with 500 must not be released."""
    verdict = judge.first_token(DIED)
    assert verdict.outcome is Outcome.FAILED
    assert verdict.findings[0].blocks
    assert "500" in verdict.seen and "EngineCore" in verdict.seen


@pytest.mark.parametrize("judged", ["streaming", "usage", "stop", "max-tokens"])
def test_a_refusal_is_a_failure_everywhere(judged: str) -> None:
    """No check mistakes a refusal for an answer."""
    whole = answer("a b c")
    verdict = {
        "streaming": judge.streaming(whole, DIED),
        "usage": judge.usage(DIED, 5),
        "stop": judge.stop_sequence(" b", whole, DIED),
        "max-tokens": judge.max_tokens(3, DIED),
    }[judged]
    assert verdict.check == judged
    assert verdict.outcome is Outcome.FAILED
    assert verdict.findings[0].code == f"{judged}.refused"


def test_streaming_equal_passes() -> None:
    """Equal texts pass without a finding."""
    verdict = judge.streaming(answer("a b c"), answer("a b c", arrivals=(1.0, 2.0)))
    assert (verdict.outcome, verdict.findings) == (Outcome.PASSED, ())
    assert "2 deltas" in verdict.seen


def test_streaming_apart_at_a_near_tie_passes_with_a_note() -> None:
    """Two kernels may round a near-tie differently; that is said, and is no failure."""
    whole = answer("a b c", logprobs=(*tokens("a"), TokenLogprob(" b", -0.70, ((" b", -0.70), (" x", -0.75)))))
    verdict = judge.streaming(whole, answer("a x c"))
    assert verdict.outcome is Outcome.PASSED
    assert verdict.findings[0].code == "streaming.near-tie"
    assert "0.05 nats" in verdict.seen


def test_streaming_apart_where_the_model_was_sure_fails() -> None:
    """3.9 nats apart is no rounding."""
    verdict = judge.streaming(answer("a b c"), answer("a x c"))
    assert verdict.outcome is Outcome.FAILED
    assert "3.90 nats" in verdict.findings[0].seen


def test_streaming_that_loses_text_of_equal_tokens_fails() -> None:
    """Where all tokens are equal the text was put together wrongly: no near-tie excuses it."""
    close = tuple(TokenLogprob(one.token, -0.7, ((one.token, -0.7), (" x", -0.7))) for one in tokens("a b c"))
    verdict = judge.streaming(answer("a b c", logprobs=close), answer("a b", logprobs=close))
    assert verdict.outcome is Outcome.FAILED


def test_streaming_that_ends_early_at_a_near_tie_passes() -> None:
    """One of them chose to end where the other went on, and both were as likely."""
    whole = answer("a b", logprobs=(*tokens("a"), TokenLogprob(" b", -0.7, ((" b", -0.7), ("<end>", -0.7)))))
    assert judge.streaming(whole, answer("a", finish_reason="stop")).outcome is Outcome.PASSED


def test_streaming_without_logprobs_uses_those_of_the_whole_answer() -> None:
    """Some endpoints stream no log-probabilities: the token is found by its place in the text."""
    whole = answer("a b", logprobs=(*tokens("a"), TokenLogprob(" b", -0.7, ((" b", -0.7), (" x", -0.8)))))
    assert judge.streaming(whole, answer("a x", logprobs=())).outcome is Outcome.PASSED
    assert judge.streaming(whole, answer("y b", logprobs=())).outcome is Outcome.FAILED


def test_usage_that_agrees_passes() -> None:
    """5 prompt tokens by the tokenizer, 3 by the log-probabilities."""
    assert judge.usage(answer("a b c"), 5).outcome is Outcome.PASSED


def test_usage_without_a_tokenizer_says_what_is_unchecked() -> None:
    """An engine without /tokenize passes, and the verdict says what was not compared."""
    verdict = judge.usage(answer("a b c"), None)
    assert verdict.outcome is Outcome.PASSED
    assert "unchecked" in verdict.seen


def test_usage_counts_the_token_that_ended_the_answer() -> None:
    """A stopped answer may count one token more than it shows; a cut one may not."""
    assert judge.usage(answer("a b", finish_reason="stop", usage=(5, 3)), 5).outcome is Outcome.PASSED
    assert judge.usage(answer("a b", finish_reason="length", usage=(5, 3)), 5).outcome is Outcome.FAILED


def test_usage_that_disagrees_with_the_tokenizer_fails_with_both_counts() -> None:
    """The finding has both figures."""
    verdict = judge.usage(answer("a b c"), 7)
    assert verdict.outcome is Outcome.FAILED
    assert "5 prompt tokens" in verdict.findings[0].what and "7" in verdict.findings[0].what


def test_missing_usage_fails() -> None:
    """No count is no answer to "how many"."""
    assert judge.usage(without_usage(answer("a b c")), 5).outcome is Outcome.FAILED
    assert judge.max_tokens(3, without_usage(answer("a b c"))).outcome is Outcome.FAILED


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The sea is wide", " is"),
        ("one two", " two"),
        ("alone", None),
        ("", None),
        ("a\nb c", " c"),
        ("la\nla\nla", "\nla"),
        ("reallyreallyreally", "llyr"),
    ],
)
def test_stop_is_cut_from_what_was_said(text: str, expected: str | None) -> None:
    """It stands in the answer with the space before it, so it must come again."""
    assert judge.stop_from(answer(text)) == expected


def test_stop_honoured() -> None:
    """Absent from the text, and said so."""
    first = answer("The sea is wide")
    assert judge.stop_sequence(" is", first, answer("The sea", finish_reason="stop")).outcome is Outcome.PASSED


@pytest.mark.parametrize(
    ("text", "reason"), [("The sea is", "stop"), ("The sea is wide", "length"), ("The sea", "length")]
)
def test_stop_ignored(text: str, reason: str) -> None:
    """Left in the text, run over, or cut without being said."""
    first = answer("The sea is wide")
    assert judge.stop_sequence(" is", first, answer(text, finish_reason=reason)).outcome is Outcome.FAILED


def test_stop_that_never_came_is_undecided() -> None:
    """An answer that took another way at a near-tie shows nothing about stop sequences."""
    for reason in ("length", "stop"):
        other_way = answer("Once upon a time", finish_reason=reason)
        assert judge.stop_sequence(" is", answer("The sea is wide"), other_way).outcome is Outcome.INCONCLUSIVE


def test_stop_within_the_reasoning() -> None:
    """A reasoning model may not come to its answer: its reasoning lends the stop sequence, and must stop there."""
    first = replace(answer(""), reasoning="They want to know")
    assert judge.stop_from(first) == " to"
    cut = replace(answer("", finish_reason="stop"), reasoning="They want")
    assert judge.stop_sequence(" to", first, cut).outcome is Outcome.PASSED


def test_stop_without_a_word_to_cut_is_undecided() -> None:
    """A one-word answer lends no stop sequence."""
    assert judge.stop_sequence(None, answer("Paris"), answer("Paris")).outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(
    ("text", "reason", "expected"),
    [
        ("a b c", "length", Outcome.PASSED),
        ("a b c d", "length", Outcome.FAILED),
        ("a b c", "", Outcome.FAILED),
        ("a b", "length", Outcome.FAILED),
        ("a b", "stop", Outcome.INCONCLUSIVE),
    ],
)
def test_max_tokens(text: str, reason: str, expected: Outcome) -> None:
    """Exactly 3 and `length`; an answer that ended by itself decides nothing."""
    assert judge.max_tokens(3, answer(text, finish_reason=reason)).outcome is expected


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Refusal(404, "no such model"), Outcome.PASSED),
        (Refusal(400, "no such model"), Outcome.PASSED),
        (Refusal(500, "oops"), Outcome.FAILED),
        (Refusal(0, "connection reset"), Outcome.FAILED),
        (answer("yes?"), Outcome.FAILED),
    ],
)
def test_wrong_model(reply: Refusal, expected: Outcome) -> None:
    """Only a 4xx tells the client that it asked for something that is not here."""
    assert judge.wrong_model(reply).outcome is expected


def test_reasoning_is_compared_too() -> None:
    """A reasoning model may say nothing else within the tokens we grant."""
    one = replace(answer(""), reasoning="first I think")
    other = replace(answer("", logprobs=()), reasoning="first I dream")
    assert judge.streaming(one, one).outcome is Outcome.PASSED
    assert judge.streaming(one, other).outcome is Outcome.FAILED
