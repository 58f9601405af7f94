"""What this machine is, as it allows us to use it: cgroup limits where there are any, not only /proc."""

from dataclasses import dataclass

from holddown.base.evidence import Fact


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """One process. (pid, started_at) names it for good: a pid alone may belong to another program tomorrow.

    started_at: clock ticks since boot, field 22 of /proc/PID/stat; exact, unlike a wall-clock time.
    session: session id (the pid of the session leader). title: the command line, or the name in brackets.
    Facts are Unknown where /proc does not let this user read them.
    """

    pid: int
    started_at: int
    started_unix: float
    parent: int
    session: int
    user: str
    name: str
    title: str
    state: str
    rss_bytes: int
    cwd: Fact[str]


@dataclass(frozen=True, slots=True)
class Cpu:
    """usable: CPUs' worth of time that affinity and cgroup quota leave us; may be fractional."""

    model: str
    logical: int
    physical: Fact[int]
    usable: float
    usable_because: str
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Memory:
    """limit_bytes: what this process may use at most (the least of MemTotal and the cgroups' limits).
    available_bytes: what it may still take now. because: which of them bound it."""

    total_bytes: int
    limit_bytes: int
    available_bytes: int
    swap_total_bytes: int
    because: str


@dataclass(frozen=True, slots=True)
class Disk:
    """The file system that holds `path`."""

    path: str
    mount: str
    fstype: str
    total_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """Who holds memory of a GPU. process is Unknown where NVML names a pid that this user or namespace cannot see."""

    pid: int
    used_bytes: Fact[int]
    process: Fact[ProcessFacts]


@dataclass(frozen=True, slots=True)
class GpuLink:
    """From one GPU to another. kind: NV<n> (n NVLink lanes), PIX, PXB, PHB, NODE, SYS as in `nvidia-smi topo -m`."""

    peer: int
    kind: str


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU through NVML. compute_capability: "9.0". pcie: "Gen5 x16"."""

    index: int
    uuid: str
    name: str
    total_bytes: int
    free_bytes: int
    compute_capability: Fact[str]
    pcie: Fact[str]
    links: tuple[GpuLink, ...]
    processes: tuple[GpuProcess, ...]


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """schema_version grows when a field changes its meaning; a record of an older one stays readable.

    boot_id: the kernel's, changes at every reboot. captured_at: seconds since the epoch.
    """

    schema_version: int
    captured_at: float
    hostname: str
    boot_id: str
    user: str
    kernel: str
    cpu: Cpu
    memory: Memory
    disks: tuple[Disk, ...]
    shm: Fact[Disk]
    open_files_soft: int
    open_files_hard: int
    driver: Fact[str]
    gpus: tuple[Gpu, ...]
    gpus_because: str
