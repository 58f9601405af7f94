"""seed, logprobs, n: what a client sets for one request is what that request gets."""

from dataclasses import replace
from itertools import combinations

from holddown.facts.answers import Answer, Refusal
from holddown.verify.claims import Claims
from holddown.verify.script import Script, ask, ask_all
from holddown.verify.verdicts import (
    SCHEDULER,
    SERVER,
    failed,
    inconclusive,
    not_applicable,
    passed,
    refusal_text,
    shown,
)

_QUESTION = "Tell me something about the sea."
_TOKENS = 16
_TIMES = 3
_TOP = 5
_ROUNDING_NATS = 0.01


def seed(claims: Claims) -> Script:
    """The same seed gives the same answer at temperature 1, another seed another answer."""
    question = replace(claims.asks(_QUESTION, _TOKENS), temperature=1.0, seed=1)
    # one after the other: in one batch the same rounding would make even unseeded answers more alike
    same = []
    for _ in range(_TIMES):
        same.append((yield from ask(question)))
    others = yield from ask_all(tuple(replace(question, seed=number) for number in (2, 3, 4)))
    asked = f"{shown(_QUESTION)} at temperature 1, {_TIMES} times with seed 1, once with 2, 3 and 4"
    for reply in (*same, *others):
        if isinstance(reply, Refusal):
            return not_applicable("seed", f"a seed is not taken: {refusal_text(reply)}")
    texts = [reply.reasoning + reply.text for reply in same if isinstance(reply, Answer)]
    further = {reply.reasoning + reply.text for reply in others if isinstance(reply, Answer)}
    seen = f"seed 1 gave {shown(texts[0])}, then {shown(texts[1])}"
    # a pair suffices: the first prefill may round otherwise than those that the prefix cache served
    if not any(one == other for one, other in combinations(texts, 2)):
        return failed(
            "seed",
            code="seed.ignored",
            what=f"the same seed gave {_TIMES} different answers",
            seen=seen,
            do="tests and evaluations that rest on a seed cannot be repeated here; another engine version may do it",
            asked=asked,
            cause=SCHEDULER,
        )
    if further == {texts[0]}:
        return inconclusive("seed", f"{seen}; other seeds gave the same, so nothing was sampled", asked)
    return passed("seed", f"{seen}; other seeds gave {len(further - set(texts))} others", asked)


def logprobs(claims: Claims) -> Script:
    """As many as tokens, the best first, none above 0, and at temperature 0 the chosen token is the best."""
    question = replace(claims.asks(_QUESTION, _TOKENS), logprobs=_TOP)
    reply = yield from ask(question)
    asked = f"{shown(_QUESTION)} with the {_TOP} best log-probabilities per token"
    if isinstance(reply, Refusal):
        return not_applicable("logprobs", f"none are given: {refusal_text(reply)}")
    if not reply.logprobs:
        return not_applicable("logprobs", "asked for, and none came")
    faults = []
    for number, token in enumerate(reply.logprobs):
        values = [value for _, value in token.top]
        if not all(value <= _ROUNDING_NATS for value in (token.logprob, *values)):
            faults.append(f"token {number} {token.token!r} has {token.logprob}")
        elif len(values) < _TOP:
            faults.append(f"token {number} {token.token!r} has {len(values)} candidates")
        elif token.logprob < values[0] - _ROUNDING_NATS:
            faults.append(f"token {number} {token.token!r} at {token.logprob:.2f}, the best is {values[0]:.2f}")
    if faults:
        return failed(
            "logprobs",
            code="logprobs.wrong",
            what=f"{len(faults)} of {len(reply.logprobs)} tokens have log-probabilities that cannot be",
            seen=faults[0],
            do="evaluations rest on them; look for a sampler setting that is applied before they are taken",
            asked=asked,
            cause=SERVER,
        )
    return passed("logprobs", f"{len(reply.logprobs)} tokens, {_TOP} candidates each, the best first", asked)


def n_answers(claims: Claims) -> Script:
    """n=2 gives two answers."""
    reply = yield from ask(replace(claims.asks(_QUESTION, _TOKENS), n=2, temperature=1.0))
    asked = f"{shown(_QUESTION)} with n=2"
    if isinstance(reply, Refusal):
        return not_applicable("n", f"more than one answer is not given: {refusal_text(reply)}")
    if len(reply.others) == 1:
        return passed("n", f"{shown(reply.text)} and {shown(reply.others[0])}", asked)
    return failed(
        "n",
        code="n.ignored",
        what=f"2 answers were asked for, and {1 + len(reply.others)} came",
        seen=shown(reply.text),
        do="ask as often as answers are needed; another engine version may do it",
        asked=asked,
        cause=SERVER,
    )
