"""Answers in, verdicts out. Coherence is in `coherence`."""

import math
import re

from holddown.base.evidence import Unknown
from holddown.base.finding import Finding, Severity
from holddown.facts.answers import Answer, Refusal, Reply, TokenLogprob
from holddown.verify.expect import FirstToken, MaxTokens, StopSequence, Streaming, UsageCounts, WrongModel
from holddown.verify.verdict import Verdict
from holddown.verify.verdicts import PARSER, SERVER, failed, inconclusive, passed, refusal_text, shown, top_text

NEAR_TIE_NATS = 0.25
"""Closer than this, two kernels of one engine may choose differently and both be right.

Source: bfloat16 has 8 significant bits, so logits between 16 and 32 are 0.125 apart; two such steps. Seen: "What is the
capital of France?" to SmolLM2 begins with "The" or with "L" at equal probability; the second prefill of a question may
have another shape than the first, since the prefix cache has served a part of it.
"""
_STOP_WORDS_BEFORE = 2
_CUT_FROM, _CUT_TO = 3, 7


def first_token(reply: Reply) -> Verdict:
    """Any answer will do: it shows that the model can run at all, which /health does not."""
    if isinstance(reply, Refusal):
        return failed(
            FirstToken.name,
            code="first-token.refused",
            what="the engine says that it is healthy, but cannot produce one token",
            seen=refusal_text(reply),
            do="holddown diagnose NAME    looks for the cause in the engine's log",
        )
    return passed(FirstToken.name, top_text(reply.logprobs) or f"answered {shown(reply.text)}")


def streaming(whole: Reply, streamed: Reply) -> Verdict:
    """The same text either way at temperature 0, except where two tokens were as good as equal."""
    if isinstance(whole, Refusal):
        return _refused(Streaming.name, whole)
    if isinstance(streamed, Refusal):
        return _refused(Streaming.name, streamed)
    one, other = _said(whole), _said(streamed)
    if one == other:
        return passed(Streaming.name, f"equal, {len(streamed.arrivals)} deltas")
    seen = f"whole {_from_difference(one, other)}, streamed {_from_difference(other, one)}"
    gap = _gap_at_difference(whole, streamed)
    if gap is not None and gap < NEAR_TIE_NATS:
        note = Finding(
            code="streaming.near-tie",
            severity=Severity.NOTE,
            subject="streaming",
            what=f"the streamed answer went another way at two tokens only {gap:.2f} nats apart; kernels may round so",
            seen=seen,
        )
        return passed(Streaming.name, f"differs at a near-tie of {gap:.2f} nats", findings=(note,))
    return failed(
        Streaming.name,
        code="streaming.differs",
        what="at temperature 0 the streamed answer is not the answer given whole",
        seen=seen if gap is None else f"{seen}; the tokens there are {gap:.2f} nats apart, too far for rounding",
        do="clients that stream would read another text; look for a reasoning or tool parser that does not fit this "
        "model, or release without: --skip-check streaming",
        cause=PARSER,
    )


def usage(whole: Reply, tokenizer_count: int | None) -> Verdict:
    """tokenizer_count: what the engine's tokenizer makes of the same prompt; None where it cannot be asked."""
    if isinstance(whole, Refusal):
        return _refused(UsageCounts.name, whole)
    if isinstance(whole.usage, Unknown):
        return _usage_failed("the answer does not say how many tokens it took", whole.usage.why)
    prompt, completion = whole.usage.value.prompt_tokens, whole.usage.value.completion_tokens
    if tokenizer_count is not None and prompt != tokenizer_count:
        return _usage_failed(
            f"usage says {prompt} prompt tokens; the engine's own tokenizer makes {tokenizer_count} of that prompt",
            f"prompt_tokens={prompt}, POST /tokenize count={tokenizer_count}",
        )
    given = len(whole.logprobs)
    # the token that ends an answer is counted, but not every engine gives a log-probability for it
    allowed = {given, given + 1} if whole.finish_reason == "stop" else {given}
    if given and completion not in allowed:
        return _usage_failed(
            f"usage says {completion} completion tokens; the answer has {given}",
            f"completion_tokens={completion}, {given} log-probabilities, finish_reason={whole.finish_reason}",
        )
    against = "" if tokenizer_count is not None else "; the prompt's count is unchecked: the engine has no /tokenize"
    return passed(UsageCounts.name, f"{prompt} prompt + {completion} completion tokens{against}")


def stop_from(reply: Reply) -> str | None:
    """A piece of an answer just seen, early in it, that must therefore come again; None where there is none to cut."""
    if isinstance(reply, Refusal):
        return None
    said = _said(reply)
    # with the white space before it, as it stands in the text: within a word it might come earlier by chance
    words = re.findall(r"\s\S+", said)
    if words:
        return str(words[min(_STOP_WORDS_BEFORE, len(words)) - 1])
    # random weights, or a language that writes no spaces
    return said[_CUT_FROM:_CUT_TO] if len(said) > 2 * _CUT_TO else None


def stop_sequence(stop: str | None, first: Reply, reply: Reply) -> Verdict:
    """first: the answer that `stop` was taken from. reply: the same question asked with it."""
    if isinstance(first, Refusal):
        return _refused(StopSequence.name, first)
    if isinstance(reply, Refusal):
        return _refused(StopSequence.name, reply)
    whole, cut = _said(first), _said(reply)
    if stop is None:
        return inconclusive(StopSequence.name, f"no stop sequence can be taken from {shown(whole)}")
    seen = f"stop={stop!r} gave {shown(cut)}, finish_reason={reply.finish_reason}"
    expected = whole.split(stop, 1)[0]
    if cut.strip() == expected.strip() and reply.finish_reason == "stop":
        return passed(StopSequence.name, seen)
    if stop not in cut and not cut.startswith(expected):
        # it took another way at a near-tie and may never have come to the stop sequence: nothing is shown either way
        return inconclusive(StopSequence.name, f"{seen}: the answer went another way this time")
    return failed(
        StopSequence.name,
        code="stop.ignored",
        what="a stop sequence does not stop the answer",
        seen=f"{seen}; without it {shown(whole)}",
        do="agents rely on it; try another engine version, or release without: --skip-check stop",
        cause=SERVER,
    )


def max_tokens(asked: int, reply: Reply) -> Verdict:
    """Exactly so many tokens, and said to be cut."""
    if isinstance(reply, Refusal):
        return _refused(MaxTokens.name, reply)
    if isinstance(reply.usage, Unknown):
        return _usage_failed("the answer does not say how many tokens it took", reply.usage.why, MaxTokens.name)
    given = reply.usage.value.completion_tokens
    seen = f"max_tokens={asked} gave {given} tokens, finish_reason={reply.finish_reason}"
    if given == asked and reply.finish_reason == "length":
        return passed(MaxTokens.name, seen)
    if given <= asked and reply.finish_reason == "stop":
        return inconclusive(MaxTokens.name, f"{seen}: the model ended by itself")
    return failed(
        MaxTokens.name,
        code="max-tokens.ignored",
        what=f"{asked} tokens were asked for at most, and the answer does not keep to it or does not say so",
        seen=seen,
        do="costs cannot be bounded so; try another engine version, or release without: --skip-check max-tokens",
        cause=SERVER,
    )


def wrong_model(reply: Reply) -> Verdict:
    """A client that asks for another model must be told, not answered by this one."""
    if isinstance(reply, Refusal) and 400 <= reply.status < 500:
        return passed(WrongModel.name, f"refused with {reply.status}")
    seen = f"answered {shown(reply.text)}" if isinstance(reply, Answer) else refusal_text(reply)
    return failed(
        WrongModel.name,
        code="wrong-model.answered",
        what="a request for a model that is not served here is not refused with a 4xx",
        seen=seen,
        do="if that is meant: --skip-check wrong-model",
        cause=SERVER,
    )


def _said(answer: Answer) -> str:
    """All that was generated: a reasoning model may come no further than its reasoning in the tokens we grant."""
    return answer.reasoning + answer.text


def _refused(check: str, refusal: Refusal) -> Verdict:
    return failed(
        check,
        code=f"{check}.refused",
        what="the endpoint does not answer an ordinary request",
        seen=refusal_text(refusal),
        do="holddown diagnose NAME    looks for the cause in the engine's log",
    )


def _usage_failed(what: str, seen: str, check: str = UsageCounts.name) -> Verdict:
    return failed(
        check,
        code="usage.wrong",
        what=what,
        seen=seen,
        do=f"bills and measurements rest on these counts; if that is accepted: --skip-check {check}",
        cause=SERVER,
    )


def _from_difference(text: str, other: str) -> str:
    """The text from a little before the first character in which it differs from the other."""
    at = next((i for i, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), min(len(text), len(other)))
    start = max(0, at - 20)
    return ("..." if start else "") + shown(text[start:])


def _gap_at_difference(whole: Answer, streamed: Answer) -> float | None:
    """How many nats apart the two best tokens were where the answers part; None where that cannot be known.

    Tokens are compared, not characters: where all tokens are equal and the text is not, the fault lies in putting the
    text together, and no near-tie excuses it.
    """
    ours, theirs = whole.logprobs, streamed.logprobs
    if not ours or not theirs:
        return _gap_at_character(whole, streamed)
    for one, other in zip(ours, theirs, strict=False):
        if one.token != other.token:
            return _gap(one)
    if len(ours) == len(theirs):
        return None
    # one of them ended where the other went on
    longer = max(ours, theirs, key=len)
    return _gap(longer[min(len(ours), len(theirs))])


def _gap_at_character(whole: Answer, streamed: Answer) -> float | None:
    """For endpoints whose stream has no log-probabilities: the token of the whole answer where the texts part."""
    same = 0
    for one, other in zip(whole.text, streamed.text, strict=False):
        if one != other:
            break
        same += 1
    end = 0
    for entry in whole.logprobs:
        end += len(entry.token)
        if end > same:
            return _gap(entry)
    return None


def _gap(entry: TokenLogprob) -> float | None:
    if len(entry.top) < 2:
        return None
    gap = entry.top[0][1] - entry.top[1][1]
    return None if math.isnan(gap) else gap
