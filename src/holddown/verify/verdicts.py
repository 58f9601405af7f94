"""Verdicts made, and what they show of an answer."""

from collections.abc import Sequence
from dataclasses import replace

from holddown.base.finding import Finding, Severity
from holddown.facts.answers import Refusal, Reply, TokenLogprob
from holddown.verify.verdict import Outcome, Verdict

PARSER = "the tool or reasoning parser: it is not that of this model, or does not know its newest form"
TEMPLATE = "the chat template: it is not that of this model, or has no place for this"
SCHEDULER = "the engine's scheduler: requests share what each should have to itself"
SERVER = "the engine's HTTP server"

_SHOWN_CHARACTERS = 60


def passed(check: str, seen: str, asked: str = "", findings: tuple[Finding, ...] = ()) -> Verdict:
    return Verdict(check, Outcome.PASSED, seen, findings, asked)


def failed(check: str, *, code: str, what: str, seen: str, do: str, asked: str = "", cause: str = "") -> Verdict:
    """A verdict that forbids the release, with the finding that says why."""
    finding = Finding(code, Severity.BLOCK, check, what, seen, do)
    return Verdict(check, Outcome.FAILED, seen, (finding,), asked, cause)


def inconclusive(check: str, seen: str, asked: str = "") -> Verdict:
    return Verdict(check, Outcome.INCONCLUSIVE, seen, (), asked)


def not_applicable(check: str, why: str) -> Verdict:
    return Verdict(check, Outcome.NOT_APPLICABLE, why)


def excused(verdict: Verdict, why: str) -> Verdict:
    """A failure that may be the model's own: it then shows nothing about the server."""
    return replace(verdict, outcome=Outcome.INCONCLUSIVE, seen=f"{verdict.seen}; {why}", findings=(), cause="")


def refusal_text(refusal: Refusal) -> str:
    return f"HTTP {refusal.status}: {refusal.message}" if refusal.status else refusal.message


def shown(text: str) -> str:
    """The beginning of a text, quoted."""
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "...")


def top_text(logprobs: Sequence[TokenLogprob]) -> str:
    """The candidates for the first token: `" Paris" -0.25, " a" -2.10`. Empty where none were given."""
    if not logprobs:
        return ""
    return ", ".join(f"{token!r} {logprob:.2f}" for token, logprob in logprobs[0].top[:3])


def reply_text(reply: Reply) -> str:
    """What came, for the reader: a call, a text, or a refusal."""
    if isinstance(reply, Refusal):
        return refusal_text(reply)
    calls = ", ".join(f"{call.name}({call.arguments})" for call in reply.tool_calls)
    return f"{calls or shown(reply.text)}, finish_reason={reply.finish_reason}"
