"""A run of `verify` as text."""

from collections.abc import Iterator

from holddown.remember.run import VerifyRun
from holddown.verify.verdict import Outcome, Verdict

_NOT_SHOWN = (Outcome.INCONCLUSIVE, Outcome.SKIPPED)


def run_text(run: VerifyRun) -> str:
    """What failed, with its cause and remedy; what was not shown, with why; and the names of the rest."""
    return "\n".join(_lines(run))


def _lines(run: VerifyRun) -> Iterator[str]:
    failed = [each for each in run.verdicts if each.outcome is Outcome.FAILED]
    passed = [each.check for each in run.verdicts if each.outcome is Outcome.PASSED]
    yield f"{run.subject.name}: {_summary(run)}"
    for verdict in failed:
        yield from _failure(verdict)
    for verdict in run.verdicts:
        if verdict.outcome is Outcome.PASSED:
            yield from (f"  note      {verdict.check}: {note.what}; {note.seen}" for note in verdict.findings)
    if passed:
        yield f"  passed    {', '.join(passed)}"
    for verdict in run.verdicts:
        if verdict.outcome in _NOT_SHOWN:
            yield f"  NOT shown: {verdict.check} ({verdict.outcome}): {verdict.seen}"
    others = [each.check for each in run.verdicts if each.outcome is Outcome.NOT_APPLICABLE]
    if others:
        yield f"  not applicable: {', '.join(others)}"
    yield f"  record    {run.id}"


def _summary(run: VerifyRun) -> str:
    if run.cut:
        return f"{run.cut}, after {len(run.verdicts)} checks"
    counts = [(outcome, sum(each.outcome is outcome for each in run.verdicts)) for outcome in Outcome]
    return ", ".join(f"{count} {outcome}" for outcome, count in counts if count) or "nothing was asked"


def _failure(verdict: Verdict) -> Iterator[str]:
    for finding in verdict.findings:
        yield f"FAILED {verdict.check}: {finding.what}"
        yield f"  asked: {verdict.asked}" if verdict.asked else f"  code:  {finding.code}"
        yield f"  seen:  {finding.seen}"
        if verdict.cause:
            yield f"  cause: most likely {verdict.cause}"
        yield f"  do:    {finding.do}"
