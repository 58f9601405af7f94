"""What a server must stand: clients that hang up, and requests that are none."""

import json
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from holddown.base.finding import Finding, Severity
from holddown.facts.answers import Answer, Refusal
from holddown.tables.load import engine_table
from holddown.verify import judge
from holddown.verify.claims import Claims
from holddown.verify.script import Script, abandon, ask, gauge, pause, post
from holddown.verify.verdicts import (
    SCHEDULER,
    SERVER,
    failed,
    inconclusive,
    not_applicable,
    passed,
    refusal_text,
    reply_text,
    shown,
)

MALFORMED = 200
CANCELLED = 16
_LONG_TOKENS = 400
_DELTAS = 2
_WAIT_S, _WAITS = 0.25, 40
_QUESTION = "Tell me something about the sea."
_TOKENS = 16
_SHOWN = 3
_BODY_CHARACTERS = 200
_ERROR_SHARE = 0.2
"""Measured: of these 200, vLLM 0.32.0 answers one with a 500 and llama.cpp b11434 twelve; both are well afterwards."""


def cancellation(claims: Claims) -> Script:
    """Sixteen clients hang up in the middle of their streams; what they held is free again in ten seconds."""
    metric = engine_table(claims.engine).running_metric if claims.engine else ""
    before = (yield from gauge(metric))[0] if metric else None
    if before is None:
        return not_applicable("cancellation", "the server does not tell how many requests it runs")
    # each its own text, or the prefix cache makes them one
    asks = tuple(
        replace(claims.asks(f"{number}. Write a long story.", _LONG_TOKENS), ignore_eos=True, seed=number)
        for number in range(CANCELLED)
    )
    cut = yield from abandon(asks, _DELTAS)
    asked = f"{CANCELLED} streams of {_LONG_TOKENS} tokens, cut after {_DELTAS} deltas"
    refusal = next((each for each in cut if each is not None), None)
    if refusal is not None:
        return inconclusive("cancellation", refusal_text(refusal), asked)
    running: float | None = None
    for waited in range(_WAITS):
        running = (yield from gauge(metric))[0]
        if running is not None and running <= before:
            return passed("cancellation", f"{metric} is back at {running:.0f} after {waited * _WAIT_S:.1f} s", asked)
        yield from pause(_WAIT_S)
    return failed(
        "cancellation",
        code="cancellation.held",
        what="clients that hang up go on holding their places: the server works for nobody",
        seen=f"{metric} was {before:.0f}, and is {running if running is None else int(running)} "
        f"{_WAIT_S * _WAITS:.0f} s after",
        do="look for a proxy between that keeps the connection; bound what a client may ask for; another version",
        asked=asked,
        cause=SCHEDULER,
    )


def malformed(claims: Claims) -> Script:
    """200 requests that are none: each is refused without an error of the server's own, and afterwards it answers as
    before."""
    question = claims.asks(_QUESTION, _TOKENS)
    before = yield from ask(question)
    asked = f"{MALFORMED} malformed requests, and one good one before and after"
    if isinstance(before, Refusal):
        return inconclusive("malformed", refusal_text(before), asked)
    path = "/v1/chat/completions" if claims.chat else "/v1/completions"
    bodies = malformed_bodies(claims.model, chat=claims.chat)
    given = yield from post(path, bodies)
    after = yield from ask(question)
    if isinstance(after, Refusal):
        return failed(
            "malformed",
            code="malformed.died",
            what="after malformed requests the server answers no more",
            seen=f"{_broken(given, bodies) or 'all were refused'}; then {reply_text(after)}",
            do="let nobody reach it whom you do not trust; see holddown logs NAME; another engine version",
            asked=asked,
            cause=SERVER,
        )
    same = judge.streaming(before, after)
    if same.findings and same.findings[0].blocks:
        return failed(
            "malformed",
            code="malformed.hurt",
            what="after malformed requests the same question is answered otherwise",
            seen=f"before {_text(before)}, after {_text(after)}",
            do="start it anew; let nobody reach it whom you do not trust",
            asked=asked,
            cause=SERVER,
        )
    broken = [reply for reply in given if _is_broken(reply)]
    errors = f"{len(broken)} of {MALFORMED} malformed requests are errors of the server's own, not refusals"
    statuses = ", ".join(f"{_times(given, status)} with {status}" for status in sorted({each.status for each in given}))
    if len(broken) > MALFORMED * _ERROR_SHARE:
        return failed(
            "malformed",
            code="malformed.error",
            what=errors,
            seen=f"{_broken(given, bodies)}; {statuses}",
            do="clients that retry on 5xx will repeat them; report it to the engine with one of these",
            asked=asked,
            cause=SERVER,
        )
    seen = f"{statuses}; then it answers as before"
    note = Finding("malformed.error", Severity.NOTE, "malformed", errors, _broken(given, bodies))
    return passed("malformed", seen, asked, (note,) if broken else ())


def malformed_bodies(model: str, *, chat: bool, seed: int = 0) -> tuple[bytes, ...]:
    """The same for the same seed."""
    every = [*_mutated(model, chat=chat), *_no_json(model)]
    # a shuffle that needs no random numbers: by a hash of each with the seed
    every.sort(key=lambda body: zlib.crc32(b"%d " % seed + body))
    return tuple(every[:MALFORMED])


_BAD: tuple[object, ...] = (
    None, -1, 1.5, 10**30, "x", "", [], {}, [None], [[[]]], {"a": {"b": []}}, True, "\u0000", "\ud83d",
)  # fmt: skip
_FIELDS = (
    "model", "temperature", "top_p", "stop", "n", "logprobs", "top_logprobs", "seed", "tools", "tool_choice",
    "response_format", "stream", "stream_options", "frequency_penalty", "logit_bias", "echo",
)  # fmt: skip
# none of which asks for tokens without end
_BAD_MAX_TOKENS: tuple[object, ...] = ("x", [], {}, 1.5, 10**30, -5, [[]])


def _mutated(model: str, *, chat: bool) -> Iterator[bytes]:
    text = "messages" if chat else "prompt"
    content: Any = [{"role": "user", "content": "Hi."}] if chat else "Hi."
    good = {"model": model, text: content, "max_tokens": 1}
    for field in (*_FIELDS, text):
        yield from (_encoded({**good, field: value}) for value in _BAD)
    yield from (_encoded({**good, "max_tokens": value}) for value in _BAD_MAX_TOKENS)
    for role in ("", "nobody", 7, None):
        yield _encoded({**good, "messages": [{"role": role, "content": "Hi."}]})
    for part in ({}, {"type": "image_url"}, {"type": "image_url", "image_url": {"url": "data:,"}}, {"type": 1}):
        yield _encoded({**good, "messages": [{"role": "user", "content": [part]}]})


def _no_json(model: str) -> Iterator[bytes]:
    good = _encoded({"model": model, "prompt": "Hi.", "messages": [], "max_tokens": 1})
    yield from (good[: len(good) * cut // 8] for cut in range(1, 8))
    yield from (b"\xff\xfe" + good, good + good, b"[" * 500, b'{"model":' * 200, b"null", b"[]", b"7", b'"x"', b"")
    yield good.replace(b"Hi.", b"\xc3\x28")
    yield good.replace(b'"Hi."', b'"' + b"x" * 300_000 + b'"')


def _encoded(body: dict[str, Any]) -> bytes:
    return json.dumps(body).encode()


def _is_broken(reply: Refusal) -> bool:
    """An error of the server's own; 501 says that something is not offered, which is no error."""
    return reply.status == 0 or (reply.status >= 500 and reply.status != 501)


def _broken(given: tuple[Refusal, ...], bodies: tuple[bytes, ...]) -> str:
    rows = [(body, reply) for body, reply in zip(bodies, given, strict=True) if _is_broken(reply)]
    shown_rows = [
        f"{body[:_BODY_CHARACTERS].decode(errors='replace')} -> {refusal_text(reply)}" for body, reply in rows[:_SHOWN]
    ]
    return "; ".join(shown_rows)


def _times(given: tuple[Refusal, ...], status: int) -> int:
    return sum(each.status == status for each in given)


def _text(answer: Answer) -> str:
    return shown(answer.reasoning + answer.text)
