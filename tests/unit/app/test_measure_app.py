"""measure: what is put on, and what is reported."""

import threading

from fakes.client import FakeClient, answer, without_usage
from holddown.app.measure import measure
from holddown.facts.answers import Ask, Refusal, Reply
from holddown.measure.load import CONCURRENCY
from holddown.measure.metrics import Measured


class Machine:
    """One request takes 0.1 s to its first token and 0.05 s per token, on a clock of its own."""

    def __init__(self, first_s: float = 0.1, token_s: float = 0.05) -> None:
        self._first_s, self._token_s = first_s, token_s
        self._now = 0.0
        self._lock = threading.Lock()

    def __call__(self, ask: Ask) -> Reply:
        with self._lock:
            start = self._now
            arrivals = tuple(start + self._first_s + self._token_s * i for i in range(ask.max_tokens))
            self._now = arrivals[-1]
        return answer("x", logprobs=(), usage=(60, ask.max_tokens), sent_at=start, arrivals=arrivals)


def measured(client: FakeClient, budget_s: float = 15.0) -> Measured:
    return measure(client, "m", lambda line: None, budget_s)


def test_both_concurrencies_have_every_figure() -> None:
    """TTFT, ITL, E2E and throughput, single and at 8."""
    result = measured(FakeClient(streams=Machine()))
    assert result.findings == ()
    for concurrency in (1, CONCURRENCY):
        metrics = {one.metric for one in result.measurements if one.concurrency == concurrency}
        assert metrics == {"ttft", "itl", "e2e", "output_throughput"}


def test_the_warm_up_is_not_measured() -> None:
    """At least 3 alone and 8 at once are; the first request of all is neither."""
    client = FakeClient(streams=Machine())
    result = measured(client)
    counts = {one.concurrency: one.n for one in result.measurements if one.metric == "ttft"}
    assert counts[1] >= 3 and counts[CONCURRENCY] >= 8
    assert sum(counts.values()) == len(client.streamed) - 1


def test_no_two_prompts_begin_alike() -> None:
    """A prefix cache must not answer for the prefill."""
    client = FakeClient(streams=Machine())
    measured(client)
    assert len({ask.prompt[:3] for ask in client.streamed}) == len(client.streamed)


def test_every_request_runs_to_its_length() -> None:
    """Answers of chance lengths could not be compared."""
    client = FakeClient(streams=Machine())
    measured(client)
    assert all(ask.ignore_eos for ask in client.streamed)


def test_a_fast_machine_is_asked_for_more() -> None:
    """The budget is spent on longer answers and more of them."""
    slow, fast = FakeClient(streams=Machine(1.0, 0.2)), FakeClient(streams=Machine(0.01, 0.002))
    measured(slow)
    measured(fast)
    assert slow.streamed[1].max_tokens == 16
    assert fast.streamed[1].max_tokens == 128
    assert len(fast.streamed) > len(slow.streamed)


def test_a_slow_prefill_is_given_short_prompts() -> None:
    """A CPU at 25 ms per prompt token would spend the budget on eight long prompts; a GPU gets them."""
    slow, fast = FakeClient(streams=Machine(0.5, 0.05)), FakeClient(streams=Machine(0.02, 0.05))
    measured(slow)
    measured(fast)
    assert len(slow.streamed[1].prompt) * 4 < len(fast.streamed[1].prompt)


def test_a_refused_warm_up_measures_nothing_and_says_so() -> None:
    """No figure is better than one of a broken endpoint."""
    result = measured(FakeClient(lambda ask: Refusal(503, "busy")))
    assert result.measurements == ()
    assert [finding.code for finding in result.findings] == ["measure.failed-requests"]
    assert "busy" in result.findings[0].seen


def test_failed_requests_are_counted() -> None:
    """They are reported, and the figures rest on the others."""
    machine = Machine()

    def sometimes(ask: Ask) -> Reply:
        return Refusal(0, "connection reset") if ask.prompt.startswith("203") else machine(ask)

    result = measured(FakeClient(streams=sometimes))
    assert "1 of " in result.findings[0].what
    assert any(one.concurrency == CONCURRENCY for one in result.measurements)


def test_an_endpoint_without_usage_is_not_measured() -> None:
    """Deltas are no tokens: without `usage` there is no count."""

    def silent(ask: Ask) -> Reply:
        return without_usage(answer("x", arrivals=(0.1, 0.2)))

    result = measured(FakeClient(streams=silent))
    assert result.measurements == ()
    assert "usage" in result.findings[0].seen
