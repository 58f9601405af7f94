"""`clean`: what dead engines left behind, and its removal."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holddown.base.errors import UsageError
from holddown.facts.leftovers import Ended, Held, Kept, KnownEngine, NotEnded, Removed, Traces
from holddown.facts.machine import Gpu, GpuProcess, ProcessFacts
from holddown.launch.leftovers import (
    Claim,
    FileVerdict,
    ProcessVerdict,
    Standing,
    is_holddown,
    judge_files,
    judge_processes,
)
from holddown.ports import Host, Leftovers
from holddown.remember.record import Deployment


@dataclass(frozen=True, slots=True)
class GpuShare:
    """What a process holds of one GPU."""

    gpu: int
    holder: GpuProcess


@dataclass(frozen=True, slots=True)
class Suspect:
    """A process that may be ended, and what it holds. named: by the user, with --pid."""

    verdict: ProcessVerdict
    held: Held
    gpus: tuple[GpuShare, ...]
    named: bool

    @property
    def may_end(self) -> bool:
        return self.named or self.verdict.claim is Claim.LOST


@dataclass(frozen=True, slots=True)
class Survey:
    """in_use: processes of deployments that are up, which are left alone."""

    suspects: tuple[Suspect, ...]
    files: tuple[FileVerdict, ...]
    in_use: int

    @property
    def ending(self) -> tuple[Suspect, ...]:
        return tuple(suspect for suspect in self.suspects if suspect.may_end)

    @property
    def removable(self) -> tuple[FileVerdict, ...]:
        return tuple(verdict for verdict in self.files if verdict.standing is Standing.DEAD)

    @property
    def clean(self) -> bool:
        """Nothing is left of dead engines, nor anything that might be. What a live process uses is no leftover."""
        return not self.suspects and all(verdict.standing is Standing.IN_USE for verdict in self.files)


@dataclass(frozen=True, slots=True)
class Swept:
    """What was done. left: as it stands afterwards."""

    ended: tuple[Ended | NotEnded, ...]
    files: tuple[Removed | Kept, ...]
    left: Survey


def known_engines(deployments: Iterable[Deployment]) -> tuple[KnownEngine, ...]:
    """Out of the record. One without an engine yet is known by its private folder alone."""
    known = []
    for deployment in deployments:
        engine = deployment.status.engine
        known.append(
            KnownEngine(
                deployment_id=deployment.birth.id,
                session_pid=engine.pid if engine else 0,
                started_at_ticks=engine.started_at if engine else 0,
                boot_id=engine.boot_id if engine else deployment.birth.boot_id,
                active=not deployment.status.state.over,
                run_dir=deployment.birth.run_dir,
            )
        )
    return tuple(known)


def survey(host: Host, leftovers: Leftovers, known: tuple[KnownEngine, ...], pids: Sequence[int] = ()) -> Survey:
    """Looks, and changes nothing. pids: those that the user named. Raises: UsageError, MachineError."""
    traces = leftovers.look(host.processes())
    verdicts = judge_processes(traces, known)
    named = _named(pids, traces, verdicts)
    suspects = [verdict for verdict in verdicts if verdict.claim is not Claim.ACTIVE]
    suspects += [verdict for verdict in named if verdict not in suspects]
    gpus = host.facts().gpus if suspects else ()
    return Survey(
        suspects=tuple(_suspect(verdict, leftovers, gpus, pids) for verdict in suspects),
        files=judge_files(traces, known),
        in_use=sum(verdict.claim is Claim.ACTIVE for verdict in verdicts),
    )


def _suspect(verdict: ProcessVerdict, leftovers: Leftovers, gpus: tuple[Gpu, ...], pids: Sequence[int]) -> Suspect:
    pid = verdict.process.pid
    shares = tuple(GpuShare(gpu.index, holder) for gpu in gpus for holder in gpu.processes if holder.pid == pid)
    return Suspect(verdict, leftovers.held(pid), shares, named=pid in pids)


def _named(pids: Sequence[int], traces: Traces, verdicts: tuple[ProcessVerdict, ...]) -> tuple[ProcessVerdict, ...]:
    """Verdicts on the processes that the user named. Raises: UsageError with every one that must not be ended."""
    alive = {process.pid: process for process in traces.processes}
    judged = {verdict.process.pid: verdict for verdict in verdicts}
    forbidden = _own_line(traces.own_pid, alive)
    named, faults = [], []
    for pid in pids:
        process = alive.get(pid)
        verdict = judged.get(pid)
        if process is None:
            faults.append(f"there is no process {pid}")
        elif pid in forbidden:
            faults.append(f"pid {pid} ({process.name}) is this command itself, or what it runs under")
        elif is_holddown(process.title):
            faults.append(f"pid {pid} supervises a deployment: holddown down ends both")
        elif verdict is not None and verdict.claim is Claim.ACTIVE:
            faults.append(f"pid {pid}: {verdict.because}: holddown down ends it")
        elif process.parent in (0, 2) and process.title == f"[{process.name}]":
            faults.append(f"pid {pid} ({process.name}) is a thread of the kernel")
        else:
            named.append(verdict or ProcessVerdict(process, Claim.FOREIGN, "named by you; not seen as a leftover"))
    if faults:
        raise UsageError("not every --pid may be ended", code="clean.pid", seen="; ".join(faults))
    return tuple(named)


def _own_line(own_pid: int, alive: dict[int, ProcessFacts]) -> set[int]:
    """This process and its ancestors, and process 1 whatever it is."""
    line, pid = {1}, own_pid
    while pid in alive and pid not in line:
        line.add(pid)
        pid = alive[pid].parent
    return line


def sweep(
    host: Host, leftovers: Leftovers, known: tuple[KnownEngine, ...], shown: Survey, pids: Sequence[int] = ()
) -> Swept:
    """Ends and removes what `shown` said it would, each judged anew; what only ended processes held goes too."""
    ended: tuple[Ended | NotEnded, ...] = ()
    if shown.ending:
        ended = leftovers.end([suspect.verdict.process for suspect in shown.ending])
    seen = {verdict.file.id for verdict in shown.files}
    now = judge_files(leftovers.look(host.processes()), known)
    files = tuple(
        leftovers.remove(verdict.file)
        for verdict in now
        if verdict.standing is Standing.DEAD and verdict.file.id in seen
    )
    gone = {result.pid for result in ended if isinstance(result, Ended)}
    # one that would not end may have ended since; it is no longer a name to complain of
    still = [pid for pid in pids if pid not in gone and host.process(pid) is not None]
    return Swept(ended, files, survey(host, leftovers, known, still))
