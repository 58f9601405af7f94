"""The promised context: read, ended, cached."""

import re
from dataclasses import dataclass, replace

import pytest

from fakes.claims import ABLE, SMALL, UNTOLD, played
from fakes.client import FakeClient, answer
from holddown.base.evidence import from_probe
from holddown.facts.answers import Ask, Refusal, Reply, Usage
from holddown.verify.long_context import haystack, needle, over_long, prefix_cache
from holddown.verify.verdict import Outcome


def text_of(ask: Ask) -> str:
    return ask.messages[0].content


def finding(ask: Ask) -> Reply:
    """Reads all of it, at 1,000 tokens per second."""
    found = re.search(r"green door is (\d+)", text_of(ask))
    said = answer(f"It is {found[1]}." if found else "I do not know.", arrivals=(1.0,))
    return replace(said, usage=from_probe(Usage(1000, 5), "a fake"))


def test_the_needle_is_where_it_is_said_to_be() -> None:
    """At a tenth and nine tenths of the lines."""
    lines = haystack(100, "123", 0.9).splitlines()
    assert len(lines) == 101 and "123" in lines[90]
    assert "123" in haystack(100, "123", 0.1).splitlines()[10]


def test_found_at_all_three_depths() -> None:
    """Of the whole context, less the room for the answer."""
    client = FakeClient(finding, counts=400)
    verdict = played(needle(ABLE), client)
    assert verdict.outcome is Outcome.PASSED and "3936 tokens" in verdict.seen
    assert max(text_of(ask).count("\n") for ask in client.asked) == 393 + 2


def ends_only(ask: Ask) -> Reply:
    text = text_of(ask)
    return finding(replace(ask, messages=(replace(ask.messages[0], content=text[:1500] + text[-1500:]),)))


def test_lost_in_the_middle() -> None:
    """In a short text it is found, in the promised context not: which depth is said."""
    verdict = played(needle(ABLE), FakeClient(ends_only, counts=400))
    assert verdict.findings[0].code == "needle.lost" and verdict.findings[0].seen.startswith("at 10%")
    assert "KV cache" in verdict.cause
    assert played(needle(SMALL), FakeClient(ends_only, counts=400)).outcome is Outcome.INCONCLUSIVE


def test_a_model_that_finds_nothing_shows_nothing() -> None:
    """Already in a short text; the long one is not asked."""
    client = FakeClient(lambda ask: answer("I do not know."))
    assert played(needle(ABLE), client).outcome is Outcome.INCONCLUSIVE
    assert len(client.asked) == 3


def test_a_slow_machine_is_asked_of_a_part() -> None:
    """30 s a thousand tokens: 1,000 of them in 90 s for three, and the verdict says so."""
    slow = FakeClient(finding, streams=lambda ask: replace(finding(ask), arrivals=(30.0,)), counts=400)
    verdict = played(needle(ABLE), slow)
    assert "found at all three depths of 1000 tokens" in verdict.seen
    assert "of 4096" in verdict.asked


@pytest.mark.parametrize("check", [needle, over_long])
def test_an_unknown_context_is_not_asked(check: object) -> None:
    """There is no limit to try."""
    verdict = played(check(replace(ABLE, context=UNTOLD)), FakeClient())  # type: ignore[operator]
    assert verdict.outcome is Outcome.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("reply", "alive", "code"),
    [
        (Refusal(400, "maximum context length is 4096"), True, ""),
        (Refusal(413, "too large"), True, ""),
        (Refusal(400, "maximum context length is 4096"), False, "over-long.accepted"),
        (Refusal(500, "Internal Server Error"), True, "over-long.accepted"),
        (Refusal(0, "connection reset"), True, "over-long.accepted"),
        (answer("It is about a harbour."), True, "over-long.accepted"),
    ],
)
def test_too_long_is_refused_and_nothing_else(reply: Reply, alive: bool, code: str) -> None:
    """Cleanly, and it lives on."""
    after = answer("Hello!") if alive else Refusal(0, "connection refused")
    client = FakeClient(lambda ask: reply if len(text_of(ask)) > 99 else after, counts=400)
    verdict = played(over_long(ABLE), client)
    assert (verdict.findings[0].code if verdict.findings else "") == code
    assert text_of(client.asked[0]).count("\n") * 10 > 4096


@dataclass
class Caching(FakeClient):
    """Each prompt that comes again takes `hits` tokens from the cache, or another number where it is long."""

    hits: int = 0
    hits_of_long: int = 0

    def stream(self, ask: Ask) -> Reply:
        hits = self.hits_of_long if len(text_of(ask)) > 3000 else self.hits
        before = self.measured.setdefault("vllm:prefix_cache_hits_total", 100.0)
        self.measured["vllm:prefix_cache_hits_total"] = before + (hits if ask in self.streamed else 0)
        self.streamed.append(ask)
        return replace(answer("x", arrivals=(1.0,)), usage=from_probe(Usage(300, 1), "a fake"))


@pytest.mark.parametrize(("hits", "outcome"), [(256, Outcome.PASSED), (0, Outcome.FAILED), (16, Outcome.FAILED)])
def test_the_engines_own_counter_decides(hits: int, outcome: Outcome) -> None:
    """Half of the prompt at least: the last block is never whole."""
    assert played(prefix_cache(ABLE), Caching(hits=hits)).outcome is outcome


def test_blocks_longer_than_a_short_prompt_are_given_a_long_one() -> None:
    """A model with linear attention has blocks of 500 tokens and more."""
    client = Caching(hits=0, hits_of_long=256)
    assert played(prefix_cache(ABLE), client).outcome is Outcome.PASSED
    assert len(client.streamed) == 4


def test_hits_that_the_answer_tells() -> None:
    """llama.cpp has them in `usage`."""
    said = replace(answer("x", arrivals=(1.0,)), usage=from_probe(Usage(300, 1, 299), "a fake"))
    assert (
        played(prefix_cache(replace(ABLE, engine="llamacpp")), FakeClient(lambda ask: said)).outcome is Outcome.PASSED
    )


def test_without_a_counter_the_clock_can_only_say_yes() -> None:
    """A second answer that is no faster may have other reasons."""
    for second, outcome in ((0.1, Outcome.PASSED), (0.9, Outcome.INCONCLUSIVE)):
        times = iter((1.0, second))
        client = FakeClient(lambda ask, times=times: answer("x", arrivals=(next(times),)))  # type: ignore[misc]
        assert played(prefix_cache(replace(ABLE, engine="")), client).outcome is outcome


def test_a_cache_that_was_turned_off_is_not_asked_of() -> None:
    """By the user, in the plan."""
    verdict = played(prefix_cache(replace(ABLE, prefix_cache=False)), FakeClient())
    assert verdict.outcome is Outcome.NOT_APPLICABLE
