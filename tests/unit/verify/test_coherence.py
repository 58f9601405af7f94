"""Coherence: figures of answers, and the verdict over several."""

import math
from dataclasses import replace

import pytest

from fakes.client import answer, tokens
from holddown.base.evidence import Unknown, from_file
from holddown.facts.answers import Refusal, Reply, TokenLogprob
from holddown.verify import coherence
from holddown.verify.verdict import Outcome

VOCAB = from_file(49_152, "config.json vocab_size")
NEXT = answer(" Paris")
PROSE = "The sea is wide and deep, and many kinds of fish live in it."
GOOD = answer(PROSE)
NO_ECHO = Refusal(400, "echo is not supported")


def echoed(mean: float) -> Reply:
    """A sentence of 8 tokens, and the one token that the engine added."""
    return answer(
        " ".join("abcdefgh") + " !", logprobs=(*tokens(" ".join("abcdefgh"), mean), *tokens(" !", -0.01)), usage=(9, 1)
    )


def test_a_sound_model_passes_with_its_figures() -> None:
    """The verdict shows the mean, the limit, what guessing would be, and " Paris"."""
    verdict = coherence.judge(NEXT, [echoed(-3.2)] * 3, [GOOD] * 3, VOCAB)
    assert (verdict.outcome, verdict.findings) == (Outcome.PASSED, ())
    for figure in ("-3.2", "-5.4", "-10.8", "3 of 3", "Paris"):
        assert figure in verdict.seen


def test_random_weights_fail() -> None:
    """About ln(vocab) nats per token, and unsure of its own words."""
    noise = answer("qua zilch veer", logprobs=tokens("qua zilch veer", -8.0, -8.1))
    verdict = coherence.judge(NEXT, [echoed(-10.9)] * 3, [noise] * 3, VOCAB)
    assert verdict.outcome is Outcome.FAILED
    assert verdict.findings[0].code == "coherence.failed"
    assert "--skip-check coherence" in verdict.findings[0].do


def test_an_engine_that_says_nothing_fails() -> None:
    """Empty answers are no language, however plain it finds plain English."""
    silent = answer("", finish_reason="stop", logprobs=())
    verdict = coherence.judge(NEXT, [echoed(-3.2)] * 3, [silent] * 3, VOCAB)
    assert verdict.outcome is Outcome.FAILED
    assert "says nothing" in verdict.seen


@pytest.mark.parametrize("count", [0, 1])
def test_one_answer_gone_astray_is_no_failure(count: int) -> None:
    """A sound small model may stutter once in three answers."""
    stutter = answer("la " * 20)
    answers = [stutter] * count + [GOOD] * (3 - count)
    assert coherence.judge(NEXT, [echoed(-3.2)] * 3, answers, VOCAB).outcome is Outcome.PASSED


def test_most_answers_gone_astray_fail_in_spite_of_good_sentences() -> None:
    """Prefill may be right where decoding is wrong: a damaged KV cache looks so."""
    stutter = answer("la " * 20)
    verdict = coherence.judge(NEXT, [echoed(-3.2)] * 3, [stutter, stutter, GOOD], VOCAB)
    assert verdict.outcome is Outcome.FAILED
    assert "repeats itself" in verdict.seen


def test_surprising_sentences_fail_in_spite_of_confident_answers() -> None:
    """Wrong weights may be sure of themselves."""
    assert coherence.judge(NEXT, [echoed(-7.0)] * 3, [GOOD] * 3, VOCAB).outcome is Outcome.FAILED


def test_not_a_number_fails() -> None:
    """NaN compares with nothing, and must not slip through."""
    verdict = coherence.judge(NEXT, [echoed(math.nan)] * 3, [GOOD] * 3, VOCAB)
    assert verdict.outcome is Outcome.FAILED
    broken = answer("a b", logprobs=tokens("a b", math.nan))
    assert coherence.judge(NEXT, [NO_ECHO], [broken] * 3, VOCAB).outcome is Outcome.FAILED


def test_without_echo_the_answers_decide_and_it_is_said() -> None:
    """An engine that refuses `echo` is judged on its answers alone, with a note."""
    verdict = coherence.judge(NEXT, [NO_ECHO] * 3, [GOOD] * 3, VOCAB)
    assert verdict.outcome is Outcome.PASSED
    assert [finding.code for finding in verdict.findings] == ["coherence.no-echo"]
    assert "echo is not supported" in verdict.findings[0].seen


def test_no_answer_at_all_is_a_refusal_not_incoherence() -> None:
    """What was not heard cannot be judged."""
    verdict = coherence.judge(NEXT, [echoed(-3.0)], [Refusal(500, "boom")] * 3, VOCAB)
    assert verdict.outcome is Outcome.FAILED
    assert verdict.findings[0].code == "coherence.refused"
    assert "boom" in verdict.seen


def test_the_token_that_the_engine_added_does_not_count() -> None:
    """Only the echoed prompt is judged, or a sure last token would flatter it."""
    flattered = answer("a b c d", logprobs=(*tokens("a b c", -6.0), TokenLogprob(" d", 0.0)), usage=(4, 1))
    assert "-6.0 nats/token" in coherence.judge(NEXT, [flattered], [GOOD], VOCAB).seen


def test_thresholds_follow_the_vocabulary() -> None:
    """-5.6 is too much surprise for 49 thousand tokens, and not for 256 thousand."""
    large = from_file(256_000, "config.json vocab_size")
    assert coherence.judge(NEXT, [echoed(-5.6)], [GOOD], VOCAB).outcome is Outcome.FAILED
    assert coherence.judge(NEXT, [echoed(-5.6)], [GOOD], large).outcome is Outcome.PASSED


def test_an_unknown_vocabulary_is_said() -> None:
    """A guess of ours is named as one."""
    assert "unknown vocabulary" in coherence.judge(NEXT, [echoed(-3.0)], [GOOD], Unknown("no config")).seen


def test_repeated_share() -> None:
    """0 for prose, close to 1 for a stutter, 0 where there is too little to say."""
    assert coherence.repeated_share(PROSE.split()) == 0
    assert coherence.repeated_share(["la"] * 42) == pytest.approx(1 - 1 / 40)
    assert coherence.repeated_share(["la", "la"]) == 0


def test_longest_run_share() -> None:
    """The run that a broken kernel prints."""
    assert coherence.longest_run_share("!!!!!!!!") == 1
    assert coherence.longest_run_share("aabbb") == pytest.approx(3 / 5)
    assert coherence.longest_run_share("") == 0


def test_foreign_share() -> None:
    """Letters alone count; accents are Latin."""
    assert coherence.foreign_share("Café, 12 + 3!") == 0
    assert coherence.foreign_share("мир") == 1
    assert coherence.foreign_share("ab 你好") == pytest.approx(0.5)
    assert coherence.foreign_share("123 !?") == 0


def test_short_right_answers_are_sound() -> None:
    """ "Paris." is no stutter and no run of one character."""
    assert coherence.faults(coherence.speech(answer("Paris.")), -10.8) == ()


def test_reasoning_is_speech() -> None:
    """A reasoning model may think through all the tokens that it is granted."""
    thought = replace(answer("", logprobs=()), reasoning="!!!!!!!!!!!!!!!!")
    assert "one character" in coherence.faults(coherence.speech(thought), -10.8)[0]
