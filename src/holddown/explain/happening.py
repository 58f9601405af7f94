"""What happened, as lines a person reads while a deployment comes up."""

from typing import assert_never

from holddown.base.units import duration_text, size_text
from holddown.launch.lifecycle import State
from holddown.launch.phases import Phase
from holddown.measure.metrics import Measurement, summary
from holddown.remember import record
from holddown.remember.record import Happening
from holddown.verify.verdict import Outcome, Verdict

_PHASES = {
    Phase.PROCESS: "process up",
    Phase.CONFIG: "reading the configuration",
    Phase.WEIGHTS: "loading weights",
    Phase.COMPILE: "compiling",
    Phase.PROFILE: "profiling memory",
    Phase.KV_CACHE: "KV cache",
    Phase.GRAPHS: "capturing graphs",
    Phase.SERVER: "server up",
}
_MARKS = {
    Outcome.PASSED: "ok",
    Outcome.FAILED: "FAILED",
    Outcome.SKIPPED: "skipped",
    Outcome.INCONCLUSIVE: "unclear",
    Outcome.NOT_APPLICABLE: "n/a",
}


def phase_text(entered: record.PhaseEntered) -> str:
    text = _PHASES[entered.phase]
    if entered.total:
        text += f" {entered.done} of {entered.total}"
    return f"{text}: {entered.detail}" if entered.detail else text


def overdue_text(phase: Phase, spent_s: float, usual_s: float, quiet_s: float) -> str:
    """`loading weights: for 12 min 0 s now, and at most 40.0 s in earlier starts; ...`."""
    spent, usual, quiet = map(duration_text, (spent_s, usual_s, quiet_s))
    still = f"no line in its log, nothing read and nothing allocated for {quiet}"
    return f"{_PHASES[phase]}: for {spent} now, and at most {usual} in earlier starts; {still}"


def verdict_text(verdict: Verdict) -> str:
    return f"{_MARKS[verdict.outcome]:7} {verdict.check}: {verdict.seen}"


def measured_text(measurements: tuple[Measurement, ...]) -> str:
    """One line: the single stream and the highest concurrency."""
    figures = summary(measurements)
    parts = []
    if figures.single_tokens_per_second is not None:
        parts.append(f"{figures.single_tokens_per_second:.1f} tok/s single stream")
    if figures.crowd_tokens_per_second is not None:
        parts.append(f"{figures.crowd_tokens_per_second:.1f} tok/s at concurrency {figures.crowd}")
    return "measured " + ", ".join(parts) if parts else "nothing could be measured"


def happening_text(happening: Happening) -> str:
    """One line; empty for what only a live display shows."""
    match happening:
        case record.PhaseEntered():
            return phase_text(happening)
        case record.StateChanged():
            return _state_text(happening)
        case record.VerdictGiven():
            return verdict_text(happening.verdict)
        case record.MeasurementTaken():
            return measured_text(happening.measurements)
        case record.Noted():
            finding = happening.finding
            return f"{finding.severity}[{finding.code}]: {finding.what}"
        case record.Growing() | record.Doing():
            return ""
        case _:
            assert_never(happening)


def growing_text(growing: record.Growing) -> str:
    return f"{size_text(growing.rss_bytes)} in memory, {size_text(growing.read_bytes)} read"


def _state_text(changed: record.StateChanged) -> str:
    match changed.state:
        case State.READY:
            return "it answers; checking its answers"
        case State.STARTING:
            return ""
        case _:
            return f"{changed.state}: {changed.why}" if changed.why else str(changed.state)


def clock_text(seconds: float) -> str:
    """`[  12.3 s]`-style column."""
    return f"[{duration_text(max(seconds, 0)):>10}]"
