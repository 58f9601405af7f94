"""A machine in memory on which engines are started, watched and ended: the doors `Host` and `Processes` at once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from fakes.facts import machine
from fakes.leftovers import process as a_process
from holddown.base.errors import LaunchError, MachineError
from holddown.base.evidence import Fact, Unknown, from_probe
from holddown.facts.machine import Disk, MachineFacts, ProcessFacts
from holddown.launch.events import Exit
from holddown.launch.lifecycle import ProcessRef
from holddown.launch.ownership import Activity, ShmSegment
from holddown.remember.record import Birth

BOOT = "boot-1"
SUPERVISOR = 900
ENGINE, CORE, WORKER = 1000, 1001, 1002
RUN_DIR = "/tmp/holddown-0/0123abcd"


def ref(pid: int) -> ProcessRef:
    return ProcessRef(pid, pid * 100, BOOT)


@dataclass
class FakeMachine:
    """stubborn: pids that SIGTERM does not end. no_child: the engine is not ours to wait for (an adopted one).

    exits: how the engine ends when it is told to. signalled: (SIGTERM or SIGKILL, pid) in order.
    """

    exits: int = 0
    stubborn: frozenset[int] = frozenset()
    no_child: bool = False
    refuses: LaunchError | None = None
    log_disk_free_bytes: int = 1 << 40
    disk_fails: bool = False
    working: bool = True
    grows_bytes: int = 0
    alive: dict[int, ProcessFacts] = field(default_factory=dict)
    signalled: list[tuple[str, int]] = field(default_factory=list)
    removed: list[tuple[frozenset[ShmSegment], str]] = field(default_factory=list)
    started: int = 0
    heads: list[str] = field(default_factory=list)
    dumped: list[str] = field(default_factory=list)
    stacks: Unknown | None = None
    gpu_load: int | None = None
    supervisors: list[str] = field(default_factory=list)
    reported: tuple[bytes, ...] = ()
    on_supervisor: Callable[[str], None] = lambda _: None
    status: int | None = None
    ticks: int = 0
    kills: int = 0

    # --- what a test does -------------------------------------------------------------------------------

    def add(self, pid: int, title: str, *, parent: int = 1, session: int = 0, cwd: str = "/") -> None:
        self.alive[pid] = a_process(pid, title, parent=parent, session=session, cwd=cwd)

    def engine_runs(self, supervisor: int = SUPERVISOR) -> None:
        """Its three processes."""
        self.add(ENGINE, "python -m vllm", parent=supervisor, cwd=RUN_DIR)
        self.add(CORE, "VLLM::EngineCore", parent=ENGINE, session=ENGINE, cwd=RUN_DIR)
        self.add(WORKER, "VLLM::Worker", parent=CORE, session=ENGINE, cwd=RUN_DIR)

    def ends(self, pid: int, status: int = 0) -> None:
        """Its children go to the supervisor, which is their subreaper."""
        self.alive.pop(pid, None)
        for orphan in [each for each in self.alive.values() if each.parent == pid]:
            self.alive[orphan.pid] = replace(orphan, parent=SUPERVISOR)
        if pid == ENGINE and self.status is None:
            self.status = status

    def all_end(self, status: int = 0) -> None:
        for pid in (ENGINE, CORE, WORKER):
            self.ends(pid, status)

    # --- Processes --------------------------------------------------------------------------------------

    def me(self) -> ProcessRef:
        return ref(SUPERVISOR)

    def start_engine(self, birth: Birth, head: str = "") -> ProcessRef:
        self.started += 1
        self.status = None
        self.heads.append(head)
        if self.refuses is not None:
            raise self.refuses
        self.engine_runs()
        return ref(ENGINE)

    def start_supervisor(self, deployment_id: str, log_path: str) -> ProcessRef:
        self.supervisors.append(deployment_id)
        self.on_supervisor(deployment_id)
        return ref(SUPERVISOR)

    def reports(self, run_dir: str) -> tuple[bytes, ...]:
        return self.reported

    def exit_of(self, engine: ProcessRef) -> Exit | None:
        there = self.alive.get(engine.pid)
        if there is not None and there.started_at == engine.started_at:
            return None
        return Exit(None if self.no_child else self.status)

    def activity(self, members: Sequence[ProcessFacts]) -> Activity:
        self.ticks += self.working
        return Activity(self.ticks * self.grows_bytes, 0, self.ticks)

    def keep_stacks(self, members: Sequence[ProcessFacts], executable: str, path: str, head: str) -> Fact[str]:
        self.dumped.append(head)
        return self.stacks if isinstance(self.stacks, Unknown) else from_probe(path, "fake")

    def shared_memory(self, members: Sequence[ProcessFacts]) -> frozenset[ShmSegment]:
        return frozenset(ShmSegment("/dev/shm/psm_1", 1, 7) for each in members if each.pid in (CORE, WORKER))

    def terminate(self, members: Sequence[ProcessRef]) -> None:
        for member in members:
            self._signal("SIGTERM", member)
            if member.pid not in self.stubborn:
                self._end(member.pid, self.exits)

    def kill(self, members: Sequence[ProcessRef]) -> None:
        for member in members:
            self._signal("SIGKILL", member)
            self._end(member.pid, -9)

    def _signal(self, name: str, member: ProcessRef) -> None:
        there = self.alive.get(member.pid)
        if there is not None:
            assert there.started_at == member.started_at, f"{name} to another program's pid {member.pid}"
            self.signalled.append((name, member.pid))

    def _end(self, pid: int, status: int) -> None:
        if pid == ENGINE and status != -9:
            self.all_end(status)  # a server that is told to stop ends its own processes
        else:
            self.ends(pid, status)

    def remove(self, segments: frozenset[ShmSegment], run_dir: str) -> None:
        self.removed.append((segments, run_dir))

    # --- Host -------------------------------------------------------------------------------------------

    def facts(self, paths: Sequence[str] = ()) -> MachineFacts:
        return machine()

    def processes(self) -> tuple[ProcessFacts, ...]:
        return tuple(self.alive.values())

    def process(self, pid: int) -> ProcessFacts | None:
        return self.alive.get(pid)

    def disk(self, path: str) -> Disk:
        if self.disk_fails:
            raise MachineError("cannot be looked at", code="machine.disk")
        return Disk(path, "/", "ext4", 1 << 40, self.log_disk_free_bytes)

    def gpu_loads(self, indices: Sequence[int]) -> tuple[int | None, ...]:
        return tuple(self.gpu_load for _ in indices)

    def energy_joules(self, gpus: Sequence[int]) -> Fact[float]:
        return Unknown("a fake")

    def oom_kills(self) -> int:
        return self.kills

    def port_holder(self, host: str, port: int) -> str | None:
        return None
