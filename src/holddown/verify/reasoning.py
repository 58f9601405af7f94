"""Models that think before they answer: the thinking apart, the answer there, the budget kept."""

import re
from dataclasses import replace

from holddown.base.evidence import known_or
from holddown.facts.answers import Answer, Refusal, Usage
from holddown.verify.claims import Claims
from holddown.verify.script import Script, ask
from holddown.verify.verdicts import (
    PARSER,
    SERVER,
    failed,
    inconclusive,
    not_applicable,
    passed,
    refusal_text,
    reply_text,
    shown,
)

_QUESTION = "Which is larger, 9.8 or 9.11? Answer in one sentence."
_TOKENS = 2000
_BUDGET = 24
_MARKS = re.compile(r"</?think(?:ing)?>|\[/?THINK\]|<\|channel\|>|<\|?/?thought")
"""How families of models set their thinking off.

Source: vLLM 0.32.0 reasoning/: deepseek_r1, qwen3, mistral, gptoss, kimi_k2, minimax_m2.
"""
_READ_PARSER = "compare the model card's --reasoning-parser with the one that runs"


def reasoning(claims: Claims) -> Script:
    """What it thinks stands in `reasoning`, what it answers in `content`, and neither is the other's."""
    if claims.reasoning is False or not claims.chat:
        return not_applicable("reasoning", "no reasoning parser runs here")
    reply = yield from ask(claims.asks(_QUESTION, _TOKENS))
    if isinstance(reply, Refusal):
        return inconclusive("reasoning", refusal_text(reply), _QUESTION)
    mark = _MARKS.search(reply.text)
    if mark:
        return failed(
            "reasoning",
            code="reasoning.in-content",
            what="what the model thinks comes as part of its answer",
            seen=f"content has {mark[0]}: {shown(reply.text)}",
            do=_READ_PARSER,
            asked=_QUESTION,
            cause=PARSER,
        )
    if not reply.reasoning:
        if not claims.reasoning:
            return not_applicable("reasoning", "it gives no reasoning")
        return inconclusive("reasoning", f"it did not think this time: {reply_text(reply)}", _QUESTION)
    if not reply.text.strip():
        if reply.finish_reason == "length":
            return inconclusive("reasoning", f"it thought through all {_TOKENS} tokens", _QUESTION)
        return failed(
            "reasoning",
            code="reasoning.no-content",
            what="the model has thought and ended, and the answer is empty: it went into the reasoning",
            seen=f"reasoning ends {shown(reply.reasoning[-50:])}",
            do=_READ_PARSER,
            asked=_QUESTION,
            cause=PARSER,
        )
    return passed("reasoning", f"reasoning {shown(reply.reasoning)}, content {shown(reply.text)}", _QUESTION)


def reasoning_budget(claims: Claims) -> Script:
    """max_tokens bounds thinking and answer together; thinking that was cut is not given out as the answer."""
    if claims.reasoning is False or not claims.chat:
        return not_applicable("reasoning-budget", "no reasoning parser runs here")
    question = claims.asks(_QUESTION, _BUDGET)
    reply = yield from ask(question)
    asked = f"{_QUESTION} within {_BUDGET} tokens"
    if isinstance(reply, Refusal):
        return inconclusive("reasoning-budget", refusal_text(reply), asked)
    if not reply.reasoning:
        if not claims.reasoning:
            return not_applicable("reasoning-budget", "it gives no reasoning")
        again = yield from ask(replace(question, max_tokens=_TOKENS))
        if not (isinstance(again, Answer) and again.reasoning and reply.text):
            return inconclusive("reasoning-budget", f"it did not think this time: {reply_text(reply)}", asked)
        fault = f"cut in its thinking, it gives that as content: {shown(reply.text)}"
    else:
        used = known_or(reply.usage, Usage(0, 0)).completion_tokens
        fault = f"{used} tokens were used" if used > _BUDGET else ""
    if not fault:
        return passed("reasoning-budget", f"cut after {_BUDGET} tokens, all of it reasoning", asked)
    return failed(
        "reasoning-budget",
        code="reasoning-budget.broken",
        what="a budget of tokens that ends while the model thinks is not kept cleanly",
        seen=fault,
        do=_READ_PARSER,
        asked=asked,
        cause=PARSER if not reply.reasoning else SERVER,
    )
