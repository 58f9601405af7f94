"""Long answers that go wrong on the way."""

from dataclasses import replace

import pytest

from fakes.claims import ABLE, SMALL, played
from fakes.client import FakeClient, answer, tokens
from holddown.base.evidence import from_file
from holddown.facts.answers import Answer, Ask, Reply
from holddown.verify.degeneration import TOKENS, degeneration
from holddown.verify.verdict import Outcome

PROSE = " ".join(f"word{number}" for number in range(TOKENS))


def telling(text: str, logprobs: Answer | None = None, seconds: float = 0.5) -> FakeClient:
    """As many words of it as are asked for."""

    def says(ask: Ask) -> Reply:
        said = answer(" ".join(text.split(" ")[: ask.max_tokens]))
        return replace(logprobs or said, ended_at=seconds)

    return FakeClient(says)


def test_two_thousand_sound_tokens() -> None:
    """They were asked for, and all were looked at."""
    client = telling(PROSE)
    verdict = played(degeneration(replace(ABLE, context=from_file(8192, "a fake"))), client)
    assert verdict.outcome is Outcome.PASSED and verdict.seen.startswith("2000 tokens")
    assert client.asked[-1].max_tokens == TOKENS


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (PROSE[:5000] + " and on and on" * 500, "circle"),
        (
            PROSE[:5000] + " ветер дует над морем" + " море шумит" * 10 + " ".join(f" слово{n}" for n in range(900)),
            "script",
        ),
    ],
)
def test_a_loop_and_another_script_are_found(text: str, word: str) -> None:
    """With the place where it begins; a small model may do so on a sound server."""
    verdict = played(degeneration(ABLE), telling(text))
    assert verdict.findings[0].code == "degeneration.failed" and word in verdict.findings[0].seen
    assert "from token" in verdict.findings[0].seen
    assert played(degeneration(SMALL), telling(text)).outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize("logprob", [-9.0, float("nan")])
def test_log_probabilities_that_collapse(logprob: float) -> None:
    """The words are new every time, and the model holds them all unlikely, or says that they are no number."""
    sure, unsure = tokens(PROSE)[:600], tokens(PROSE, logprob)[600:1200]
    said = answer(PROSE, logprobs=(*sure, *unsure))
    verdict = played(degeneration(ABLE), telling(PROSE, said))
    assert "from token 600" in verdict.findings[0].seen and "unsure" in verdict.findings[0].seen


def test_an_answer_that_ends_early_shows_little() -> None:
    """Sound as far as it went."""
    assert played(degeneration(ABLE), telling(PROSE[:1500])).outcome is Outcome.INCONCLUSIVE


def test_a_slow_machine_gives_fewer_and_it_is_said() -> None:
    """64 tokens in 10 s: two minutes are 768 tokens."""
    client = telling(PROSE, seconds=10.0)
    verdict = played(degeneration(replace(ABLE, context=from_file(8192, "a fake"))), client)
    assert client.asked[-1].max_tokens == 768
    assert "2000 would take 312 s" in verdict.asked
