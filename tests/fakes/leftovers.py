"""A machine with traces of engines, in memory."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from holddown.base.evidence import Fact, Known, Source, SourceKind, Unknown
from holddown.facts.leftovers import Ended, FoundFile, Held, Kept, Namespaces, NotEnded, Removed, Traces, View
from holddown.facts.machine import Cpu, Disk, Gpu, MachineFacts, Memory, ProcessFacts

HERE = Source(SourceKind.PROBE, "fake")
OWN = Namespaces("ipc:[1]", "pid:[1]", "mnt:[1]", "0:2")
TRACES = Traces(
    looked_at=10_000.0,
    boot_id="boot",
    own_uid=1000,
    own_user="me",
    own_pid=900,
    own_namespaces=Known(OWN, HERE),
    private_roots=("/tmp/holddown-1000",),
    files=(),
    views=(),
    processes=(),
    bound_sockets=(),
)


def process(
    pid: int, title: str, *, parent: int = 1, session: int = 0, user: str = "me", cwd: str = "/"
) -> ProcessFacts:
    """started_at is 100 times the pid: whoever has a higher pid came later."""
    return ProcessFacts(
        pid=pid,
        started_at=pid * 100,
        started_unix=float(pid),
        parent=parent,
        session=session or pid,
        user=user,
        name=title.split()[0].rsplit("/", 1)[-1][:15],
        title=title,
        state="S",
        rss_bytes=pid * 1024,
        cwd=Known(cwd, HERE),
    )


def view(pid: int, *, uid: int = 1000, namespaces: Namespaces = OWN) -> View:
    return View(pid, "python", (uid,) * 4, Known(frozenset(), HERE), Known(namespaces, HERE))


@dataclass
class FakeHost:
    """Port `Host`: the processes that are alive, and no GPU unless given."""

    alive: list[ProcessFacts] = field(default_factory=list)
    gpus: tuple[Gpu, ...] = ()

    def facts(self, paths: Sequence[str] = ()) -> MachineFacts:
        return MachineFacts(
            schema_version=1,
            captured_at=0.0,
            hostname="h",
            boot_id="boot",
            user="me",
            kernel="6",
            cpu=Cpu("c", 1, Unknown("fake"), 1.0, "all", ()),
            memory=Memory(1, 1, 1, 0, "-"),
            disks=(),
            shm=Unknown("fake"),
            open_files_soft=1,
            open_files_hard=1,
            driver=Unknown("fake"),
            gpus=self.gpus,
            gpus_because="",
        )

    def processes(self) -> tuple[ProcessFacts, ...]:
        return tuple(self.alive)

    def process(self, pid: int) -> ProcessFacts | None:
        return next((one for one in self.alive if one.pid == pid), None)

    def disk(self, path: str) -> Disk:
        return Disk(path, "/", "ext4", 1, 1)

    def port_holder(self, host: str, port: int) -> str | None:
        return None

    def gpu_loads(self, indices: Sequence[int]) -> tuple[int | None, ...]:
        return (None,) * len(indices)

    def energy_joules(self, gpus: Sequence[int]) -> Fact[float]:
        return Unknown("a fake")

    def oom_kills(self) -> int:
        return 0


@dataclass
class FakeLeftovers:
    """Port `Leftovers`. What is ended leaves `host`, and lets go of the files that it held."""

    host: FakeHost
    traces: Traces
    ended: list[int] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    stubborn: frozenset[int] = frozenset()

    def look(self, processes: tuple[ProcessFacts, ...]) -> Traces:
        files = tuple(file for file in self.traces.files if file.path not in self.removed)
        views = tuple(one for one in self.traces.views if one.pid not in self.ended)
        return replace(self.traces, files=files, views=views, processes=processes)

    def held(self, pid: int) -> Held:
        return Held(("/dev/shm/psm_x",), (8000,))

    def remove(self, file: FoundFile) -> Removed | Kept:
        self.removed.append(file.path)
        return Removed(file.path)

    def end(self, targets: Sequence[ProcessFacts]) -> tuple[Ended | NotEnded, ...]:
        return tuple(self._end(target) for target in targets)

    def _end(self, target: ProcessFacts) -> Ended | NotEnded:
        if target.pid in self.stubborn:
            return NotEnded(target.pid, "it belongs to bob")
        self.ended.append(target.pid)
        self.host.alive = [one for one in self.host.alive if one.pid != target.pid]
        return Ended(target.pid, "SIGTERM")
