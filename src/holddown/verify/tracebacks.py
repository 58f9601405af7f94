"""Who failed first: the exceptions of a log, by process, and which of them only tell of another."""

import re
from collections import deque
from dataclasses import dataclass, field, replace

from holddown.tables.load import consequences
from holddown.verify.log_line import LogLine

_BEGIN = "Traceback (most recent call last):"
_EXCEPTION = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit|Timeout|Died|Exhausted)\b(?:: .*)?$")
# of a library, by its full name, which ends a traceback whatever it is called
_ENDS_TRACEBACK = re.compile(r"(?:\w+\.)+[A-Z]\w*(?:: .*)?$")
_TOLD_TO_STOP = re.compile(r"trigger received signal=SIG(?:TERM|INT)")
# a shutdown goes on writing, and is no life
_LAST_WORDS = re.compile(
    r"\[shutdown\]|trigger received signal|Parent process exited|Finished server process|[Ss]hutting down"
    r"|exiting due to|cleaning up before exit|leaked (?:semaphore|shared_memory)|destroy_process_group"
)
_MOST_LINES = 60
_MOST_PROCESSES = 256


@dataclass(frozen=True, slots=True)
class Raised:
    """One exception. lines: its traceback, the last of which is the exception's own; of a long one the end. where: its
    place among all of the log."""

    process: str
    lines: tuple[LogLine, ...]
    text: str
    wrapper: bool
    survivor: bool

    @property
    def where(self) -> int:
        return self.lines[-1].number


@dataclass
class _Process:
    """block: of a traceback that goes on. last, own: its last exception, and its last that tells of no other.
    detail_of: an exception whose next line says what is wrong."""

    block: deque[LogLine] | None = None
    last: Raised | None = None
    own: Raised | None = None
    detail_of: Raised | None = None


@dataclass
class Tracebacks:
    """Is fed with the lines of a log in their order, and keeps what is needed to say who failed first."""

    _processes: dict[str, _Process] = field(default_factory=dict)
    _told_to_stop: int | None = None
    _tells: str = ""
    """Whose traceback the lines without a name are: SGLang names its process on the first line only."""

    @property
    def waiting(self) -> bool:
        """Whether quiet lines matter now: a traceback goes on, or who raised may turn out to have lived on."""
        return any(each.block is not None or each.last is not None for each in self._processes.values())

    @property
    def told_to_stop(self) -> int | None:
        """The line of the first word of an orderly stop."""
        return self._told_to_stop

    def feed(self, line: LogLine) -> tuple[bool, bool]:
        """(its process has outlived what it raised, the line is of an exception)."""
        if self._told_to_stop is None and _TOLD_TO_STOP.search(line.text):
            self._told_to_stop = line.number
        if self._tells and not line.process:
            line = replace(line, process=self._tells)
        process = self._processes.get(line.process)
        if process is None:
            if line.quiet or not (line.text.endswith(_BEGIN) or _EXCEPTION.match(line.text)):
                return False, False
            if len(self._processes) >= _MOST_PROCESSES:
                self._processes.pop(next(iter(self._processes)))
            process = self._processes[line.process] = _Process()
        if line.text.endswith(_BEGIN):
            process.block = deque([line], _MOST_LINES)
            self._tells = line.process if line.text != _BEGIN else ""
        elif line.quiet:
            return self._lived_on(process, line), False
        elif not line.quoted and _is_exception(line.text, within=process.block is not None):
            self._raised(process, line)
            self._tells = ""
            return False, True
        elif process.block is not None and line.text:
            process.block.append(line)
        elif process.detail_of is not None and line.text:
            self._detailed(process, line)
            return False, True
        return False, process.block is not None

    def _lived_on(self, process: _Process, line: LogLine) -> bool:
        if process.block is not None or _LAST_WORDS.search(line.text):
            return False
        process.last = process.own = process.detail_of = None
        return True

    def _raised(self, process: _Process, line: LogLine) -> None:
        lines = (*(process.block or ()), line)
        kinds = {survivor for pattern, survivor in _CONSEQUENCES if pattern.search(line.text)}
        raised = Raised(line.process, lines, line.text, wrapper=False in kinds, survivor=True in kinds)
        process.block = None
        process.last = raised
        if not kinds and (process.own is None or process.own.text != line.text):
            process.own = raised
        # pydantic says on the next line what is wrong
        process.detail_of = raised if "ValidationError" in line.text else None

    def _detailed(self, process: _Process, line: LogLine) -> None:
        assert process.detail_of is not None
        old = process.detail_of
        new = Raised(old.process, (*old.lines, line), f"{old.text}: {line.text.strip()}", old.wrapper, old.survivor)
        process.last = new if process.last is old else process.last
        process.own = new if process.own is old else process.own
        process.detail_of = None

    def first(self, *, before: int | None) -> Raised | None:
        """The exception that the others are consequences of. before: the line of an orderly stop, whose consequences
        come after it; None for none.

        Of processes whose last word is their own, the one that said it first; else the last word of its own that
        anybody had; else the first of those that lost a peer.
        """
        found = [each for each in self._processes.values() if each.last is not None]
        every = [each.last for each in found if each.last is not None and _is_before(each.last, before)]
        own = [each.own for each in found if each.own is not None and _is_before(each.own, before)]
        died = [each for each in every if not each.wrapper and not each.survivor]
        if died:
            first = min(died, key=_where)
            # said twice, by a logger and by the interpreter: the first time stands where the process was
            return next((each for each in own if (each.process, each.text) == (first.process, first.text)), first)
        return max(own, key=_where, default=None) or min(
            (each for each in every if each.survivor), key=_where, default=None
        )


def _is_exception(text: str, *, within: bool) -> bool:
    """within: a traceback, which this may end."""
    return _EXCEPTION.match(text) is not None or (within and _ENDS_TRACEBACK.match(text) is not None)


def _where(raised: Raised) -> int:
    return raised.where


def _is_before(raised: Raised, stop: int | None) -> bool:
    return stop is None or raised.where < stop


_CONSEQUENCES = tuple((re.compile(each.pattern), each.survivor) for each in consequences())
