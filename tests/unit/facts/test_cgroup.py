"""What control groups leave us."""

import pytest

from holddown.base.units import GIB
from holddown.facts.cgroup import (
    CpuQuota,
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
from holddown.facts.proc import Meminfo, read_mountinfo

V2 = read_mountinfo("29 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n")
HYBRID = read_mountinfo(
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
)
DOCKER_V1 = read_mountinfo("35 31 0:32 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n")


def test_every_ancestor_counts() -> None:
    """A limit may sit on any group of the path, so all are given, ours first."""
    found = groups(read_memberships("0::/user.slice/user-1000.slice/vllm.service\n"), V2, "memory")
    assert [group.directory for group in found] == [
        "/sys/fs/cgroup/user.slice/user-1000.slice/vllm.service",
        "/sys/fs/cgroup/user.slice/user-1000.slice",
        "/sys/fs/cgroup/user.slice",
        "/sys/fs/cgroup",
    ]
    assert {group.version for group in found} == {2}


def test_a_hybrid_machine_has_both_versions() -> None:
    """Where version 1 holds the controller, its folders are looked at, and version 2's as well."""
    text = "4:memory:/job/7\n1:cpu,cpuacct:/\n0::/\n"
    found = [(group.version, group.directory) for group in groups(read_memberships(text), HYBRID, "memory")]
    assert (1, "/sys/fs/cgroup/memory/job/7") in found
    assert (1, "/sys/fs/cgroup/memory") in found
    assert (1, "/sys/fs/cgroup/cpu,cpuacct") not in found
    assert (2, "/sys/fs/cgroup/unified") in found


@pytest.mark.parametrize(
    ("line", "directories"),
    [
        ("4:memory:/docker/ab/sub\n", ["/sys/fs/cgroup/memory/sub", "/sys/fs/cgroup/memory"]),
        ("4:memory:/docker/ab\n", ["/sys/fs/cgroup/memory"]),
        ("4:memory:/docker/abc\n", ["/sys/fs/cgroup/memory"]),
        ("4:memory:/../other\n", ["/sys/fs/cgroup/memory"]),
    ],
)
def test_a_container_sees_its_own_group_at_the_mount(line: str, directories: list[str]) -> None:
    """The host's path is cut to what is mounted; a path outside of it leaves the mount point."""
    assert [group.directory for group in groups(read_memberships(line), DOCKER_V1, "memory")] == directories


@pytest.mark.parametrize(
    ("text", "cpus"), [("200000 100000\n", 2.0), ("50000 100000", 0.5), ("max 100000\n", None), ("", None)]
)
def test_cpu_max(text: str, cpus: float | None) -> None:
    """Quota over period, and none for `max` or a file that is not there."""
    assert read_cpu_max(text) == cpus


@pytest.mark.parametrize(("quota", "cpus"), [("150000", 1.5), ("-1", None), ("", None), ("0", None)])
def test_cfs_quota(quota: str, cpus: float | None) -> None:
    """Version 1 writes no quota as -1."""
    assert read_cfs_quota(quota, "100000") == cpus


@pytest.mark.parametrize(
    ("text", "limit"),
    [("max\n", None), ("9223372036854771712\n", None), ("1048576\n", 1048576), ("0\n", 0), ("", None)],
)
def test_limit(text: str, limit: int | None) -> None:
    """Both versions' ways to write no limit are none; 0 is a limit."""
    assert read_limit(text) == limit


def test_file_cache_is_reclaimable_and_shared_memory_is_not() -> None:
    """Version 1's sums of the hierarchy win over the group's own figures."""
    v2 = "anon 5\nfile 1000\nshmem 900\nactive_file 60\ninactive_file 40\n"
    assert read_reclaimable(v2) == 100
    v1 = "active_file 1\ninactive_file 1\nshmem 3\ntotal_active_file 70\ntotal_inactive_file 30\n"
    assert read_reclaimable(v1) == 100


def test_the_tightest_group_bounds_memory() -> None:
    """Limit and available are bound each by the least, and the because names both."""
    limits = (
        MemoryLimit("/a/b", limit_bytes=8 * GIB, current_bytes=3 * GIB, reclaimable_bytes=2 * GIB),
        MemoryLimit("/a", limit_bytes=16 * GIB, current_bytes=15 * GIB, reclaimable_bytes=0),
    )
    memory = bound_memory(Meminfo(64 * GIB, 60 * GIB, 0), limits)
    assert memory.limit_bytes == 8 * GIB
    assert memory.available_bytes == 1 * GIB
    assert memory.because.startswith("cgroup /a/b allows 8.0 GiB; available is what cgroup /a has left")


def test_without_limits_the_machine_bounds_memory() -> None:
    """A limit above the machine's memory bounds nothing."""
    memory = bound_memory(Meminfo(4 * GIB, 3 * GIB, 0), (MemoryLimit("/", 2**50, 0, 0),))
    assert (memory.limit_bytes, memory.available_bytes) == (4 * GIB, 3 * GIB)
    assert "MemTotal" in memory.because


def test_a_group_over_its_limit_has_nothing_left() -> None:
    """Use above a limit that was lowered meanwhile is nothing available, not a negative amount."""
    memory = bound_memory(Meminfo(4 * GIB, 3 * GIB, 0), (MemoryLimit("/x", GIB, 2 * GIB, 0),))
    assert memory.available_bytes == 0


@pytest.mark.parametrize(
    ("allowed", "quotas", "usable", "because"),
    [
        (8, (), 8.0, "all of them"),
        (2, (), 2.0, "affinity allows 2 of 8"),
        (8, (CpuQuota("/a", 4.0), CpuQuota("/", 1.5)), 1.5, "cgroup / has a quota of 1.5"),
        (2, (CpuQuota("/a", 4.0),), 2.0, "affinity"),
    ],
)
def test_the_tightest_bounds_cpus(allowed: int, quotas: tuple[CpuQuota, ...], usable: float, because: str) -> None:
    """The least of affinity and quotas wins, and the because says which."""
    found, why = bound_cpus(8, allowed, quotas)
    assert found == usable
    assert because in why


@pytest.mark.parametrize(
    ("text", "kills"),
    [
        ("low 0\nhigh 0\nmax 12\noom 1\noom_kill 3\noom_group_kill 1\n", 3),
        ("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n", 2),
        ("oom_kill_disable 0\nunder_oom 0\n", 0),
        ("", 0),
        ("oom_kill many\noom_kill\n", 0),
    ],
)
def test_kills_for_want_of_memory_are_counted(text: str, kills: int) -> None:
    """Version 2's events, version 1's control, and files that tell nothing."""
    assert read_oom_kills(text) == kills
