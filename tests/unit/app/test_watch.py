"""An engine that answers /health and computes nothing is told from one that is busy, and from one that is idle."""

from fakes.client import FakeClient, well
from holddown.app.watch import PROBE_AGAIN_S, PROBE_EVERY_S, Watch, load_of
from holddown.facts.answers import Refusal

RUNNING, TOKENS = "vllm:num_requests_running", "vllm:generation_tokens_total"


def watch(client: FakeClient, kind: str = "vllm") -> Watch:
    return Watch(client, kind, "m")


def test_requests_that_run_without_a_token_more_are_missed() -> None:
    """At the second look: the first one only counts."""
    client = FakeClient(measured={RUNNING: 2, TOKENS: 100})
    engine = watch(client)

    assert engine.look(0) == ""
    assert engine.look(10) == "2 requests run, and not a token more"
    client.measured[TOKENS] = 101
    assert engine.look(20) == ""


def test_an_idle_engine_misses_nothing() -> None:
    """Its counters stand still because nobody asks."""
    client = FakeClient(measured={RUNNING: 0, TOKENS: 100})
    engine = watch(client)

    assert [engine.look(at) for at in (0, 10, 20)] == ["", "", ""]


def test_an_engine_that_does_not_count_is_not_judged() -> None:
    """Its metrics are off, or it has none."""
    assert [watch(FakeClient()).look(at) for at in (0, 10)] == ["", ""]
    assert [watch(FakeClient(measured={RUNNING: 2})).look(at) for at in (0, 10)] == ["", ""]


def test_a_token_is_asked_of_one_that_was_idle_for_long() -> None:
    """And not of one that had work meanwhile, nor right after."""
    client = FakeClient(measured={RUNNING: 1, TOKENS: 100})
    engine = watch(client)

    assert not engine.due(0)
    engine.look(100)
    client.measured[RUNNING] = 0
    engine.look(110)
    assert not engine.due(PROBE_EVERY_S)
    assert engine.due(100 + PROBE_EVERY_S)
    assert engine.probe(100 + PROBE_EVERY_S) == ""
    assert len(client.asked) == 1 and client.asked[0].max_tokens == 1
    assert not engine.due(101 + PROBE_EVERY_S)


def test_nothing_is_asked_of_one_that_does_not_tell_whether_it_is_idle() -> None:
    """Its queue may be long: a token that waits there is no sign of a hang."""
    engine = watch(FakeClient())
    engine.look(0)

    assert not engine.due(0)
    assert not engine.due(10 * PROBE_EVERY_S)


def test_a_refusal_is_what_is_missing() -> None:
    """With the endpoint's own word."""
    assert "does not answer one token" in watch(FakeClient(says=lambda _: Refusal(500, "EngineDeadError"))).probe(0)


def test_a_token_that_did_not_come_is_missed_until_one_comes() -> None:
    """/health goes on answering, and so do the counters of one that is idle; it is asked again sooner."""
    client = FakeClient(measured={RUNNING: 0, TOKENS: 100}, says=lambda _: Refusal(500, "EngineDeadError"))
    engine = watch(client)
    engine.look(0)
    engine.probe(300)
    assert "does not answer one token" in engine.look(310)
    assert not engine.due(350) and engine.due(300 + PROBE_AGAIN_S)
    client.says = well
    assert engine.probe(360) == engine.look(370) == ""

    client.says = lambda _: Refusal(500, "EngineDeadError")
    engine.probe(700)
    client.measured = {RUNNING: 1, TOKENS: 101}
    assert [engine.look(at) for at in (710, 720)] == ["", "1 requests run, and not a token more"]
    client.measured = {RUNNING: 0, TOKENS: 102}
    assert engine.look(730) == ""


def test_saturated_is_another_word_than_stuck() -> None:
    """It works, and some wait."""
    client = FakeClient(measured={RUNNING: 8, "vllm:num_requests_waiting": 3, "vllm:kv_cache_usage_perc": 0.97})
    load = load_of(client, "vllm")

    assert load is not None and load.saturated
    assert (load.running, load.waiting, load.kv_share) == (8, 3, 0.97)
    idle = load_of(FakeClient(measured={RUNNING: 0}), "vllm")
    assert idle is not None and not idle.saturated
    assert load_of(FakeClient(), "vllm") is None
