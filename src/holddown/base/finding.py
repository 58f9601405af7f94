"""One shape for everything a check can say: of a checkpoint, a machine, a plan, an answer, a log."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """NOTE: worth knowing. WARN: works, but not as you may think. BLOCK: it cannot start, or must not be released."""

    NOTE = "note"
    WARN = "warn"
    BLOCK = "block"


@dataclass(frozen=True, slots=True)
class Finding:
    """What is the case, what was seen, what to do.

    code: dotted and stable, for scripts and docs, e.g. `shard.truncated`.
    subject: the thing it is about (a file name, a flag, `GPU 0`, a port).
    what: one sentence with the figures.
    seen: the evidence, with where it was read.
    do: a remedy, best a command that can be pasted; empty where there is nothing to do.
    """

    code: str
    severity: Severity
    subject: str
    what: str
    seen: str = ""
    do: str = ""

    @property
    def blocks(self) -> bool:
        return self.severity is Severity.BLOCK


_SOME = 3


def some_text(names: Sequence[str]) -> str:
    """`a, b, c, and 4 more`; a name can be as long as a damaged file makes it, so each is cut."""
    shown = ", ".join(name[:100] for name in names[:_SOME])
    return shown + (f", and {len(names) - _SOME} more" if len(names) > _SOME else "")


def blocking(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Those that forbid going on, in their order."""
    return tuple(finding for finding in findings if finding.blocks)
