"""The words of a verification."""

from dataclasses import dataclass
from enum import StrEnum

from holddown.base.finding import Finding


class Outcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One check's outcome. check: its name, as `--skip-check` takes it. seen: what the answer was, with figures."""

    check: str
    outcome: Outcome
    seen: str
    findings: tuple[Finding, ...] = ()
