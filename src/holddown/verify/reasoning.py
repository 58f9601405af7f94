"""Models that think before they answer: the thinking apart, the answer there, the budget kept."""

import re
from collections.abc import Generator
from dataclasses import replace
from typing import Any

from holddown.base.evidence import known_or
from holddown.facts.answers import Answer, Ask, Refusal, Reply, Usage
from holddown.verify.claims import Claims
from holddown.verify.script import Question, Script, ask, count
from holddown.verify.verdict import Verdict
from holddown.verify.verdicts import (
    PARSER,
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
_TO_SEE = 512
"""Where only asking can tell whether it thinks."""
_BUDGET = 24
BUDGET = "reasoning-budget"
_FORCED = 32
"""Tokens that a server may put between the budget and the end: a phrase that it was told to end the thinking with."""
_OPENING = 60
_MARKS = re.compile(r"</?think(?:ing)?\b|\[/?THINK\]|<\|?channel\|?>")
"""How families of models set their thinking off.

Source: what vLLM 0.32.0 reasoning/ reads: deepseek_r1, qwen3, minimax_m2, mistral, gptoss, gemma4, ...
"""
_READ_PARSER = "compare the model card's --reasoning-parser with the one that runs"
_NOT_THINKING = (
    "; a model that thinks only when asked to needs one that knows it: vLLM's qwen3 takes an answer without </think> "
    "for thinking, unless a request or --default-chat-template-kwargs says enable_thinking=false"
)
"""Seen on vLLM 0.25.1: a template whose enable_thinking is false unless said, and every answer of a chat was empty."""
_SAY_SO = (
    "tell the model that its time is up: a phrase before the mark in vLLM's --reasoning-config (reasoning_end_str), "
    "llama.cpp's --reasoning-budget-message"
)


def reasoning(claims: Claims) -> Script:
    """What it thinks stands in `reasoning`, what it answers in `content`; thinking that is cut short is not given out
    as the answer."""
    question, reply = yield from _thought(claims)
    if isinstance(reply, Refusal):
        return inconclusive("reasoning", reply_text(reply), _QUESTION)
    wrong = _mixed(reply)
    if wrong:
        return wrong
    if not reply.reasoning:
        return _without_thinking("reasoning", claims, reply)
    cut = yield from ask(replace(question, max_tokens=_BUDGET))
    wrong = _over_budget(cut)
    if wrong:
        return wrong
    if not reply.text.strip():
        return inconclusive("reasoning", f"it thought through all {question.max_tokens} tokens", _QUESTION)
    return passed("reasoning", f"reasoning {shown(reply.reasoning)}, content {shown(reply.text)}", _QUESTION)


def reasoning_budget(claims: Claims) -> Script:
    """It ends its thinking after half of the tokens that it takes where nothing ends it, and answers."""
    question, whole = yield from _thought(claims)
    if isinstance(whole, Refusal):
        return inconclusive(BUDGET, reply_text(whole), _QUESTION)
    if not whole.reasoning:
        return _without_thinking(BUDGET, claims, whole)
    thought = yield from _thinking_tokens(claims, whole)
    budget = thought // 2
    if budget <= _FORCED:
        return inconclusive(BUDGET, f"it thought for {thought} tokens, too few to see half of them kept", _QUESTION)
    reply = yield from ask(replace(question, thinking_budget=budget))
    if isinstance(reply, Refusal):
        if 400 <= reply.status < 500:
            return not_applicable(BUDGET, f"it refuses one: {refusal_text(reply)}")
        return inconclusive(BUDGET, refusal_text(reply), _QUESTION)
    used = yield from _thinking_tokens(claims, reply)
    seen = f"it thinks for {used} tokens with a budget of {budget}, for {thought} without"
    if used > budget + _FORCED:
        return _ignored(claims, seen)
    wrong = _spoilt(whole, reply, seen)
    if wrong:
        # forced to end, a small model may well end altogether, or think on aloud
        return claims.unless_small(wrong)
    if not reply.reasoning:
        return inconclusive(BUDGET, f"with a budget it did not think: {reply_text(reply)}", _QUESTION)
    return passed(BUDGET, f"{seen}; content {shown(reply.text)}", _QUESTION)


def _thought(claims: Claims) -> Generator[Question, Any, tuple[Ask, Reply]]:
    """What was asked, and the reply. A model that claims to think and does not is asked to: the templates of some, like
    DeepSeek-V3.1's, leave it out."""
    question = claims.asks(_QUESTION, _TOKENS if claims.reasoning else _TO_SEE)
    reply = yield from ask(question)
    if not claims.reasoning or isinstance(reply, Refusal) or reply.reasoning or _MARKS.search(reply.text):
        return question, reply
    question = replace(question, thinking=True)
    reply = yield from ask(question)
    return question, reply


def _without_thinking(check: str, claims: Claims, reply: Answer) -> Verdict:
    if not claims.reasoning:
        return not_applicable(check, "it gives no reasoning")
    return inconclusive(check, f"it did not think this time: {reply_text(reply)}", _QUESTION)


def _thinking_tokens(claims: Claims, reply: Answer) -> Generator[Question, Any, int]:
    """By the server's own tokenizer; where it has none to ask, the thinking's share of what was generated."""
    if not reply.reasoning:
        return 0
    counted = yield from count(Ask(claims.model, 1, prompt=reply.reasoning))
    if counted is not None:
        return counted
    generated = known_or(reply.usage, Usage(0, 0)).completion_tokens
    return round(generated * len(reply.reasoning) / len(reply.reasoning + reply.text))


def _ignored(claims: Claims, seen: str) -> Verdict:
    if claims.no_budget:
        return not_applicable(BUDGET, f"it keeps none, and need not: {claims.no_budget}")
    return failed(
        BUDGET,
        code="reasoning-budget.over",
        what="the model thinks on past the tokens that a request grants its thinking",
        seen=seen,
        do="see that the server looks for this model's own marks of thinking: vLLM's --reasoning-config "
        "(reasoning_start_str, reasoning_end_str), llama.cpp's and SGLang's from the chat template and the parser",
        asked=_QUESTION,
        cause=PARSER,
    )


def _spoilt(whole: Answer, reply: Answer, seen: str) -> Verdict | None:
    mark, opening = _MARKS.search(reply.text), whole.reasoning.strip()[:_OPENING]
    if mark or opening in reply.text:
        return failed(
            BUDGET,
            code="reasoning-budget.in-content",
            what="where a budget ends the thinking, thinking comes as part of the answer",
            seen=f"content has {mark[0] if mark else 'what it began its thinking with'}: {shown(reply.text)}",
            do=_SAY_SO,
            asked=_QUESTION,
            cause=PARSER,
        )
    if not reply.text.strip():
        return failed(
            BUDGET,
            code="reasoning-budget.no-content",
            what="where a budget ends the thinking, no answer follows",
            seen=f"{seen}, and then ends, finish_reason={reply.finish_reason}",
            do=_SAY_SO,
            asked=_QUESTION,
        )
    return None


def _mixed(reply: Answer) -> Verdict | None:
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
    if reply.reasoning and not reply.text.strip() and reply.finish_reason == "stop":
        return failed(
            "reasoning",
            code="reasoning.no-content",
            what="the model has thought and ended, and the answer is empty: it went into the reasoning",
            seen=f"reasoning ends {shown(reply.reasoning[-50:])}",
            do=_READ_PARSER + _NOT_THINKING,
            asked=_QUESTION,
            cause=PARSER,
        )
    return None


def _over_budget(cut: Reply) -> Verdict | None:
    if isinstance(cut, Answer) and cut.reasoning:
        used = known_or(cut.usage, Usage(0, 0)).completion_tokens
        fault = f"{used} tokens were used" if used > _BUDGET else ""
    else:
        fault = f"cut in its thinking it gives {reply_text(cut)}"
    if not fault:
        return None
    return failed(
        "reasoning",
        code="reasoning.budget",
        what=f"a budget of {_BUDGET} tokens that ends while the model thinks is not kept cleanly",
        seen=fault,
        do=_READ_PARSER,
        asked=_QUESTION,
        cause=PARSER,
    )
