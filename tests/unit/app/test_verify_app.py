"""verify: what is asked, in which order, and when it stops."""

from fakes.client import FakeClient, answer, well
from holddown.app.verify import verify
from holddown.base.evidence import from_file
from holddown.facts.answers import Ask, Message, Refusal, Reply
from holddown.verify.expect import (
    CHECK_NAMES,
    Check,
    Coherence,
    FirstToken,
    MaxTokens,
    StopSequence,
    Streaming,
    UsageCounts,
    WrongModel,
)
from holddown.verify.verdict import Outcome, Verdict

NEXT = Ask(model="m", prompt="The capital of France is", max_tokens=1, logprobs=5)
SENTENCE = Ask(model="m", prompt="The sun rises in the east.", max_tokens=1, logprobs=1, echo=True)
QUESTION = Ask(model="m", messages=(Message("user", "And the sea?"),), max_tokens=12, logprobs=5)
SHORT = Ask(model="m", messages=(Message("user", "And the sea?"),), max_tokens=3)
WRONG = Ask(model="nobody", prompt="x", max_tokens=1)
CHECKS: tuple[Check, ...] = (
    FirstToken(NEXT),
    Coherence(NEXT, (SENTENCE,), (QUESTION,), from_file(49_152, "config.json")),
    Streaming(QUESTION),
    UsageCounts(QUESTION),
    StopSequence(QUESTION),
    MaxTokens(SHORT),
    WrongModel(WRONG),
)


def run(client: FakeClient, skip: frozenset[str] = frozenset()) -> tuple[tuple[Verdict, ...], list[str]]:
    said: list[str] = []
    return verify(client, CHECKS, skip, lambda verdict: said.append(verdict.check)), said


def outcomes(verdicts: tuple[Verdict, ...]) -> dict[str, Outcome]:
    return {verdict.check: verdict.outcome for verdict in verdicts}


def test_a_sound_deployment_passes_everything() -> None:
    """Every check passes, and each is said as it is known."""
    verdicts, said = run(FakeClient())
    assert set(outcomes(verdicts).values()) == {Outcome.PASSED}
    assert said == list(CHECK_NAMES)


def test_every_question_is_asked_once() -> None:
    """Checks share answers: tokens are slow."""
    client = FakeClient()
    run(client)
    assert len(client.asked) == len(set(client.asked))
    assert client.streamed == [QUESTION]


def test_no_first_token_stops_at_once() -> None:
    """Healthy, but dead at the first request: nothing more is asked, and the rest is not run."""
    client = FakeClient(lambda ask: Refusal(500, "EngineCore encountered an issue."), alive=lambda: False)
    verdicts, said = run(client)
    assert client.asked == [NEXT]
    assert said == ["first-token"]
    assert verdicts[0].outcome is Outcome.FAILED
    assert [verdict.check for verdict in verdicts[1:]] == list(CHECK_NAMES[1:])
    assert all(verdict.outcome is Outcome.SKIPPED and "not run" in verdict.seen for verdict in verdicts[1:])


def test_an_engine_that_dies_on_the_way_is_not_asked_further() -> None:
    """It dies at the stream: what came before stands, what comes after is not run."""
    alive = [True]

    def die(ask: Ask) -> Reply:
        alive[0] = False
        return Refusal(0, "connection reset")

    verdicts, said = run(FakeClient(streams=die, alive=lambda: alive[0]))
    assert said == ["first-token", "coherence", "streaming"]
    assert outcomes(verdicts)["coherence"] is Outcome.PASSED
    assert outcomes(verdicts)["streaming"] is Outcome.FAILED
    assert "answers no more" in verdicts[-1].seen


def test_a_failed_check_of_a_living_engine_does_not_hide_the_others() -> None:
    """All faults are collected."""
    verdicts, _ = run(FakeClient(counts=99))
    assert [check for check, outcome in outcomes(verdicts).items() if outcome is Outcome.FAILED] == ["usage"]
    assert outcomes(verdicts)["wrong-model"] is Outcome.PASSED


def test_what_is_skipped_is_not_asked_and_is_said() -> None:
    """With random weights coherence is skipped by name, and the verdict says that it is unverified."""
    client = FakeClient()
    verdicts, said = run(client, frozenset({"coherence"}))
    assert SENTENCE not in client.asked
    assert outcomes(verdicts)["coherence"] is Outcome.SKIPPED
    assert verdicts[1].findings[0].code == "coherence.skipped"
    assert "coherence" in said


def test_stop_is_asked_with_a_piece_of_the_answer() -> None:
    """The answer begins "The sea is": so " is" must stop it."""
    client = FakeClient()
    run(client)
    assert [ask.stop for ask in client.asked if ask.stop] == [(" is",)]


def test_an_answer_without_words_leaves_stop_undecided() -> None:
    """Nothing can be cut from one word."""

    def terse(ask: Ask) -> Reply:
        return answer("Paris", finish_reason="stop") if ask.messages else well(ask)

    assert outcomes(run(FakeClient(terse))[0])["stop"] is Outcome.INCONCLUSIVE


def test_an_engine_that_answers_for_any_model_fails() -> None:
    """Somebody else's model must not be answered by this one."""

    def eager(ask: Ask) -> Reply:
        return answer("yes") if ask == WRONG else well(ask)

    assert outcomes(run(FakeClient(eager))[0])["wrong-model"] is Outcome.FAILED
