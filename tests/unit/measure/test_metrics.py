"""Answers in, figures out."""

import pytest

from fakes.client import answer
from holddown.facts.answers import Refusal, Reply
from holddown.measure.metrics import Measurement, busy_seconds, failures, itls_ms, measurements, sound, summary
from holddown.measure.stats import carried_percentiles, percentile

ONE = answer("x", logprobs=(), usage=(60, 4), sent_at=1.0, arrivals=(1.5, 1.6, 1.7, 1.9))
OTHER = answer("x", logprobs=(), usage=(62, 4), sent_at=1.0, arrivals=(2.0, 2.1, 2.2, 2.4))


def figure(metric: str, figures: tuple[Measurement, ...], rank: int = 50) -> Measurement:
    return next(one for one in figures if one.metric == metric and one.percentile == rank)


def test_figures_of_two_answers() -> None:
    """TTFT from sending, E2E to the end, throughput over the time in which either was under way."""
    figures = measurements([ONE, OTHER], 8)
    assert figure("ttft", figures).value == pytest.approx(750)
    assert figure("e2e", figures).value == pytest.approx(1150)
    assert figure("output_throughput", figures, 0).value == pytest.approx(8 / 1.4)
    assert figure("ttft", figures).n == 2
    assert figure("itl", figures).n == 6
    assert {(one.input_tokens, one.output_tokens, one.concurrency) for one in figures} == {(61, 4, 8)}


def test_itl_with_one_token_per_delta_is_the_plain_pause() -> None:
    """100, 100, 200 ms."""
    assert itls_ms(sound([ONE])[0]) == pytest.approx((100, 100, 200))


def test_itl_with_several_tokens_per_delta_is_spread_over_them() -> None:
    """Four tokens in each of three deltas 400 ms apart are 100 ms per token, not 400."""
    lumps = answer("x", logprobs=(), usage=(60, 12), sent_at=0.0, arrivals=(1.0, 1.4, 1.8))
    assert itls_ms(sound([lumps])[0]) == pytest.approx((100, 100))


def test_an_answer_in_one_piece_has_no_itl() -> None:
    """Nothing is made up for it."""
    piece = answer("x", logprobs=(), usage=(60, 12), sent_at=0.0, arrivals=(1.0,))
    assert {one.metric for one in measurements([piece], 1)} == {"ttft", "e2e", "output_throughput"}


def test_pauses_between_requests_are_not_busy() -> None:
    """0 to 1 and 3 to 4 overlap with nothing: two seconds, not four."""
    spans = [answer("x", sent_at=at, arrivals=(at + 1,)) for at in (3.0, 0.0, 0.5)]
    assert busy_seconds(spans) == pytest.approx(2.5)


def test_percentiles_say_what_they_rest_on() -> None:
    """No p99 from ten requests."""
    assert [carried_percentiles(n) for n in (0, 1, 9, 10, 19, 20, 99, 100)] == [
        (), (50,), (50,), (50, 90), (50, 90), (50, 90, 95), (50, 90, 95), (50, 90, 95, 99),
    ]  # fmt: skip


def test_percentile_interpolates() -> None:
    """As numpy does by default."""
    assert percentile([4, 1, 3, 2], 50) == 2.5
    assert percentile([1, 2, 3, 4, 5], 90) == pytest.approx(4.6)


@pytest.mark.parametrize(("values", "rank"), [([], 50), ([1], -1), ([1], 101)])
def test_percentile_refuses_nonsense(values: list[float], rank: float) -> None:
    """No values, or a rank outside 0 to 100."""
    with pytest.raises(ValueError, match="percentile"):
        percentile(values, rank)


def test_no_failures_no_finding() -> None:
    """Silence means that all went well."""
    assert failures([ONE, OTHER]) == ()


def test_failures_name_each_reason_once() -> None:
    """Two reasons over three failures."""
    bad: list[Reply] = [Refusal(503, "busy"), Refusal(503, "busy"), Refusal(0, "connection reset"), ONE]
    finding = failures(bad)[0]
    assert "3 of 4" in finding.what
    assert finding.seen == "HTTP 503: busy; connection reset"


def test_summary_has_the_figures_of_a_status_line() -> None:
    """Single stream, and the highest concurrency."""
    line = summary(measurements([ONE], 1) + measurements([ONE, OTHER], 8))
    assert line.single_tokens_per_second == pytest.approx(4 / 0.9)
    assert line.crowd_tokens_per_second == pytest.approx(8 / 1.4)
    assert line.crowd == 8


def test_summary_of_nothing_says_nothing() -> None:
    """What was not measured is None, not 0."""
    line = summary(())
    assert (line.single_tokens_per_second, line.crowd_tokens_per_second) == (None, None)
