"""A deployment looked at again and again: load, and tokens a second by the engine's own counter."""

from dataclasses import replace

from fakes.client import FakeClient
from fakes.clock import FakeClock
from fakes.records import a_birth
from fakes.store import FakeStore
from holddown.app.live import Live
from holddown.app.watch import Load
from holddown.launch.lifecycle import State
from holddown.launch.phases import Phase
from holddown.remember.record import Deployment, PhaseTime, Status

TOKENS = "vllm:generation_tokens_total"
GAUGES = {"vllm:num_requests_running": 2.0, "vllm:num_requests_waiting": 1.0, "vllm:kv_cache_usage_perc": 0.4}


def a_view(state: State = State.RELEASED, **more: float) -> tuple[Live, FakeStore, FakeClient, FakeClock]:
    """Born at 10,000, serving 10 s later."""
    birth, status = a_birth(), Status(state, 10_000.0, why="w", phases=(PhaseTime(Phase.SERVER, 10.0),))
    store, client, clock = FakeStore(), FakeClient(measured=dict(GAUGES) | more), FakeClock(10_020.0)
    store.births[birth.id], store.statuses[birth.id] = birth, status
    return Live(Deployment(birth, status), store, client, clock), store, client, clock


def test_a_look_gives_load_and_health_at_once_and_a_speed_from_the_second_on() -> None:
    """Since it serves the mean is known from the first."""
    view, _, client, clock = a_view(**{TOKENS: 100.0})
    first = view.tick()
    assert (first.state, first.for_s, first.answers, first.load) == ("released", 20.0, True, Load(2, 1, 0.4))
    assert (first.output_tokens, first.recent_tok_s, first.mean_tok_s) == (100, None, 10.0)
    clock.sleep(2)
    client.measured[TOKENS] = 150
    second = view.tick()
    assert (second.recent_tok_s, second.output_tokens) == (25.0, 150)


def test_the_speed_is_of_the_last_seconds_alone() -> None:
    """A minute of work before a pause is forgotten after ten seconds."""
    view, _, client, clock = a_view(**{TOKENS: 0.0})
    for count in range(0, 6000, 200):
        client.measured[TOKENS] = count
        busy = view.tick()
        clock.sleep(2)
    assert busy.recent_tok_s == 100
    for _ in range(7):
        idle = view.tick()
        clock.sleep(2)
    assert idle.recent_tok_s == 0


def test_another_engine_counts_anew() -> None:
    """No speed below nothing."""
    view, _, client, clock = a_view(**{TOKENS: 500.0})
    view.tick()
    clock.sleep(2)
    client.measured[TOKENS] = 10
    assert view.tick().recent_tok_s is None
    clock.sleep(2)
    client.measured[TOKENS] = 30
    assert view.tick().recent_tok_s == 10


def test_an_engine_that_counts_nothing_is_not_called_slow() -> None:
    """Metrics are off: unknown, never 0."""
    view, _, client, clock = a_view()
    client.measured.clear()
    view.tick()
    clock.sleep(2)
    seen = view.tick()
    assert (seen.load, seen.output_tokens, seen.recent_tok_s, seen.mean_tok_s) == (None, None, None, None)
    assert seen.answers


def test_nobody_is_asked_of_one_that_does_not_serve() -> None:
    """While it starts, and when it is over."""
    for state, is_over in ((State.STARTING, False), (State.FAILED, True)):
        view, *_ = a_view(state, **{TOKENS: 100.0})
        seen = view.tick()
        assert (seen.answers, seen.load, seen.output_tokens, seen.is_over, seen.why) == (None, None, None, is_over, "w")


def test_each_look_reads_the_record_anew() -> None:
    """Its state changes while it is watched; one whose record is gone is shown as it was."""
    view, store, _, clock = a_view(**{TOKENS: 100.0})
    view.tick()
    store.statuses["0123abcd"] = replace(store.statuses["0123abcd"], state=State.STOPPED, since=10_020.0)
    clock.sleep(2)
    seen = view.tick()
    assert (seen.state, seen.is_over, seen.for_s) == ("stopped", True, 2.0)
    store.births.clear()
    assert view.tick().state == "stopped"


def test_an_engine_that_was_started_again_has_no_mean_since_the_first_start() -> None:
    """Its counter is its own; which start it is is told."""
    view, store, _, _ = a_view(**{TOKENS: 100.0})
    status = view.deployment.status
    store.statuses[view.deployment.birth.id] = replace(status, starts=2)
    tick = view.tick()
    assert (tick.starts, tick.mean_tok_s, tick.output_tokens) == (2, None, 100)
