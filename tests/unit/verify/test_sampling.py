"""seed, logprobs and n, judged."""

from dataclasses import replace
from itertools import count

import pytest

from fakes.claims import ABLE, played
from fakes.client import FakeClient, answer
from holddown.facts.answers import Ask, Refusal, Reply, TokenLogprob
from holddown.verify import sampling
from holddown.verify.verdict import Outcome

TOP = ((" a", -0.1), (" b", -3.0), (" c", -4.0), (" d", -5.0), (" e", -6.0))


def test_a_seed_that_is_kept() -> None:
    """The same seed the same answer, another seed another."""
    verdict = played(sampling.seed(ABLE), FakeClient(lambda ask: answer(f"answer {ask.seed}")))
    assert verdict.outcome is Outcome.PASSED


def test_a_seed_that_is_ignored() -> None:
    """Three times the same seed, three answers."""
    number = count()
    verdict = played(sampling.seed(ABLE), FakeClient(lambda ask: answer(f"answer {next(number)}")))
    assert verdict.findings[0].code == "seed.ignored"


def test_one_other_rounding_is_no_fault() -> None:
    """The first prefill may round otherwise than those out of the prefix cache."""
    number = count()
    client = FakeClient(lambda ask: answer("first" if next(number) == 0 else f"answer {ask.seed}"))
    assert played(sampling.seed(ABLE), client).outcome is Outcome.PASSED


def test_where_nothing_is_sampled_a_seed_shows_nothing() -> None:
    """Every seed gives one answer: the temperature is ignored, or the question has one answer."""
    verdict = played(sampling.seed(ABLE), FakeClient(lambda ask: answer("the same")))
    assert verdict.outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(
    ("token", "seen"),
    [
        (TokenLogprob(" a", 0.5, TOP), "has 0.5"),
        (TokenLogprob(" a", float("nan"), TOP), "has nan"),
        (TokenLogprob(" a", -0.1, TOP[:2]), "2 candidates"),
        (TokenLogprob(" b", -3.0, TOP), "the best is -0.10"),
    ],
)
def test_logprobs_that_cannot_be(token: TokenLogprob, seen: str) -> None:
    """Above 0, not a number, too few, and at temperature 0 another than the best."""
    verdict = played(sampling.logprobs(ABLE), FakeClient(lambda ask: answer(" a", logprobs=(token,))))
    assert verdict.findings[0].code == "logprobs.wrong" and seen in verdict.findings[0].seen


def test_logprobs_that_can_be() -> None:
    """Five candidates, the best first, and it is the one chosen."""
    client = FakeClient(lambda ask: answer(" a", logprobs=(TokenLogprob(" a", -0.1, TOP),)))
    assert played(sampling.logprobs(ABLE), client).outcome is Outcome.PASSED


@pytest.mark.parametrize(("others", "outcome"), [(("two",), Outcome.PASSED), ((), Outcome.FAILED)])
def test_n_answers_are_counted(others: tuple[str, ...], outcome: Outcome) -> None:
    """Two are asked for."""
    verdict = played(sampling.n_answers(ABLE), FakeClient(lambda ask: replace(answer("one"), others=others)))
    assert verdict.outcome is outcome


def test_what_a_server_refuses_it_does_not_claim() -> None:
    """A clean 400 is no failure of these."""
    refusing = FakeClient(lambda ask: Refusal(400, "not here"))
    for script in (sampling.seed, sampling.logprobs, sampling.n_answers):
        assert played(script(ABLE), refusing).outcome is Outcome.NOT_APPLICABLE


def test_each_asks_for_what_it_is_about() -> None:
    """What goes out has the parameter."""
    seen: list[Ask] = []

    def listening(ask: Ask) -> Reply:
        seen.append(ask)
        return answer("one two")

    for script in (sampling.seed, sampling.logprobs, sampling.n_answers):
        played(script(ABLE), FakeClient(listening))
    assert {ask.seed for ask in seen} >= {1, 2, 3, 4}
    assert any(ask.logprobs == 5 for ask in seen) and any(ask.n == 2 for ask in seen)
