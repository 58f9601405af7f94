"""A diagnosis in words: what it is, what it rests on, what to do, and what failed first."""

from holddown.explain.drawing import WIDTH, wrapped
from holddown.verify.diagnose import Diagnosis, Report, in_settings

_SHOWN_LINES = 24  # of a traceback the end, which tells more than its begin
_LABEL = 8


def diagnosis_text(report: Report, *, ours: bool) -> str:
    """ours: the log of a deployment of ours, whose settings are `--set`."""
    parts = [_diagnosis(report.diagnosis, ours=ours) if report.diagnosis else _unknown(report), _root(report)]
    return "\n\n".join(filter(None, parts))


def headline(report: Report) -> str:
    found = report.diagnosis
    if found is not None:
        return f"{found.id}: {found.sure}"
    return "nothing in this log tells of a failure" if report.healthy else "not known: no failure on record fits"


def _unknown(report: Report) -> str:
    if report.healthy:
        return "\n".join(_row("last", each.text.strip()) for each in report.last)
    return "what failed first is below, as the engine wrote it; what comes after it are its consequences"


def _diagnosis(found: Diagnosis, *, ours: bool) -> str:
    rows = [_row("cause", found.cause), _row("do", remedy(found, ours=ours))]
    rows += [_row("not", found.never)] if found.never else []
    rows += [_row("seen", f"line {line.number}: {line.text.strip()[:400]}") for line in found.lines]
    rows += [_row("from", found.source)] if found.source else []
    return "\n".join(rows)


def remedy(found: Diagnosis, *, ours: bool) -> str:
    """`--set max-model-len=32640` of a deployment of ours, `--max-model-len 32640` of any other, where a switch is its
    name alone."""
    if ours:
        return in_settings(found)
    return "; ".join(filter(None, (" ".join(_flag(name, value) for name, value in found.edits), found.remedy)))


def _flag(name: str, value: str) -> str:
    return f"--{name}" if value == "true" else f"--{name} {value}"


def _root(report: Report) -> str:
    lines = report.root
    if not lines:
        return ""
    process = next((line.process for line in lines if line.process), "")
    where = f"lines {lines[0].number} to {lines[-1].number}" if len(lines) > 1 else f"line {lines[0].number}"
    head = f"what failed first{f', in {process}' if process else ''} ({where}):"
    return "\n".join([head, *(f"  {line.text[: WIDTH * 2]}" for line in lines[-_SHOWN_LINES:])])


def _row(label: str, text: str) -> str:
    return "\n".join(wrapped(f"  {label:<{_LABEL}}", text, hang=_LABEL + 2))
