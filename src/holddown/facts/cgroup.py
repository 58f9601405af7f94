"""What control groups leave us. A limit of any ancestor binds: the least along the path wins."""

from dataclasses import dataclass

from holddown.base.units import size_text
from holddown.facts.machine import Memory
from holddown.facts.proc import Meminfo, Mount


@dataclass(frozen=True, slots=True)
class Membership:
    """One line of /proc/self/cgroup. controllers: empty for version 2."""

    controllers: tuple[str, ...]
    path: str

    @property
    def version(self) -> int:
        return 1 if self.controllers else 2


@dataclass(frozen=True, slots=True)
class Group:
    """A folder of the cgroup file system. label: its path as /proc/self/cgroup would give it."""

    directory: str
    label: str
    version: int


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """One group with a memory limit. reclaimable_bytes: file cache, which the kernel drops when memory is wanted."""

    label: str
    limit_bytes: int
    current_bytes: int
    reclaimable_bytes: int

    @property
    def available_bytes(self) -> int:
        return max(0, self.limit_bytes - max(0, self.current_bytes - self.reclaimable_bytes))


@dataclass(frozen=True, slots=True)
class CpuQuota:
    """One group with a CPU quota, in CPUs' worth of time."""

    label: str
    cpus: float


def read_memberships(text: str) -> tuple[Membership, ...]:
    """Source: cgroups(7), /proc/PID/cgroup: `hierarchy:controllers:path`."""
    found = []
    for line in text.split("\n"):
        _, controllers, path = (line.split(":", 2) + ["", ""])[:3]
        if path.startswith("/"):
            found.append(Membership(tuple(word for word in controllers.split(",") if word), path))
    return tuple(found)


def _mounts_for(membership: Membership, mounts: tuple[Mount, ...]) -> list[Mount]:
    if membership.version == 2:
        return [mount for mount in mounts if mount.fstype == "cgroup2"]
    wanted = set(membership.controllers)
    return [mount for mount in mounts if mount.fstype == "cgroup" and wanted & set(mount.options)]


def _below(path: str, root: str) -> str | None:
    """`path` relative to the mounted `root`, or None where it lies outside."""
    if root == "/":
        return path.strip("/")
    if path == root or path.startswith(root + "/"):
        return path[len(root) :].strip("/")
    return None


def groups(memberships: tuple[Membership, ...], mounts: tuple[Mount, ...], controller: str) -> tuple[Group, ...]:
    """Every group that binds us for `controller` (`cpu`, `memory`), ours first, then its ancestors up to the mount.

    A path that leads out of what is mounted (a container that sees the host's path, `/../..` of a cgroup namespace)
    leaves the mount point itself, which is our own group there.
    """
    found: list[Group] = []
    for membership in memberships:
        if membership.version == 1 and controller not in membership.controllers:
            continue
        for mount in _mounts_for(membership, mounts):
            below = _below(membership.path, mount.root)
            parts = below.split("/") if below and ".." not in below.split("/") else []
            for depth in range(len(parts), -1, -1):
                tail = "".join("/" + part for part in parts[:depth])
                found.append(Group(mount.point.rstrip("/") + tail, tail or "/", membership.version))
    return tuple(dict.fromkeys(found))


def read_cpu_max(text: str) -> float | None:
    """CPUs' worth of time out of version 2's `cpu.max` (`200000 100000` is 2); None for `max`."""
    words = text.split()
    if len(words) != 2 or not all(word.isdecimal() for word in words) or int(words[1]) == 0:
        return None
    return int(words[0]) / int(words[1])


def read_cfs_quota(quota: str, period: str) -> float | None:
    """CPUs' worth of time out of version 1's `cpu.cfs_quota_us` (-1: none) and `cpu.cfs_period_us`."""
    try:
        quota_us, period_us = int(quota), int(period)
    except ValueError:
        return None
    return quota_us / period_us if quota_us > 0 and period_us > 0 else None


def read_limit(text: str) -> int | None:
    """Bytes; None for `max`, and for version 1's way to write no limit: the largest page-aligned 63-bit number."""
    word = text.strip()
    if not word.isdecimal() or int(word) >= 2**62:
        return None
    return int(word)


def read_reclaimable(stat: str) -> int:
    """File cache of the group and those below it, out of `memory.stat`, in bytes.

    Shared memory (/dev/shm) is counted by the kernel among anonymous pages, rightly: it cannot be dropped.
    Version 1 has the hierarchy's sums under `total_`, beside the group's own.

    Source: the kernel's documentation of cgroup v1 memory and of cgroup v2.
    """
    found: dict[str, int] = {}
    for line in stat.split("\n"):
        words = line.split()
        if len(words) == 2 and words[1].isdecimal():
            found[words[0]] = int(words[1])
    return sum(found.get(f"total_{key}", found.get(key, 0)) for key in ("active_file", "inactive_file"))


def read_oom_kills(text: str) -> int:
    """How many processes of a group the kernel has killed for want of memory, out of version 2's `memory.events` or
    version 1's `memory.oom_control`; 0 where it does not tell (before Linux 4.13).

    Source: the kernel's documentation of cgroup v2; mm/memcontrol.c mem_cgroup_oom_control_read.
    """
    counts = (line.split() for line in text.split("\n"))
    return sum(int(words[1]) for words in counts if len(words) == 2 and words[0] == "oom_kill" and words[1].isdecimal())


def bound_memory(meminfo: Meminfo, limits: tuple[MemoryLimit, ...]) -> Memory:
    """The least of the machine's memory and every group's limit, and the least that is left of any of them."""
    limit_bytes, because = meminfo.total_bytes, "the machine's memory (MemTotal)"
    available_bytes, left_by = meminfo.available_bytes, "MemAvailable"
    for limit in limits:
        if limit.limit_bytes < limit_bytes:
            limit_bytes = limit.limit_bytes
            because = f"cgroup {limit.label} allows {size_text(limit.limit_bytes)}"
        if limit.available_bytes < available_bytes:
            available_bytes = limit.available_bytes
            left_by = f"what cgroup {limit.label} has left, file cache counted as free"
    return Memory(
        total_bytes=meminfo.total_bytes,
        limit_bytes=limit_bytes,
        available_bytes=min(available_bytes, limit_bytes),
        swap_total_bytes=meminfo.swap_total_bytes,
        because=f"{because}; available is {left_by}",
    )


def bound_cpus(logical: int, allowed: int, quotas: tuple[CpuQuota, ...]) -> tuple[float, str]:
    """CPUs' worth of time, and what bounds it: the affinity mask (cpusets show in it) or the tightest quota."""
    usable, because = float(allowed), "all of them"
    if allowed < logical:
        because = f"affinity allows {allowed} of {logical} CPUs"
    for quota in quotas:
        if quota.cpus < usable:
            usable, because = quota.cpus, f"cgroup {quota.label} has a quota of {quota.cpus:g} CPUs"
    return usable, because
