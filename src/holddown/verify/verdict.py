"""The words of a verification."""

from dataclasses import dataclass
from enum import StrEnum

from holddown.base.finding import Finding


class Outcome(StrEnum):
    """INCONCLUSIVE: it was asked, and nothing is shown either way. NOT_APPLICABLE: the model or the server does not
    claim it. SKIPPED: it was not asked."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    INCONCLUSIVE = "inconclusive"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One check's outcome. check: its name, as `--skip-check` takes it. seen: why, with what was answered and its
    figures. asked: what was asked, shortened. cause: of a failure, where it most likely lies."""

    check: str
    outcome: Outcome
    seen: str
    findings: tuple[Finding, ...] = ()
    asked: str = ""
    cause: str = ""
