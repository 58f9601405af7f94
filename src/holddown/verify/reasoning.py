"""Models that think before they answer: the thinking apart, the answer there, the budget kept."""

import re
from dataclasses import replace

from holddown.base.evidence import known_or
from holddown.facts.answers import Answer, Refusal, Reply, Usage
from holddown.verify.claims import Claims
from holddown.verify.script import Script, ask
from holddown.verify.verdict import Verdict
from holddown.verify.verdicts import (
    PARSER,
    failed,
    inconclusive,
    not_applicable,
    passed,
    reply_text,
    shown,
)

_QUESTION = "Which is larger, 9.8 or 9.11? Answer in one sentence."
_TOKENS = 2000
_TO_SEE = 512
"""Where only asking can tell whether it thinks."""
_BUDGET = 24
_MARKS = re.compile(r"</?think(?:ing)?\b|\[/?THINK\]|<\|?channel\|?>")
"""How families of models set their thinking off.

Source: what vLLM 0.32.0 reasoning/ reads: deepseek_r1, qwen3, minimax_m2, mistral, gptoss, gemma4, ...
"""
_READ_PARSER = "compare the model card's --reasoning-parser with the one that runs"


def reasoning(claims: Claims) -> Script:
    """What it thinks stands in `reasoning`, what it answers in `content`; thinking that is cut short is not given out
    as the answer."""
    question = claims.asks(_QUESTION, _TOKENS if claims.reasoning else _TO_SEE)
    reply = yield from ask(question)
    if isinstance(reply, Refusal):
        return inconclusive("reasoning", reply_text(reply), _QUESTION)
    wrong = _mixed(reply)
    if wrong:
        return wrong
    if not reply.reasoning:
        if not claims.reasoning:
            return not_applicable("reasoning", "it gives no reasoning")
        return inconclusive("reasoning", f"it did not think this time: {reply_text(reply)}", _QUESTION)
    cut = yield from ask(replace(question, max_tokens=_BUDGET))
    wrong = _over_budget(cut)
    if wrong:
        return wrong
    if not reply.text.strip():
        return inconclusive("reasoning", f"it thought through all {question.max_tokens} tokens", _QUESTION)
    return passed("reasoning", f"reasoning {shown(reply.reasoning)}, content {shown(reply.text)}", _QUESTION)


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
            do=_READ_PARSER,
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
