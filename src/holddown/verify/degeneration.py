"""A long answer, looked at piece by piece: does it run into a loop, into another script, into noise?"""

import math
from dataclasses import dataclass, replace

from holddown.base.evidence import known_or
from holddown.facts.answers import Answer, Refusal, TokenLogprob
from holddown.verify.claims import Claims
from holddown.verify.coherence import ANSWER_SHARE, FOREIGN_SHARE, foreign_share, mean_logprob, repeated_share
from holddown.verify.script import Script, ask
from holddown.verify.verdicts import failed, inconclusive, passed, refusal_text

TOKENS = 2000
_FIRST_TOKENS = 64
_PATIENCE_S = 120.0
_WINDOW = 200
_FEWEST = 2 * _WINDOW
_SPARE_TOKENS = 64
_LOOP_SHARE = 0.7
"""Of a window's 3-grams that were there before in it. Measured on a sound SmolLM2-135M at temperature 0.8: at most 0.06
in 643 tokens on vLLM 0.32.0, and 0.66 in 1,002 on llama.cpp b11434: so small a model begins to repeat its sentences. A
loop of a few words is above 0.9."""
_USUAL_VOCAB_SIZE = 32_000
_QUESTION = "Write a long story about a lighthouse keeper, with many chapters. Do not stop early."


@dataclass(frozen=True, slots=True)
class Window:
    """Tokens from `start` on."""

    start: int
    repeated: float
    foreign: float
    mean: float | None


def windows(text: str, tokens: tuple[TokenLogprob, ...]) -> tuple[Window, ...]:
    """By token where they are given, else by word."""
    pieces = [token.token for token in tokens] or text.split()
    starts = range(0, max(len(pieces) - _WINDOW // 2, 1), _WINDOW)
    return tuple(
        Window(
            start,
            repeated_share(pieces[start : start + _WINDOW]),
            foreign_share("".join(pieces[start : start + _WINDOW])),
            mean_logprob(tokens[start : start + _WINDOW]),
        )
        for start in starts
    )


def fault(window: Window, guessing: float) -> str:
    """What is wrong with it; empty for nothing. guessing: nats per token of guessing evenly."""
    if window.mean is not None and not window.mean >= guessing * ANSWER_SHARE:
        return f"from token {window.start} it is unsure of its own words ({window.mean:.1f} nats/token)"
    if window.repeated > _LOOP_SHARE:
        return f"from token {window.start} it goes round in a circle ({window.repeated:.0%} of 3-grams again)"
    if window.foreign > FOREIGN_SHARE:
        return f"from token {window.start} it writes another script ({window.foreign:.0%} of the letters)"
    return ""


def degeneration(claims: Claims) -> Script:
    """2,000 tokens: no loop, no other script, no collapse of its log-probabilities."""
    question = replace(claims.asks(_QUESTION, _FIRST_TOKENS), temperature=0.8, seed=7, logprobs=1)
    first = yield from ask(question)
    if isinstance(first, Refusal):
        return inconclusive("degeneration", refusal_text(first), _QUESTION)
    tokens, why = _affordable(claims, first)
    asked = f"{_QUESTION} At temperature 0.8, {tokens} tokens{why}"
    reply = yield from ask(replace(question, max_tokens=tokens))
    if isinstance(reply, Refusal):
        return inconclusive("degeneration", refusal_text(reply), asked)
    text = reply.reasoning + reply.text
    seen = windows(text, reply.logprobs)
    guessing = -math.log(known_or(claims.vocab_size, _USUAL_VOCAB_SIZE))
    faults = [wrong for window in seen if (wrong := fault(window, guessing))]
    length = len(reply.logprobs) or len(text.split())
    if faults:
        return claims.unless_small(
            failed(
                "degeneration",
                code="degeneration.failed",
                what=f"within {length} tokens the answer degenerates",
                seen=f"{faults[0]}; the text ends {text[-80:]!r}",
                do="try --set kv-cache-dtype=auto, then --set enforce-eager=true, then without speculative decoding; "
                "verify --against a reference says whether its log-probabilities moved",
                asked=asked,
                cause="the KV cache's dtype, a kernel at this length, or speculative decoding",
            )
        )
    if length < _FEWEST:
        return inconclusive("degeneration", f"the answer ended after {length} tokens, sound so far", asked)
    worst = max(window.repeated for window in seen)
    return passed("degeneration", f"{length} tokens sound; at most {worst:.0%} of 3-grams come again", asked)


def _affordable(claims: Claims, first: Answer) -> tuple[int, str]:
    """How many tokens are asked for, and why not 2,000."""
    room = known_or(claims.context, TOKENS + _SPARE_TOKENS) - 2 * _SPARE_TOKENS
    rate = max(len(first.logprobs), 1) / max(first.ended_at - first.sent_at, 1e-3)
    in_time = int(rate * _PATIENCE_S)
    tokens = max(min(TOKENS, room, in_time), _FIRST_TOKENS)
    if tokens == TOKENS:
        return tokens, ""
    return tokens, " (the context has no more)" if room <= in_time else f" ({TOKENS} would take {TOKENS / rate:.0f} s)"
