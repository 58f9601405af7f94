"""How text of so many tokens is written for one server."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from fakes.client import FakeClient, answer, without_usage
from holddown.app.language import language
from holddown.base.errors import FactError
from holddown.facts.answers import Ask, Refusal, Reply
from holddown.measure.words import COMMON, NEEDED


def words_of(ask: Ask) -> list[str]:
    return (ask.messages[0].content if ask.messages else ask.prompt).split()


@dataclass
class Tokenizer(FakeClient):
    """weigh: tokens of one word. told: whether there is an endpoint for it."""

    weigh: Callable[[str], int] = lambda word: 1
    told: bool = True
    used: bool = True

    def count(self, ask: Ask) -> int:
        return 5 + sum(map(self.weigh, words_of(ask)))

    def prompt_tokens(self, ask: Ask) -> int | None:
        return self.count(ask) if self.told else None

    def ask(self, ask: Ask) -> Reply:
        said = answer("so", usage=(self.count(ask), 1))
        return said if self.used else without_usage(said)


def test_common_words_are_a_token_each() -> None:
    """What the template adds is known beside them."""
    spoken = language(Tokenizer(), "m")
    assert (spoken.words, spoken.overhead, spoken.per_word) == (COMMON[:NEEDED], 6, 1.0)
    assert spoken.exact and spoken.chat and not spoken.note


def test_words_that_are_more_are_left_out() -> None:
    """By groups: what is kept is exact."""
    spoken = language(Tokenizer(weigh=lambda word: 2 if word in COMMON[20:25] else 1), "m")
    assert spoken.exact and len(spoken.words) == NEEDED
    assert not set(spoken.words) & set(COMMON[20:25])


def test_a_tokenizer_to_which_all_words_are_more() -> None:
    """Their mean is measured, and it is said that lengths are near only."""
    spoken = language(Tokenizer(weigh=lambda word: 3 if word != "Words:" else 1), "m")
    assert (spoken.exact, spoken.per_word, spoken.overhead) == (False, 3.0, 6)
    assert "3.00 tokens" in spoken.note


def test_usage_counts_where_there_is_no_tokenizer() -> None:
    """One token is asked for each count; and it is said."""
    spoken = language(Tokenizer(told=False), "m")
    assert spoken.exact and spoken.overhead == 6 and "usage" in spoken.note


def test_nothing_counts() -> None:
    """Prompts are words then, and it is said."""
    spoken = language(Tokenizer(told=False, used=False), "m")
    assert not spoken.exact and "not tokens" in spoken.note


def test_a_server_that_answers_nothing() -> None:
    """Its own words are in the error."""
    with pytest.raises(FactError) as error:
        language(FakeClient(says=lambda ask: Refusal(500, "engine dead")), "m")
    assert "engine dead" in error.value.seen
