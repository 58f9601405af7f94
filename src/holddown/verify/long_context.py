"""The promised context: that it is read from end to end, that its end is said, and that none of it is read twice."""

from collections.abc import Generator
from typing import Any

from holddown.base.evidence import Unknown, known_or
from holddown.facts.answers import Answer, Ask, Refusal, Reply, Usage
from holddown.verify.claims import Claims
from holddown.verify.script import Question, Script, ask, ask_all, count, gauge, stream
from holddown.verify.verdict import Outcome
from holddown.verify.verdicts import (
    SERVER,
    failed,
    inconclusive,
    not_applicable,
    passed,
    reply_text,
    shown,
)

_DEPTHS = (0.1, 0.5, 0.9)
_NEEDLES = ("4817", "9362", "2059")
_ANSWER_TOKENS = 64
_QUESTION = "What is the secret number of the green door? Answer with the number."
_SHORT_LINES = 12
_PATIENCE_S = 90.0
"""For one question of the whole context; a machine that would take longer is asked about a part of it, and that is
said."""
_SPARE_TOKENS = 160
"""Of the context, for the question, the answer and what the chat template adds."""
_UNCOUNTED_SHARE = 0.9
"""Of the lines that should fit, where no tokenizer can be asked."""
_LINES = (
    "The harbour master noted the tide and closed his book.",
    "A cart of apples came up from the valley before noon.",
    "Two letters were posted, and one of them came back.",
    "The mill stood still because the river was low.",
    "Someone had left a blue umbrella at the station.",
    "In the evening the lamps along the bridge were lit.",
    "The baker counted forty loaves and went to bed.",
)
_CACHE_LINES = 24
_HIT_SHARE = 0.5
_FASTER = 0.6
_HITS = {"vllm": "vllm:prefix_cache_hits_total", "sglang": "sglang:cached_tokens_total"}
"""Source: vLLM 0.32.0 v1/metrics/loggers.py, SGLang docs/references/production_metrics; llama.cpp has it in `usage`."""


def haystack(lines: int, needle: str = "", depth: float = 0.0) -> str:
    """Numbered lines of prose; with the needle's line at that depth."""
    text = [f"{number}. {_LINES[number * 5 % len(_LINES)]}" for number in range(1, lines + 1)]
    if needle:
        text.insert(int(depth * lines), f"The secret number of the green door is {needle}.")
    return "\n".join(text)


def needle(claims: Claims) -> Script:
    """A line at 10, 50 and 90 % of the promised context is found, where it is found in a short text."""
    context = known_or(claims.context, 0)
    if not context:
        return not_applicable("needle", "the server does not tell its context length")
    control = yield from ask_all(tuple(_hidden(claims, _SHORT_LINES, depth) for depth in _DEPTHS))
    asked = "one line of prose among others: the secret number of the green door"
    lost = _lost(control)
    if lost:
        return inconclusive("needle", f"already among {_SHORT_LINES} lines it finds {lost}", asked)
    lines, reached = yield from _lines_for(claims, context)
    if lines <= _SHORT_LINES:
        return not_applicable("needle", f"a context of {context} tokens is too short to hide anything in")
    asked += f" at 10, 50 and 90 % of {reached} tokens"
    if reached < context - _SPARE_TOKENS:
        asked += f" (of {context}: more would take this machine over {_PATIENCE_S:.0f} s a question)"
    replies = yield from ask_all(tuple(_hidden(claims, lines, depth) for depth in _DEPTHS))
    lost = _lost(replies)
    if not lost:
        return passed("needle", f"found at all three depths of {reached} tokens", asked)
    return claims.unless_small(
        failed(
            "needle",
            code="needle.lost",
            what=f"a line in a context of {reached} tokens is not found, and in a short text it is",
            seen=lost,
            do="try --set kv-cache-dtype=auto, and a shorter --set max-model-len; see the rope scaling in config.json",
            asked=asked,
            cause="the KV cache's dtype, the rope scaling, or an attention kernel at this length",
        )
    )


def over_long(claims: Claims) -> Script:
    """Input that is longer than the context is refused with a 4xx that says so; it is not cut in silence."""
    context = known_or(claims.context, 0)
    if not context:
        return not_applicable("over-long", "the server does not tell its context length")
    per_line = yield from _tokens_per_line(claims)
    lines = int(1.2 * context / per_line) + 8
    question = claims.asks(haystack(lines), 1)
    tokens = yield from count(question)
    asked = f"{tokens or int(lines * per_line)} tokens, where {context} is the limit"
    reply = yield from ask(question)
    if isinstance(reply, Refusal) and 400 <= reply.status < 500:
        after = yield from ask(claims.asks("Hello.", 1))
        if isinstance(after, Answer):
            return passed("over-long", f"refused with {reply.status}: {shown(reply.message)}", asked)
        reply = Refusal(reply.status, f"{reply.message}; and then not even a short question is answered")
    cut = isinstance(reply, Answer)
    return failed(
        "over-long",
        code="over-long.accepted",
        what="input longer than the context is answered: the server cut it and did not say so"
        if cut
        else "input longer than the context is not refused cleanly",
        seen=reply_text(reply),
        do="turn cutting off (SGLang: --allow-auto-truncate; llama.cpp: --context-shift), or bound requests before",
        asked=asked,
        cause=SERVER,
    )


def prefix_cache(claims: Claims) -> Script:
    """A long prompt that comes again is not computed again."""
    if not claims.prefix_cache:
        return not_applicable("prefix-cache", "the prefix cache is turned off")
    room = int(known_or(claims.context, 4096) / 40)
    verdict = yield from _twice(claims, min(_CACHE_LINES, room))
    # the blocks of some models hold more tokens than that: vLLM's of those with linear attention, 500 and more
    if verdict.outcome is Outcome.FAILED and room > _CACHE_LINES:
        verdict = yield from _twice(claims, min(8 * _CACHE_LINES, room))
    return verdict


def _twice(claims: Claims, lines: int) -> Script:
    metric = _HITS.get(claims.engine, "")
    question = claims.asks("A note of the day:\n" + haystack(lines) + "\nSum it up.", 4)
    first = yield from stream(question)
    before = (yield from gauge(metric))[0] if metric else None
    again = yield from stream(question)
    after = (yield from gauge(metric))[0] if metric else None
    asked = f"a prompt of {lines} lines, twice"
    if isinstance(first, Refusal) or isinstance(again, Refusal):
        return inconclusive("prefix-cache", reply_text(first if isinstance(first, Refusal) else again), asked)
    usage = known_or(again.usage, Usage(0, 0))
    ttfts = f"first token after {_ttft(first) * 1000:.0f} ms, then {_ttft(again) * 1000:.0f} ms"
    hits = usage.cached_tokens if before is None or after is None else int(after - before)
    if hits is None:
        if _ttft(again) < _FASTER * _ttft(first):
            return passed("prefix-cache", f"{ttfts}; the server counts no hits", asked)
        return inconclusive("prefix-cache", f"{ttfts}; the server counts no hits", asked)
    seen = f"{hits} of {usage.prompt_tokens} tokens from the cache; {ttfts}"
    if hits >= _HIT_SHARE * usage.prompt_tokens:
        return passed("prefix-cache", seen, asked)
    return failed(
        "prefix-cache",
        code="prefix-cache.cold",
        what="the same prompt is computed anew: chats and agents pay for their whole history at every turn",
        seen=seen,
        do="see whether prefix caching is on; engines turn it off by themselves for some kinds of attention",
        asked=asked,
        cause="prefix caching is off, or its blocks are evicted between two requests",
    )


def _hidden(claims: Claims, lines: int, depth: float) -> Ask:
    text = haystack(lines, _NEEDLES[_DEPTHS.index(depth)], depth)
    return claims.asks(
        f"{text}\n\nWhat is the secret number of the green door? Answer with the number.", _ANSWER_TOKENS
    )


def _lost(replies: tuple[Reply, ...]) -> str:
    """`at 50 % 'I do not know'`; empty where each was found."""
    lost = [
        f"at {depth:.0%} {reply_text(reply)}"
        for depth, secret, reply in zip(_DEPTHS, _NEEDLES, replies, strict=True)
        if isinstance(reply, Refusal) or secret not in reply.text + reply.reasoning
    ]
    return "; ".join(lost)


def _tokens_per_line(claims: Claims) -> Generator[Question, Any, float]:
    """By the server's own tokenizer; where it has none to ask, at four characters a token."""
    lines = 40
    text = haystack(lines)
    tokens = yield from count(Ask(claims.model, 1, prompt=text))
    return tokens / lines if tokens else len(text) / 4 / lines


def _lines_for(claims: Claims, context: int) -> Generator[Question, Any, tuple[int, int]]:
    """How many lines fill the context, or as much of it as is read in time; and how many tokens these are."""
    per_line = yield from _tokens_per_line(claims)
    room = context - _SPARE_TOKENS
    sample = max(min(room, 400), 1)
    reply = yield from stream(claims.asks("Read this:\n" + haystack(int(sample / per_line)), 1))
    if isinstance(reply, Answer) and not isinstance(reply.usage, Unknown):
        rate = reply.usage.value.prompt_tokens / max(_ttft(reply), 1e-3)
        # three are read at once, and attention over a long context costs more per token than over a short one
        room = min(room, int(rate * _PATIENCE_S / 3))
    lines = int(room / per_line)
    # later lines have longer numbers than those that were counted: 8,129 tokens instead of 8,032 once
    tokens = yield from count(Ask(claims.model, 1, prompt=haystack(lines)))
    return int(lines * min(1.0, room / tokens) if tokens else lines * _UNCOUNTED_SHARE), room


def _ttft(answer: Answer) -> float:
    """Seconds to the first token."""
    return (answer.arrivals[0] if answer.arrivals else answer.ended_at) - answer.sent_at
