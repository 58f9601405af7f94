"""Which processes and shared memory are a deployment's own. Only these are ever signalled or removed."""

from collections.abc import Iterable
from dataclasses import dataclass

from holddown.base.evidence import Known
from holddown.facts.machine import ProcessFacts
from holddown.launch.lifecycle import ProcessRef


@dataclass(frozen=True, slots=True)
class Activity:
    """What a silent engine still does, summed over its processes."""

    rss_bytes: int
    read_bytes: int
    cpu_ticks: int


@dataclass(frozen=True, slots=True)
class ShmSegment:
    """A file in /dev/shm. (device, inode) tells it from a later one of the same name."""

    path: str
    device: int
    inode: int


def members(
    processes: Iterable[ProcessFacts], engine: ProcessRef, run_dir: str, supervisor_pid: int = 0
) -> tuple[ProcessFacts, ...]:
    """The live processes of one engine, as `processes` shows them now (zombies hold nothing and are left out).

    A process belongs to the engine when it is in its session and the session is provably still that one: its leader
    lives with the recorded start time, or the process stands in the deployment's private folder (no other program
    does), or it is the supervisor's own child. The kernel gives a session's number to nobody else while a member
    lives, but all may have died since. Beside these: what the subreaper handed to the supervisor after it had left the
    session, and whatever a member started.
    """
    alive = [process for process in processes if process.state != "Z"]
    leader_lives = any(process.pid == engine.pid and process.started_at == engine.started_at for process in alive)

    def ours(process: ProcessFacts) -> bool:
        handed_over = bool(supervisor_pid) and process.parent == supervisor_pid
        if process.session == engine.pid:
            return leader_lives or handed_over or _stands_in(process, run_dir)
        return handed_over and _stands_in(process, run_dir)

    found = {process.pid for process in alive if ours(process)}
    while more := {process.pid for process in alive if process.parent in found} - found:
        found |= more
    return tuple(process for process in alive if process.pid in found)


def leader(processes: Iterable[ProcessFacts], run_dir: str) -> ProcessFacts | None:
    """The engine itself, where no record names it: it leads its session and stands in the deployment's private folder.

    The case: a supervisor was killed between its engine's start and the record of it.
    """
    leading = (process for process in processes if process.state != "Z" and process.session == process.pid)
    return next((process for process in leading if _stands_in(process, run_dir)), None)


def _stands_in(process: ProcessFacts, run_dir: str) -> bool:
    return isinstance(process.cwd, Known) and (process.cwd.value + "/").startswith(run_dir + "/")


def reference(process: ProcessFacts, boot_id: str) -> ProcessRef:
    return ProcessRef(process.pid, process.started_at, boot_id)
