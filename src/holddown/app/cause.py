"""Why an engine ended, or is ended, as the record will have it: what its log says, and what the kernel counted."""

from holddown import ports
from holddown.base.finding import Finding
from holddown.explain.supervision import killed_for_memory, silent
from holddown.launch.restart import of_last_start
from holddown.verify.diagnose import as_finding, read_log

# what a log tells of a process that was killed from outside, by whomever: at most that another misses it
_MAYBE_FOR_MEMORY = frozenset({
    "engine.killed", "engine.worker-killed", "engine.worker-died", "engine.child-failed", "engine.scheduler-killed",
    "engine.exception", "engine.no-reason-found",
})  # fmt: skip
_DIAGNOSED_LINES = 2000
_TOLD = -15  # as it will end: what went wrong with a request that it lived on after is no cause of it
# Between an engine's last word and its place in the log stand a pipe and the program that empties it.
_SETTLED_S = 0.3
_SETTLES_WITHIN_S = 3.0
Edits = tuple[tuple[str, str], ...]


def cause_of_end(log: ports.Log, kind: str, exit_code: int | None, clock: ports.Clock) -> tuple[Finding, Edits]:
    """Of an engine that has ended, or broke. kind: as `Engine.kind`. Gives the settings, too, with which it would not
    have failed so."""
    _settle(log, clock)
    report = read_log(of_last_start(log.tail(_DIAGNOSED_LINES)), kind).report(exit_code)
    return as_finding(report, exit_code), report.diagnosis.edits if report.diagnosis else ()


def cause_of_silence(log: ports.Log, kind: str, why: str, activity: str, stacks: str) -> tuple[Finding, Edits]:
    """Of one that still runs, and is ended for it. stacks: file of what its processes are at; empty for none."""
    report = read_log(of_last_start(log.tail(_DIAGNOSED_LINES)), kind).report(_TOLD)
    if report.diagnosis is None or report.healthy:
        return silent(why, activity, report.last[-1].text.strip() if report.last else "", stacks), ()
    return as_finding(report, _TOLD), report.diagnosis.edits


def with_kernels_word(cause: Finding, kills: int, host: ports.Host) -> Finding:
    """kills: how many processes the kernel has ended for want of memory since that engine was started."""
    if kills <= 0 or cause.code not in _MAYBE_FOR_MEMORY:
        return cause
    return killed_for_memory(cause, kills, host.facts().memory)


def _settle(log: ports.Log, clock: ports.Clock) -> None:
    deadline = clock.monotonic() + _SETTLES_WITHIN_S
    quiet_since = clock.monotonic()
    while clock.monotonic() < min(deadline, quiet_since + _SETTLED_S):
        clock.sleep(0.05)
        if any(True for _ in log.new()):
            quiet_since = clock.monotonic()
