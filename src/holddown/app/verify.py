"""Asks a deployment what its checks need, and hands the answers to the judges."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import assert_never

from holddown.app.play import play
from holddown.base.finding import Finding, Severity
from holddown.facts.answers import Ask, Refusal, Reply
from holddown.ports import Client
from holddown.verify import coherence, judge
from holddown.verify.expect import (
    STOP_TOKENS,
    Check,
    Coherence,
    FirstToken,
    MaxTokens,
    StopSequence,
    Streaming,
    UsageCounts,
    WrongModel,
)
from holddown.verify.script import Scripted
from holddown.verify.verdict import Outcome, Verdict


def verify(
    client: Client,
    checks: Sequence[Check | Scripted],
    skip: frozenset[str],
    say: Callable[[Verdict], None],
    sleep: Callable[[float], None] | None = None,
    begins: Callable[[str], None] = lambda name: None,
) -> tuple[Verdict, ...]:
    """One verdict per check, each said as soon as it is known.

    When the first token does not come, or the engine dies on the way, the rest is not run: those verdicts are SKIPPED
    with "not run", and are not said. skip: names of checks that the user does not want. sleep: for scripts that wait.
    begins: hears the name of a check that takes its time.
    """
    asked = _Asked(client)
    verdicts: list[Verdict] = []
    for position, check in enumerate(checks):
        if check.name in skip:
            verdict = _skipped(check)
        elif isinstance(check, Scripted):
            if check.slow:
                begins(check.name)
            verdict = play(check.script(), client, sleep or _never)
        else:
            verdict = replace(_run(check, asked), asked=_question(check))
        verdicts.append(verdict)
        say(verdict)
        gone = _gone(client) if isinstance(check, Scripted) else asked.engine_is_gone()
        if verdict.outcome is Outcome.FAILED and (isinstance(check, FirstToken) or gone):
            why = f"not run: {check.name} failed" + (" and the engine answers no more" if _gone(client) else "")
            verdicts += [Verdict(rest.name, Outcome.SKIPPED, why) for rest in checks[position + 1 :]]
            break
    return tuple(verdicts)


@dataclass(slots=True)
class _Asked:
    """Asks every question once: checks share answers, since tokens are slow on a small machine."""

    client: Client
    _wholes: dict[Ask, Reply] = field(default_factory=dict)
    _streams: dict[Ask, Reply] = field(default_factory=dict)

    def whole(self, ask: Ask) -> Reply:
        if ask not in self._wholes:
            self._wholes[ask] = self.client.ask(ask)
        return self._wholes[ask]

    def wholes(self, asks: Sequence[Ask]) -> list[Reply]:
        """Several at once: an engine computes a batch in little more time than one answer."""
        with ThreadPoolExecutor(max(1, len(asks))) as pool:
            return list(pool.map(self.whole, asks))

    def stream(self, ask: Ask) -> Reply:
        if ask not in self._streams:
            self._streams[ask] = self.client.stream(ask)
        return self._streams[ask]

    def engine_is_gone(self) -> bool:
        """A failure of the engine's own was seen, and it is not healthy any more."""
        replies = (*self._wholes.values(), *self._streams.values())
        broke = any(isinstance(reply, Refusal) and (not reply.status or reply.status >= 500) for reply in replies)
        return broke and _gone(self.client)


def _gone(client: Client) -> bool:
    """Not every server that is well has a /health."""
    return not client.healthy() and isinstance(client.served(), Refusal)


def _run(check: Check, asked: _Asked) -> Verdict:
    match check:
        case FirstToken():
            return judge.first_token(asked.whole(check.ask))
        case Coherence():
            return coherence.judge(
                asked.whole(check.next_token),
                asked.wholes(check.sentences),
                asked.wholes(check.answers),
                check.vocab_size,
            )
        case Streaming():
            return judge.streaming(asked.whole(check.ask), asked.stream(check.ask))
        case UsageCounts():
            return judge.usage(asked.whole(check.ask), asked.client.prompt_tokens(check.ask))
        case StopSequence():
            first = asked.whole(check.ask)
            stop = judge.stop_from(first)
            if stop is None:
                return judge.stop_sequence(None, first, first)
            return judge.stop_sequence(
                stop, first, asked.whole(replace(check.ask, stop=(stop,), max_tokens=STOP_TOKENS))
            )
        case MaxTokens():
            return judge.max_tokens(check.ask.max_tokens, asked.whole(check.ask))
        case WrongModel():
            return judge.wrong_model(asked.whole(check.ask))
        case _:
            assert_never(check)


def _question(check: Check) -> str:
    """What it asks, for the reader; the first where it asks several."""
    ask = check.next_token if isinstance(check, Coherence) else check.ask
    text = ask.messages[0].content if ask.messages else ask.prompt
    return f"{text!r} of {ask.model}, at most {ask.max_tokens} tokens"


def _never(seconds: float) -> None:
    raise ValueError(f"a script waits {seconds} s, and was given no way to")


def _skipped(check: Check | Scripted) -> Verdict:
    note = Finding(
        code=f"{check.name}.skipped",
        severity=Severity.NOTE,
        subject=check.name,
        what=f"{check.name} is unverified: it was skipped on request",
        seen=f"--skip-check {check.name}",
    )
    return Verdict(check.name, Outcome.SKIPPED, "skipped on request", (note,))
