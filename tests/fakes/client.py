"""An endpoint that answers as a test says. Threads may ask it at once."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from holddown.base.evidence import Unknown, from_probe
from holddown.facts.answers import Answer, Ask, Refusal, Reply, TokenLogprob, ToolCall, Usage
from holddown.facts.served import Served

Says = Callable[[Ask], Reply]


def tokens(text: str, logprob: float = -0.1, second: float = -4.0) -> tuple[TokenLogprob, ...]:
    """One token per word with the space before it, each with a second best."""
    words = re.findall(r"\s*\S+", text)
    return tuple(TokenLogprob(word, logprob, ((word, logprob), (" else", second))) for word in words)


def answer(
    text: str,
    *,
    finish_reason: str = "length",
    logprobs: tuple[TokenLogprob, ...] | None = None,
    usage: tuple[int, int] | None = None,
    sent_at: float = 0.0,
    arrivals: tuple[float, ...] = (),
    reasoning: str = "",
    calls: tuple[ToolCall, ...] = (),
) -> Answer:
    """A whole answer whose counts agree with its tokens, unless they are given."""
    given = tokens(text) if logprobs is None else logprobs
    prompt, completion = usage or (5, len(given))
    return Answer(
        text=text,
        finish_reason=finish_reason,
        usage=from_probe(Usage(prompt, completion), "usage of the answer"),
        sent_at=sent_at,
        ended_at=arrivals[-1] if arrivals else sent_at + 1.0,
        logprobs=given,
        arrivals=arrivals,
        reasoning=reasoning,
        tool_calls=calls,
    )


def without_usage(reply: Answer) -> Answer:
    return replace(reply, usage=Unknown("the answer has no usage"))


def well(ask: Ask) -> Reply:
    """A sound model behind a sound endpoint."""
    if ask.model != "m":
        return Refusal(404, "no such model")
    if ask.echo:
        return answer(ask.prompt + " And", logprobs=(*tokens(ask.prompt, -3.0), *tokens(" And")), usage=(9, 1))
    text = "The sea is wide and deep, and many kinds of fish live in its cold water all year"
    words = text.split(" ")[: ask.max_tokens]
    said = " ".join(words)
    for stop in ask.stop:
        if stop in said:
            return answer(said.split(stop)[0], finish_reason="stop")
    return answer(said, finish_reason="length" if len(words) == ask.max_tokens else "stop")


@dataclass
class FakeClient:
    """Says `says` whole and streamed, or `streams` where that differs. alive: what /health says."""

    says: Says = well
    streams: Says | None = None
    alive: Callable[[], bool] = lambda: True
    counts: int | None = 5
    measured: dict[str, float] = field(default_factory=dict)
    asked: list[Ask] = field(default_factory=list)
    streamed: list[Ask] = field(default_factory=list)
    posts: Callable[[bytes], int] = lambda content: 400
    posted: list[tuple[str, bytes]] = field(default_factory=list)

    def healthy(self) -> bool:
        return self.alive()

    def gauges(self, *metrics: str) -> tuple[float | None, ...]:
        return tuple(self.measured.get(metric) for metric in metrics)

    def ask(self, ask: Ask) -> Reply:
        self.asked.append(ask)
        return self.says(ask)

    def stream(self, ask: Ask) -> Reply:
        self.streamed.append(ask)
        return (self.streams or self.says)(ask)

    def abandon(self, ask: Ask, deltas: int) -> Refusal | None:
        reply = self.stream(ask)
        return reply if isinstance(reply, Refusal) else None

    def post(self, path: str, content: bytes) -> Refusal:
        self.posted.append((path, content))
        return Refusal(self.posts(content), "as the test says")

    def served(self) -> Served | Refusal:
        if not self.alive():
            return Refusal(0, "connection refused")
        return Served(("m",), Unknown("a fake"), Unknown("a fake"), Unknown("a fake"))

    def prompt_tokens(self, ask: Ask) -> int | None:
        return self.counts

    def token_ids(self, ask: Ask) -> tuple[int, ...]:
        return tuple(range(self.counts or 0))
