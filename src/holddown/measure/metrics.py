"""The words of a measurement, and how they are had from answers.

Tokens are counted from `usage`, never from deltas: an engine may put several tokens into one delta (speculative
decoding, `--stream-interval`, a busy event loop).

ttft               first delta - request sent
itl                pause between two deltas / tokens per delta, where tokens per delta = completion tokens / deltas.
                   With one token per delta these are the plain pauses; with several, each delta's tokens are taken as
                   spread evenly over it. n counts the pauses that were seen, not the tokens.
e2e                end of the stream - request sent
output_throughput  completion tokens of all requests of a phase / time during which at least one was under way
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from holddown.base.evidence import Known
from holddown.base.finding import Finding, Severity
from holddown.facts.answers import Answer, Refusal, Reply
from holddown.measure.stats import carried_percentiles, percentile


@dataclass(frozen=True, slots=True)
class Measurement:
    """One figure. metric: ttft, itl, e2e, output_throughput. unit: ms or tok/s.

    percentile: 50, 90, ...; 0 for a figure that is no percentile (a throughput). n: how many values it rests on.
    """

    metric: str
    value: float
    unit: str
    percentile: int
    n: int
    concurrency: int
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Measured:
    """What a load run gives: figures, and findings about requests that failed."""

    measurements: tuple[Measurement, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of a status line; None where they were not measured. crowd: the highest concurrency measured."""

    single_tokens_per_second: float | None
    crowd_tokens_per_second: float | None
    crowd: int


@dataclass(frozen=True, slots=True)
class Sound:
    """A streamed answer that can be measured: it has deltas, and says how many tokens it took."""

    answer: Answer
    prompt_tokens: int
    completion_tokens: int


def sound(replies: Sequence[Reply]) -> tuple[Sound, ...]:
    """The replies that can be measured, in their order."""
    return tuple(
        Sound(reply, reply.usage.value.prompt_tokens, reply.usage.value.completion_tokens)
        for reply in replies
        if isinstance(reply, Answer)
        and reply.arrivals
        and isinstance(reply.usage, Known)
        and reply.usage.value.completion_tokens > 0
    )


def ttft_ms(one: Sound) -> float:
    return (one.answer.arrivals[0] - one.answer.sent_at) * 1000


def e2e_ms(one: Sound) -> float:
    return (one.answer.ended_at - one.answer.sent_at) * 1000


def itls_ms(one: Sound) -> tuple[float, ...]:
    """One value per pause between deltas; empty for an answer that came in one piece."""
    arrivals = one.answer.arrivals
    tokens_per_delta = one.completion_tokens / len(arrivals)
    return tuple((later - earlier) * 1000 / tokens_per_delta for earlier, later in pairwise(arrivals))


def busy_seconds(replies: Sequence[Reply]) -> float:
    """How long at least one of these answers was under way; pauses between them do not count."""
    spans = sorted((reply.sent_at, reply.ended_at) for reply in replies if isinstance(reply, Answer))
    busy, covered_until = 0.0, float("-inf")
    for start, end in spans:
        busy += max(0.0, end - max(start, covered_until))
        covered_until = max(covered_until, end)
    return busy


def measurements(replies: Sequence[Reply], concurrency: int) -> tuple[Measurement, ...]:
    """Every figure that these replies carry; none when none can be measured."""
    good = sound(replies)
    if not good:
        return ()
    input_tokens = round(sum(one.prompt_tokens for one in good) / len(good))
    output_tokens = round(sum(one.completion_tokens for one in good) / len(good))
    series = {
        "ttft": [ttft_ms(one) for one in good],
        "itl": [pause for one in good for pause in itls_ms(one)],
        "e2e": [e2e_ms(one) for one in good],
    }
    figures = [
        Measurement(metric, percentile(values, rank), "ms", rank, len(values), concurrency, input_tokens, output_tokens)
        for metric, values in series.items()
        for rank in carried_percentiles(len(values))
    ]
    seconds = busy_seconds([one.answer for one in good])
    if seconds > 0:
        rate = sum(one.completion_tokens for one in good) / seconds
        figures.append(
            Measurement("output_throughput", rate, "tok/s", 0, len(good), concurrency, input_tokens, output_tokens)
        )
    return tuple(figures)


def failures(replies: Sequence[Reply]) -> tuple[Finding, ...]:
    """One finding for all requests that could not be measured, with the first reason of each kind."""
    lost = len(replies) - len(sound(replies))
    if not lost:
        return ()
    reasons = dict.fromkeys(_reason(reply) for reply in replies if not sound([reply]))
    return (
        Finding(
            code="measure.failed-requests",
            severity=Severity.WARN,
            subject="measure",
            what=f"{lost} of {len(replies)} requests of the load run failed; the figures rest on the others",
            seen="; ".join(list(reasons)[:3]),
            do="read the engine's log: holddown logs NAME",
        ),
    )


def summary(figures: Sequence[Measurement]) -> Summary:
    """The few figures for a status line."""
    crowd = max((figure.concurrency for figure in figures), default=0)
    return Summary(
        single_tokens_per_second=_throughput(figures, 1),
        crowd_tokens_per_second=_throughput(figures, crowd) if crowd > 1 else None,
        crowd=crowd,
    )


def _throughput(figures: Sequence[Measurement], concurrency: int) -> float | None:
    wanted = ("output_throughput", concurrency)
    return next((one.value for one in figures if (one.metric, one.concurrency) == wanted), None)


def _reason(reply: Reply) -> str:
    if isinstance(reply, Refusal):
        return f"HTTP {reply.status}: {reply.message}" if reply.status else reply.message
    if not isinstance(reply.usage, Known):
        return reply.usage.why
    return "an answer without any token"
