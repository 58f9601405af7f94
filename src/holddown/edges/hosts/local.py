"""This machine, through /proc, /sys/fs/cgroup and NVML."""

import os
import platform
import resource
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from holddown.base.errors import MachineError
from holddown.base.evidence import Fact, Unknown, from_probe
from holddown.edges.hosts import binding, nvml, processes
from holddown.facts.cgroup import (
    CpuQuota,
    Group,
    MemoryLimit,
    bound_cpus,
    bound_memory,
    groups,
    read_cfs_quota,
    read_cpu_max,
    read_limit,
    read_memberships,
    read_oom_kills,
    read_reclaimable,
)
from holddown.facts.machine import Cpu, Disk, MachineFacts, Memory, ProcessFacts
from holddown.facts.proc import Mount, mount_of, read_cpuinfo, read_meminfo, read_mountinfo

SCHEMA_VERSION = 1
_PROC = processes.PROC
_SHM = "/dev/shm"


class LocalHost:
    """Port `Host`."""

    def facts(self, paths: Sequence[str] = ()) -> MachineFacts:
        try:
            mounts = _mounts()
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            gpus = nvml.read_gpus(processes.read_process)
            return MachineFacts(
                schema_version=SCHEMA_VERSION,
                captured_at=time.time(),
                hostname=socket.gethostname(),
                boot_id=processes.boot_id(),
                user=processes.user_name(os.geteuid()),
                kernel=platform.release(),
                cpu=_cpu(mounts),
                memory=_memory(mounts),
                disks=_disks(("/", *paths), mounts),
                shm=_shm(mounts),
                open_files_soft=soft,
                open_files_hard=hard,
                driver=gpus.driver,
                gpus=gpus.gpus,
                gpus_because=gpus.because,
            )
        except (OSError, ValueError) as error:
            raise MachineError(
                "the machine could not be read", code="machine.unreadable", seen=str(error), do="is /proc mounted?"
            ) from error

    def processes(self) -> tuple[ProcessFacts, ...]:
        found = (processes.read_process(pid) for pid in sorted(processes.pids()))
        return tuple(facts for facts in found if facts is not None)

    def process(self, pid: int) -> ProcessFacts | None:
        return processes.read_process(pid)

    def disk(self, path: str) -> Disk:
        """Of a path that is not there yet: the file system where it would be made. Raises: MachineError."""
        try:
            return _disk(path, _mounts())
        except OSError as error:
            raise MachineError(f"{path} could not be looked at", code="machine.disk", seen=str(error)) from error

    def port_holder(self, host: str, port: int) -> str | None:
        return binding.port_holder(host, port)

    def gpu_loads(self, indices: Sequence[int]) -> tuple[int | None, ...]:
        return nvml.read_loads(indices)

    def energy_joules(self, gpus: Sequence[int]) -> Fact[float]:
        return nvml.energy_joules(gpus)

    def oom_kills(self) -> int:
        return _oom_kills(_mounts())


def _oom_kills(mounts: tuple[Mount, ...]) -> int:
    own = _groups(mounts, "memory")[:1]
    names = {1: "memory.oom_control", 2: "memory.events"}
    return sum(read_oom_kills(_word(group, names[group.version])) for group in own)


def _mounts() -> tuple[Mount, ...]:
    return read_mountinfo((_PROC / "self/mountinfo").read_text(errors="backslashreplace"))


def _groups(mounts: tuple[Mount, ...], controller: str) -> tuple[Group, ...]:
    try:
        text = (_PROC / "self/cgroup").read_text()
    except FileNotFoundError:
        # a kernel without control groups
        return ()
    return groups(read_memberships(text), mounts, controller)


def _word(group: Group, name: str) -> str:
    """A group's file, empty where it is not there: the root group has no limits, and a controller may be off."""
    try:
        return Path(group.directory, name).read_text()
    except OSError:
        return ""


def _cpu(mounts: tuple[Mount, ...]) -> Cpu:
    info = read_cpuinfo((_PROC / "cpuinfo").read_text())
    quotas = []
    for group in _groups(mounts, "cpu"):
        if group.version == 2:
            cpus = read_cpu_max(_word(group, "cpu.max"))
        else:
            cpus = read_cfs_quota(_word(group, "cpu.cfs_quota_us"), _word(group, "cpu.cfs_period_us"))
        if cpus is not None:
            quotas.append(CpuQuota(group.label, cpus))
    logical, allowed = os.cpu_count() or 1, len(os.sched_getaffinity(0))
    usable, because = bound_cpus(logical, allowed, tuple(quotas))
    return Cpu(
        model=info.model or platform.machine(),
        logical=logical,
        physical=info.physical,
        usable=usable,
        usable_because=because,
        flags=info.flags,
    )


def _memory(mounts: tuple[Mount, ...]) -> Memory:
    limits = []
    for group in _groups(mounts, "memory"):
        names = ("memory.max", "memory.current") if group.version == 2 else _V1_MEMORY
        limit, current = (read_limit(_word(group, name)) for name in names)
        if limit is not None:
            reclaimable = read_reclaimable(_word(group, "memory.stat"))
            limits.append(MemoryLimit(group.label, limit, current or 0, reclaimable))
    return bound_memory(read_meminfo((_PROC / "meminfo").read_text()), tuple(limits))


_V1_MEMORY = ("memory.limit_in_bytes", "memory.usage_in_bytes")


def _disk(path: str, mounts: tuple[Mount, ...]) -> Disk:
    place = Path(os.path.realpath(path))  # pathlib raises RuntimeError for a link to itself
    while not place.exists():
        place = place.parent
    mount = mount_of(str(place), mounts)
    size = os.statvfs(place)
    return Disk(
        path=path,
        mount=mount.point if mount else "/",
        fstype=mount.fstype if mount else "unknown",
        total_bytes=size.f_blocks * size.f_frsize,
        # what an unprivileged user may still take; root's reserve is not for weights and logs
        free_bytes=size.f_bavail * size.f_frsize,
    )


def _disks(paths: Sequence[str], mounts: tuple[Mount, ...]) -> tuple[Disk, ...]:
    """One per file system, in the order asked for."""
    by_mount: dict[str, Disk] = {}
    for path in paths:
        disk = _disk(path, mounts)
        by_mount.setdefault(disk.mount, disk)
    return tuple(by_mount.values())


def _shm(mounts: tuple[Mount, ...]) -> Fact[Disk]:
    if not Path(_SHM).is_dir():
        return Unknown(f"there is no {_SHM}")
    return from_probe(_disk(_SHM, mounts), f"statvfs {_SHM}")
