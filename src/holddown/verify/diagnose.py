"""Why an engine ended, from its log and its exit. Wrong is worse than unknown: what is not sure says so.

vLLM prints the cause first, then what it led to in every process above: a worker's exception, the engine core's, and
last "Engine core initialization failed. See root cause above". The last line of a log is therefore the least telling.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from holddown.base.finding import Finding, Severity
from holddown.verify.failures import FAILURES, HINT, NAMED

_SUBJECT = "engine"
_SHOWN_CHARACTERS = 400
_LAST_LINES = 3
_SIGNALS = {
    4: "an illegal instruction: this build uses CPU instructions that this machine lacks",
    6: "an abort: the engine or a library of it gave up by itself",
    7: "a bus error: most often /dev/shm is full or too small",
    8: "an arithmetic error in compiled code",
    11: "a segmentation fault in compiled code",
}
_SIGKILL, _SIGTERM = 9, 15

# vLLM's, or SGLang's `[2026-05-04 10:00:00 TP0] `, which has no level; its scheduler's exception begins on such a line
_PREFIX = re.compile(
    r"^(?:\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^\]]*\] ?)?"
    r"(?:\((?P<process>[\w.-]+(?: pid=\d+)?)\) ?)?"
    r"(?:(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]*\] ?)?"
)
_QUIET = {"DEBUG", "INFO", "WARNING"}
_QUOTED_OR_ACCESS = re.compile(r"^(?:    |  File |(?:INFO|WARNING): )")
_ACCESS = re.compile(r'^INFO: +\S+ - "')
_EXCEPTION = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit|Timeout|Died)\b(?:: .*)?$")
# they tell of an exception elsewhere, or of the end that it led to
_CONSEQUENCES = re.compile(
    r"See root cause above|EngineDeadError|Worker failed with error|Executor failed|^KeyboardInterrupt|^SystemExit"
    r"|CancelledError|EngineCore encountered an issue|died unexpectedly"
)
_TOLD_TO_STOP = re.compile(r"trigger received signal=SIG(?:TERM|INT)")


@dataclass(frozen=True, slots=True)
class _Line:
    """One log line without the engine's prefixes. quiet: information, or code that a traceback quotes: no evidence."""

    text: str
    quiet: bool


def root_cause(log_lines: Sequence[str], exit_code: int | None) -> Finding:
    """The cause of an engine's end. exit_code: its exit status, or minus the signal; None where that is unknown.

    Looks for a known failure first (the most specific evidence wins, wherever it stands), then for the last exception
    that is not a consequence of another, then for hints, then at the signal.
    """
    lines = [_line(text) for text in log_lines]
    return (
        _known_failure(lines, least=NAMED)
        or _own_exception(lines, exit_code)
        or _known_failure(lines, least=HINT)
        or _signal(lines, exit_code)
        or _told_to_stop(lines, exit_code)
        or _no_reason(lines, exit_code)
    )


def _line(raw: str) -> _Line:
    match = _PREFIX.match(raw)
    assert match is not None  # every part of the prefix is optional
    text = raw[match.end() :].rstrip()
    return _Line(text, match["level"] in _QUIET or _QUOTED_OR_ACCESS.match(text) is not None)


def _known_failure(lines: Sequence[_Line], *, least: int) -> Finding | None:
    matches = [
        (-failure.specificity, position, failure, match)
        for position, line in enumerate(lines)
        if not line.quiet
        for failure in FAILURES
        if failure.specificity >= least and (match := failure.pattern.search(line.text))
    ]
    if not matches:
        return None
    # within one specificity the earlier line: causes stand above what they led to
    _, position, failure, match = min(matches, key=lambda found: found[:2])
    what, do = failure.words(match)
    return Finding(failure.code, Severity.BLOCK, _SUBJECT, what, _shorten(lines[position].text.strip()), do)


def _own_exception(lines: Sequence[_Line], exit_code: int | None) -> Finding | None:
    cause = None
    for text in _exceptions(lines, exit_code):
        cause = text
    if cause is None:
        return None
    if (hinted := _known_failure([_Line(cause, quiet=False)], least=HINT)) is not None:
        return hinted
    return Finding(
        code="engine.exception",
        severity=Severity.BLOCK,
        subject=_SUBJECT,
        what="the engine ended with an exception that holddown has no explanation for",
        seen=_shorten(cause),
        do="holddown logs NAME has the traceback above that line",
    )


def _exceptions(lines: Sequence[_Line], exit_code: int | None) -> Iterator[str]:
    """The last lines of tracebacks that tell of no other, up to an orderly stop: what comes then is its consequence.

    Unless the server itself failed: it ends its engine core by SIGTERM first, and prints its own traceback last.
    """
    failed = exit_code is not None and 0 < exit_code < 128
    for position, line in enumerate(lines):
        if _TOLD_TO_STOP.search(line.text) and not failed:
            return
        if line.quiet or not _EXCEPTION.match(line.text) or _CONSEQUENCES.search(line.text):
            continue
        # pydantic says on the next line what is wrong
        detail = lines[position + 1].text.strip() if position + 1 < len(lines) else ""
        yield f"{line.text}: {detail}" if "ValidationError" in line.text and detail else line.text


def _signal(lines: Sequence[_Line], exit_code: int | None) -> Finding | None:
    signal = _signal_of(exit_code)
    if signal == _SIGKILL:
        return Finding(
            code="engine.killed",
            severity=Severity.BLOCK,
            subject=_SUBJECT,
            what="the engine was killed by signal 9 and its log names no error: most often the kernel did it for want "
            "of memory, but anybody allowed to may have",
            seen=_last(lines),
            do="dmesg | grep -i 'killed process' tells; holddown node shows what memory is free",
        )
    if signal in _SIGNALS:
        return Finding(
            code=f"engine.signal-{signal}",
            severity=Severity.BLOCK,
            subject=_SUBJECT,
            what=f"the engine ended by signal {signal}, {_SIGNALS[signal]}",
            seen=_last(lines),
            do="dmesg may say more; try another engine version or --set enforce-eager=true",
        )
    return None


def _signal_of(exit_code: int | None) -> int | None:
    """A shell between us and the engine reports signal n as status 128 + n."""
    if exit_code is None:
        return None
    if exit_code < 0:
        return -exit_code
    return exit_code - 128 if 128 < exit_code < 160 else None


def _told_to_stop(lines: Sequence[_Line], exit_code: int | None) -> Finding | None:
    told = next((line.text for line in lines if _TOLD_TO_STOP.search(line.text)), None)
    if told is None and _signal_of(exit_code) != _SIGTERM:
        return None
    return Finding(
        code="engine.told-to-stop",
        severity=Severity.WARN,
        subject=_SUBJECT,
        what="the engine was told from outside to stop (SIGTERM or SIGINT); its log names no error before that",
        seen=told or "ended by signal 15",
        do="holddown up starts it again",
    )


def _no_reason(lines: Sequence[_Line], exit_code: int | None) -> Finding:
    how = "in a way that is not known" if exit_code is None else f"with status {exit_code}"
    return Finding(
        code="engine.no-reason-found",
        severity=Severity.BLOCK,
        subject=_SUBJECT,
        what=f"the engine ended {how}, and holddown finds no reason in its log",
        seen=_last(lines),
        do="holddown logs NAME",
    )


def _last(lines: Sequence[_Line]) -> str:
    """The end of the log, for a reader who may see more in it."""
    written = [text for line in lines if (text := line.text.strip()) and not _ACCESS.match(text)]
    return _shorten(" | ".join(written[-_LAST_LINES:])) if written else "the log is empty"


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + " ..."
