"""Why an engine ended, from its log and its exit. Wrong is worse than unknown: what is not sure says so.

An engine prints the cause first, then what it led to in every process above: a worker's exception, the engine core's,
and last "Engine core initialization failed. See root cause above". The last line of a log is the least telling.
"""

import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holddown.base.finding import Finding, Severity
from holddown.tables.failure import Sure
from holddown.verify.ends import Ending, ending
from holddown.verify.log_line import LogLine, log_line
from holddown.verify.signs import Sign, signs
from holddown.verify.tracebacks import Raised, Tracebacks

_SUBJECT = "engine"
_SHOWN_CHARACTERS = 400
_LAST_LINES, _ERROR_LINES = 3, 12
_WEIGHT = {Sure.CERTAIN: 0, Sure.LIKELY: 1, Sure.POSSIBLE: 2}
# SGLang writes no level, and neither do libraries: there an error is what calls itself so
_WRITES_LEVELS = frozenset({"vllm", "llamacpp"})
_SAYS_SO = re.compile(
    r"[Ee]rror|ERR|[Ee]xception|[Ff]ail|[Ff]atal|FATAL|[Kk]illed|[Aa]bort|\b[Ff]ault|[Dd]ied\b|[Dd]ead\b|annot"
)
# of one kind of sign; a log that shows more shows no other
_MOST_KINDS = 512


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What happened. sure: how sure that is. edits: (setting, value) of a plan that would not fail so. never: the
    remedy that tempts and is wrong. lines: what it rests on."""

    id: str
    cause: str
    remedy: str
    sure: Sure
    lines: tuple[LogLine, ...]
    edits: tuple[tuple[str, str], ...] = ()
    never: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """diagnosis: None where nothing that is known fits. root: the lines of what failed first; without an exception the
    last that are no information; empty where there is none. last: of the log, for a reader who may see more in them."""

    diagnosis: Diagnosis | None
    root: tuple[LogLine, ...]
    last: tuple[LogLine, ...]

    @property
    def healthy(self) -> bool:
        """Nothing in it tells of a failure."""
        return not self.root and (self.diagnosis is None or self.diagnosis.id == "told-to-stop")


@dataclass(frozen=True, slots=True)
class _Seen:
    """raised: the line is of an exception, which its process may outlive."""

    sign: Sign
    line: LogLine
    raised: bool

    @property
    def of_a_request(self) -> bool:
        """It was refused, or went wrong, and the engine lived on: that ends no engine."""
        return self.sign.failure.stage == "answers"


class Reading:
    """A log, line by line: keeps no more of it than what may turn out to be the cause. engine: as `Engine.kind`, empty
    where that is not known."""

    def __init__(self, engine: str = "") -> None:
        self._given = engine
        self._wrote = ""
        self._tracebacks = Tracebacks()
        self._seen: dict[tuple[str, str], _Seen] = {}
        self._errors: deque[LogLine] = deque(maxlen=_ERROR_LINES)
        self._last: deque[LogLine] = deque(maxlen=_LAST_LINES)
        self._raised_at = 0

    def feed(self, raw: str, number: int) -> bool:
        """Whether the line is of a kind that is no evidence."""
        line = log_line(raw, number)
        self._wrote = line.engine or self._wrote
        outlived, raised = self._tracebacks.feed(line)
        if outlived:
            self._forget(line.process)
        if raised:
            self._raised_at = number
        if not line.text.strip() or line.access:
            return True
        self._last.append(line)
        if line.quiet or line.quoted:
            return True
        if line.engine in _WRITES_LEVELS or _SAYS_SO.search(line.text):
            self._errors.append(line)
        self._look(line, raised)
        return False

    def waits(self, number: int) -> bool:
        """Whether quiet lines matter at this place: somebody raised not long ago, and may turn out to have lived on."""
        return self._tracebacks.waiting and number - self._raised_at < _WAITING_LINES

    def end(self, raws: Sequence[str], number: int) -> None:
        """The last lines of the log, which were perhaps passed over. number: of the first of them."""
        lines = [log_line(raw, number + at) for at, raw in enumerate(raws)]
        self._last.extend(each for each in lines if each.text.strip() and not each.access)

    @property
    def _engine(self) -> str:
        """Which engine's failures come into question: where nobody said so, that whose way of writing was seen last."""
        return self._given or self._wrote

    @property
    def signs(self) -> tuple[str, ...]:
        """The failures that it shows and nobody outlived, in the order of their lines."""
        return tuple(
            dict.fromkeys(key[0] for key, _ in sorted(self._seen.items(), key=lambda each: each[1].line.number))
        )

    def _look(self, line: LogLine, raised: bool) -> None:
        for sign in signs(line.text, self._engine):
            key = (sign.failure.id, sign.cause)
            if key not in self._seen and len(self._seen) < _MOST_KINDS:
                self._seen[key] = _Seen(sign, line, raised)

    def _forget(self, process: str) -> None:
        """What an exception showed that its process has outlived."""
        outlived = [
            key
            for key, seen in self._seen.items()
            if seen.raised and seen.line.process == process and not seen.of_a_request
        ]
        for key in outlived:
            del self._seen[key]

    def report(self, exit_code: int | None) -> Report:
        """exit_code: the engine's exit status, or minus the signal; None where that is not known."""
        # a server that fails by itself ends its engine core by SIGTERM first, and prints its own traceback last
        failed = exit_code is not None and 0 < exit_code < 128
        told = self._tracebacks.told_to_stop
        stop = None if failed else told
        root = self._tracebacks.first(before=stop)
        ended = told is not None or exit_code not in (None, 0)
        found = self._best(root, stop, ended=ended) or self._ended(exit_code, root, stopped=told is not None)
        errors = tuple(each for each in self._errors if stop is None or each.number < stop)
        return Report(found, root.lines if root else errors, tuple(self._last))

    def _best(self, root: Raised | None, stop: int | None, *, ended: bool) -> Diagnosis | None:
        """The surest sign; of two, the one of what failed first; else the earlier: causes stand above consequences.
        ended: the engine did, so that what it lived on after is no cause."""
        of_root = {line.number for line in root.lines} if root else set()
        every = [each for each in self._seen.values() if stop is None or each.line.number < stop]
        if root is not None:
            every += [_Seen(sign, root.lines[-1], True) for sign in signs(root.text, self._engine)]
        every = [each for each in every if not (ended and each.of_a_request)]
        # a sign with more than one cause, or of one request, says nothing of an exception that does not show it
        told = [
            each
            for each in every
            if not root or each.line.number in of_root or not (each.sign.sure is Sure.POSSIBLE or each.of_a_request)
        ]
        if not told:
            return None
        best = min(
            told,
            key=lambda each: (
                each.of_a_request,
                _WEIGHT[each.sign.sure],
                each.line.number not in of_root,
                each.line.number,
            ),
        )
        sign = best.sign
        return Diagnosis(
            sign.failure.id,
            sign.cause,
            sign.remedy,
            sign.sure,
            (best.line,),
            sign.edits,
            sign.failure.never,
            sign.failure.source,
        )

    def _ended(self, exit_code: int | None, root: Raised | None, *, stopped: bool) -> Diagnosis | None:
        if root is not None:
            return None
        found = ending(exit_code, stopped=stopped)
        return _of_ending(found, tuple(self._last)) if found is not None else None


_WAITING_LINES = 20_000


def _of_ending(end: Ending, last: tuple[LogLine, ...]) -> Diagnosis:
    return Diagnosis(end.id, end.cause, end.remedy, end.sure, last)


def read_log(lines: Iterable[str], engine: str = "") -> Reading:
    reading = Reading(engine)
    for number, line in enumerate(lines, 1):
        reading.feed(line, number)
    return reading


# --- as a finding, for a deployment of our own ----------------------------------------------------------------------


def as_finding(report: Report, exit_code: int | None) -> Finding:
    found = report.diagnosis
    if found is not None:
        severity = Severity.WARN if found.id == "told-to-stop" else Severity.BLOCK
        seen = _texts(found.lines) or "the log is empty"
        return Finding(f"engine.{found.id}", severity, _SUBJECT, found.cause, seen, in_settings(found))
    if report.root:
        return Finding(
            code="engine.exception",
            severity=Severity.BLOCK,
            subject=_SUBJECT,
            what="the engine ended with an exception that holddown has no explanation for",
            seen=_shorten(report.root[-1].text.strip()),
            do="holddown logs NAME has the traceback above that line",
        )
    how = "in a way that is not known" if exit_code is None else f"with status {exit_code}"
    return Finding(
        code="engine.no-reason-found",
        severity=Severity.BLOCK,
        subject=_SUBJECT,
        what=f"the engine ended {how}, and holddown finds no reason in its log",
        seen=_texts(report.last) or "the log is empty",
        do="holddown logs NAME",
    )


def in_settings(diagnosis: Diagnosis) -> str:
    """The remedy for a deployment of ours."""
    edits = " ".join(f"--set {name}={value}" for name, value in diagnosis.edits)
    return "; ".join(filter(None, (f"holddown up ... {edits}" if edits else "", diagnosis.remedy)))


def _texts(lines: Sequence[LogLine]) -> str:
    return _shorten(" | ".join(line.text.strip() for line in lines))


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + " ..."
