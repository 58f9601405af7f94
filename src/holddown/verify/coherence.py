"""Does it speak? Judged on log-probabilities and on degeneration over several answers, never on one exact string.

A sound small model may go astray in one greedy answer, and two kernels may take different ways at a near-tie; but no
sound model finds plain English as surprising as random weights do, and none stutters in most of its answers.

Two kinds of evidence:

sentences  the model's mean log-probability per token of plain sentences of ours (`echo`)
answers    what it says itself: how sure it is of its own greedy tokens, repetition, character runs, foreign script

Thresholds are fractions of ln(vocab_size), the surprise of guessing evenly, so that they hold for 32 thousand and for
256 thousand tokens alike. The figures they were set from are with each of them.
"""

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from holddown.base.evidence import Fact, Known, known_or
from holddown.base.finding import Finding, Severity
from holddown.facts.answers import Answer, Refusal, Reply, TokenLogprob
from holddown.verify.expect import Coherence
from holddown.verify.verdict import Verdict
from holddown.verify.verdicts import failed, passed, refusal_text, shown, top_text

SENTENCE_SHARE = 0.5
"""Measured on vLLM 0.32, CPU, bfloat16 (vocabulary 49152, guessing -10.8, so the limit is -5.4 nats per token):
SmolLM2-135M-Instruct, a very small sound model, -2.1 to -2.8; random weights of the same shape -10.7 to -10.9. The same
SmolLM2 with the rows of its Q and K projections permuted is at -3.1: damage as mild as that cannot be told from a
weaker model without a reference, and passes."""
ANSWER_SHARE = 0.4
"""Limit -4.3 there. SmolLM2 is at -0.2 to -1.2 in its own answers, random weights at -8.7 to -8.8."""
REPEATED_SHARE = 0.6
"""SmolLM2 has 0.00 in chat, and 0.69 in one continuation in six ("She loved to play in the sun." four times in 28
tokens): hence a limit above a half, short answers, and the majority. Random weights: 0.96."""
RUN_SHARE = 0.5
"""SmolLM2: 0.01 to 0.03. Known breakage prints `!!!!!!!!`."""
FOREIGN_SHARE = 0.5
"""SmolLM2: 0.00, though it may begin in French what it was asked in English: Latin letters, so not this fault."""
_NGRAM = 3
_FEW_TOKENS = 8
_USUAL_VOCAB_SIZE = 32_000


@dataclass(frozen=True, slots=True)
class Speech:
    """One answer's figures. mean_logprob: nats per token of what it chose itself; None where none were given."""

    text: str
    tokens: int
    mean_logprob: float | None
    repeated_share: float
    run_share: float
    foreign_share: float


def mean_logprob(tokens: Sequence[TokenLogprob]) -> float | None:
    """Nats per token; NaN where the model gave NaN."""
    return fmean(token.logprob for token in tokens) if tokens else None


def repeated_share(pieces: Sequence[str]) -> float:
    """Which share of the 3-grams was there before. 0 for prose, towards 1 for a stutter."""
    grams = [tuple(pieces[i : i + _NGRAM]) for i in range(len(pieces) - _NGRAM + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


def longest_run_share(text: str) -> float:
    """Which share of the text its longest run of one character is: `!!!!!!!!` is 1."""
    longest = run = 0
    previous = ""
    for character in text:
        run = run + 1 if character == previous else 1
        longest = max(longest, run)
        previous = character
    return longest / len(text) if text else 0.0


def foreign_share(text: str) -> float:
    """Which share of the letters is not Latin, in an answer to an English question."""
    letters = [character for character in text if character.isalpha()]
    foreign = [letter for letter in letters if not unicodedata.name(letter, "").startswith("LATIN")]
    return len(foreign) / len(letters) if letters else 0.0


def speech(answer: Answer) -> Speech:
    """Reasoning counts as speech: a reasoning model may think through all the tokens that we grant it."""
    text = answer.reasoning + answer.text
    pieces = [token.token for token in answer.logprobs] or text.split()
    return Speech(
        text=text,
        tokens=len(pieces),
        mean_logprob=mean_logprob(answer.logprobs),
        repeated_share=repeated_share(pieces),
        run_share=longest_run_share(text) if len(text) >= _FEW_TOKENS else 0.0,
        foreign_share=foreign_share(text),
    )


def faults(said: Speech, guessing: float) -> tuple[str, ...]:
    """What is wrong with one answer; nothing when it is sound. guessing: nats per token of guessing evenly."""
    found = []
    if not said.text.strip():
        found.append("says nothing")
    if said.mean_logprob is not None and not said.mean_logprob >= guessing * ANSWER_SHARE:
        found.append(f"unsure of its own words ({said.mean_logprob:.1f} nats/token)")
    if said.tokens >= _FEW_TOKENS and said.repeated_share > REPEATED_SHARE:
        found.append(f"repeats itself ({said.repeated_share:.0%} of 3-grams)")
    if said.run_share > RUN_SHARE:
        found.append(f"one character over and over ({said.run_share:.0%} of the text)")
    if said.foreign_share > FOREIGN_SHARE:
        found.append(f"another script ({said.foreign_share:.0%} of the letters)")
    return tuple(found)


def judge(next_token: Reply, sentences: Sequence[Reply], answers: Sequence[Reply], vocab_size: Fact[int]) -> Verdict:
    """PASSED when the sentences are no surprise and most answers are sound; either alone decides where the other is
    not to be had."""
    guessing = -math.log(known_or(vocab_size, _USUAL_VOCAB_SIZE))
    heard = [speech(reply) for reply in answers if isinstance(reply, Answer)]
    echoed = [mean for reply in sentences if (mean := _sentence_mean(reply)) is not None]
    if not heard:
        return _nothing_heard(answers)
    unsound = [said for said in heard if faults(said, guessing)]
    sentences_bad = bool(echoed) and not median(echoed) >= guessing * SENTENCE_SHARE
    answers_bad = 2 * len(unsound) > len(heard)
    seen = "; ".join(
        part
        for part in (
            _sentences_text(echoed, guessing, known=isinstance(vocab_size, Known)),
            f"{len(heard) - len(unsound)} of {len(heard)} answers sound",
            *(f"{shown(said.text)} {', '.join(faults(said, guessing))}" for said in unsound[:1]),
            _next_token_text(next_token),
        )
        if part
    )
    if sentences_bad or answers_bad:
        return failed(
            Coherence.name,
            code="coherence.failed",
            what="what it says is not language: the weights are random, damaged, or computed wrongly",
            seen=seen,
            do="with random weights: --skip-check coherence; else compare with --set dtype=bfloat16 "
            "--set kv-cache-dtype=auto --set enforce-eager=true, or another engine version",
            cause="the weights (random, damaged, wrongly sharded), the KV cache's dtype, or an attention kernel",
        )
    return passed(Coherence.name, seen, findings=_without_echo(sentences) if not echoed else ())


def _sentence_mean(reply: Reply) -> float | None:
    """Of the echoed prompt alone: the tokens that the engine had to add to answer at all are left out."""
    if isinstance(reply, Refusal):
        return None
    added = reply.usage.value.completion_tokens if isinstance(reply.usage, Known) else 1
    echoed = reply.logprobs[: len(reply.logprobs) - added]
    return mean_logprob(echoed) if len(echoed) >= _NGRAM else None


def _sentences_text(echoed: Sequence[float], guessing: float, *, known: bool) -> str:
    if not echoed:
        return "sentences could not be echoed"
    limit = guessing * SENTENCE_SHARE
    size = "" if known else f", taking {_USUAL_VOCAB_SIZE} tokens for the unknown vocabulary"
    return f"sentences {median(echoed):.1f} nats/token (limit {limit:.1f}, guessing {guessing:.1f}{size})"


def _next_token_text(reply: Reply) -> str:
    """For the reader: a sound model has " Paris" among these."""
    if isinstance(reply, Refusal) or not reply.logprobs:
        return ""
    return f'"The capital of France is" -> {top_text(reply.logprobs)}'


def _nothing_heard(answers: Sequence[Reply]) -> Verdict:
    refusal = next((reply for reply in answers if isinstance(reply, Refusal)), None)
    return failed(
        Coherence.name,
        code="coherence.refused",
        what="the endpoint answers none of the questions",
        seen=refusal_text(refusal) if refusal else "nothing was asked",
        do="holddown diagnose NAME    looks for the cause in the engine's log",
    )


def _without_echo(sentences: Sequence[Reply]) -> tuple[Finding, ...]:
    refusal = next((reply for reply in sentences if isinstance(reply, Refusal)), None)
    return (
        Finding(
            code="coherence.no-echo",
            severity=Severity.NOTE,
            subject=Coherence.name,
            what="the engine gives no log-probabilities of a prompt; coherence was judged on its answers alone",
            seen=refusal_text(refusal) if refusal else "echo was asked for and not given",
        ),
    )
