"""What a supervisor has to say about itself and about the ground it stands on."""

from collections.abc import Mapping

from holddown.base.evidence import Fact, Known
from holddown.base.finding import Finding, Severity
from holddown.base.units import size_text
from holddown.facts.machine import Memory, ProcessFacts
from holddown.launch.lifecycle import ProcessRef, State
from holddown.launch.ownership import Activity


def adopted(name: str, engine: ProcessRef, was: State, *, alive: bool) -> Finding:
    watched = "a new one watches its engine now" if alive else "its engine is gone too"
    return Finding(
        code="supervisor.adopted",
        severity=Severity.WARN,
        subject=name,
        what=f"the supervisor of this deployment was gone; {watched}",
        seen=f"engine pid {engine.pid}, {was}",
    )


def never_started(name: str, up_again: str) -> Finding:
    return Finding(
        code="supervisor.lost",
        severity=Severity.BLOCK,
        subject=name,
        what="its supervisor ended before it had started the engine",
        seen="no process stands in its private folder",
        do=up_again,
    )


def broken(name: str, bug: Exception) -> Finding:
    """A bug of ours, which must not be an outage of theirs."""
    return Finding(
        code="bug.supervisor",
        severity=Severity.WARN,
        subject=name,
        what=f"its supervisor ended by a bug of holddown ({type(bug).__name__}: {bug}); the engine was left as it is",
        seen="supervisor.log beside the engine's log has the traceback; please report it",
        do="holddown status    gives it a new supervisor",
    )


def log_disk_full(log_path: str, free_bytes: int) -> Finding:
    return Finding(
        code="disk.log-full",
        severity=Severity.WARN,
        subject=log_path,
        what="the disk of the engine's log is full: the engine runs on, and lines of its log are lost",
        seen=f"{free_bytes} bytes free",
        do="make room there; the log goes on by itself",
    )


def port_taken(name: str, port: int, by: ProcessFacts) -> Finding:
    return Finding(
        code="port.taken-meanwhile",
        severity=Severity.WARN,
        subject=str(port),
        what=f"port {port} was free when {name} was planned, and another program answers there now",
        seen=f"pid {by.pid} of {by.user}: {by.title}",
        do="if the engine fails for it, run holddown up again: it takes another port",
    )


def killed_for_memory(cause: Finding, kills: int, memory: Memory) -> Finding:
    """In place of a cause that only knows of a signal 9. memory: as it was right after."""
    count = f"{kills} processes" if kills > 1 else "a process"
    return Finding(
        code="engine.killed-for-memory",
        severity=Severity.BLOCK,
        subject=cause.subject,
        what=f"the kernel killed {count} of its control group for want of memory: {size_text(memory.limit_bytes)} are "
        f"all there is ({memory.because.partition(';')[0]})",
        seen=f"oom_kill grew by {kills} while it ran; {cause.seen}",
        do="more memory for the container or service; a smaller KV cache or a shorter context need less",
    )


def activity_text(before: Activity, after: Activity, seconds: float, loads: Mapping[int, int | None]) -> str:
    """`CPU 199 %, GPU 0 100 %, GPU 1 not known, disk idle`. before, after: so many seconds apart. Source: proc(5): CPU
    time is counted in hundredths of a second."""
    cpu = (after.cpu_ticks - before.cpu_ticks) / seconds
    read = (after.read_bytes - before.read_bytes) / seconds
    gpus = [f"GPU {index} {'not known' if load is None else f'{load} %'}" for index, load in loads.items()]
    disk = f"reads {size_text(round(read))}/s" if read >= 1 else "reads nothing"
    return ", ".join([f"CPU {cpu:.0f} %" if cpu >= 1 else "CPU idle", *gpus, disk])


def standing_still(why: str, activity: str, stacks: Fact[str]) -> Finding:
    """While it is stuck. why: what is missing."""
    return Finding("engine.standing-still", Severity.WARN, "engine", f"{why}: {activity}", *_shown(stacks))


def overdue(what: str, activity: str, stacks: Fact[str]) -> Finding:
    """what: which phase, for how long, and how long it took before."""
    said = f"{what}; it does something all the same, as work does, and a collective that waits for ever: {activity}"
    return Finding("engine.overdue", Severity.WARN, "engine", said, *_shown(stacks))


def _shown(stacks: Fact[str]) -> tuple[str, str]:
    """seen and do."""
    if isinstance(stacks, Known):
        return f"{stacks.value} has what its processes are at", "holddown logs NAME"
    return f"what its processes are at was not kept: {stacks.why}", "pip install py-spy    keeps that the next time"


def silent(why: str, activity: str, last: str, stacks: str) -> Finding:
    """Of one that was ended for it. why: what was missing, for how long. last: line of its log. stacks: file of what
    its processes were at, empty for none."""
    return Finding(
        code="engine.silent",
        severity=Severity.BLOCK,
        subject="engine",
        what=f"the engine ran without an answer or a sign of progress, and was ended for it: {why}",
        seen="; ".join(filter(None, [activity, f"last in its log: {last}" if last else "its log is empty"])),
        do=f"{stacks} has what its processes were at; holddown logs NAME" if stacks else "holddown logs NAME",
    )


def restart_hindered(name: str, by: Finding) -> Finding:
    """by: what forbids the start now, by others' doing."""
    return Finding(
        code="restart.hindered",
        severity=Severity.WARN,
        subject=name,
        what=f"it cannot be started again yet: {' '.join(by.what.split())}",
        seen=by.seen,
        do=f"it is tried again by itself; holddown down {name}    ends the waiting",
    )


def written_late(name: str, seconds: float, why: str) -> Finding:
    return Finding(
        code="store.late",
        severity=Severity.WARN,
        subject=name,
        what=f"for {seconds:.0f} s nothing could be put on record; what happened then was written afterwards",
        seen=why,
    )
