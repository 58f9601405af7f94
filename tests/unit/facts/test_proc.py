"""Readers of /proc texts."""

import pytest

from holddown.base.evidence import Known, Unknown
from holddown.facts.proc import (
    mount_of,
    read_boot_time,
    read_cmdline,
    read_cpuinfo,
    read_meminfo,
    read_mountinfo,
    read_stat,
    read_uids,
)

STAT = (
    "4821 (VLLM::EngineCor) S 4790 4790 4790 34816 4790 4194304 98 0 0 0 5 2 0 0 20 0 31 0 "
    "777123 8123456 2048 18446744073709551615 1 1 0 0 0 0"
)


@pytest.mark.parametrize("name", ["python", "a b", "a) S 1 (b", "((", ")", ""])
def test_stat_survives_any_name(name: str) -> None:
    """Blanks and parentheses in a process's name do not shift the fields after it."""
    stat = read_stat(STAT.replace("VLLM::EngineCor", name))
    assert (stat.name, stat.state, stat.parent, stat.session) == (name, "S", 4790, 4790)
    assert (stat.pid, stat.started_at, stat.rss_pages) == (4821, 777123, 2048)


@pytest.mark.parametrize("text", ["", "12", "12 (x) S 1", "12 x S 1 2 3", ")("])
def test_stat_cut_short_is_an_error(text: str) -> None:
    """A line that is cut short gives no facts."""
    with pytest.raises(ValueError, match="not a stat line"):
        read_stat(text)


@pytest.mark.parametrize(
    ("data", "title"),
    [
        (b"python\0-m\0vllm.x\0", "python -m vllm.x"),
        (b"VLLM::EngineCore\0\0\0\0\0\0", "VLLM::EngineCore"),
        (b"VLLM::Worker_TP0   \0\0", "VLLM::Worker_TP0"),
        (b"", "[kthreadd]"),
        (b"\0\0", "[kthreadd]"),
        (b"a\xff\0", "a\\xff"),
    ],
)
def test_cmdline_is_the_title(data: bytes, title: str) -> None:
    """Arguments are joined, padding is dropped, and without any the name in brackets stands."""
    assert read_cmdline(data, "kthreadd") == title


def test_uids_and_boot_time() -> None:
    """Real, effective, saved and file-system ids are read; a missing boot time is an error."""
    assert read_uids("Name:\tx\nUid:\t1000\t0\t1000\t1000\nGid:\t5\t5\t5\t5\n") == (1000, 0, 1000, 1000)
    assert read_uids("Name:\tx\n") == ()
    assert read_boot_time("cpu 1 2\nbtime 1700000000\n") == 1700000000
    with pytest.raises(ValueError, match="btime"):
        read_boot_time("cpu 1 2\n")


def test_meminfo_is_in_bytes() -> None:
    """The kernel's kB are 1024 bytes, and no swap is 0."""
    found = read_meminfo("MemTotal:   24683120 kB\nMemFree: 1 kB\nMemAvailable:  100 kB\nHugePages_Total:  0\n")
    assert (found.total_bytes, found.available_bytes, found.swap_total_bytes) == (24683120 * 1024, 102400, 0)


def test_meminfo_without_available_is_an_error() -> None:
    """A kernel that does not print MemAvailable is said so, not taken for one with none."""
    with pytest.raises(ValueError, match="no MemAvailable"):
        read_meminfo("MemTotal: 5 kB\n")


def test_cpuinfo_counts_cores_of_all_packages() -> None:
    """Hyper-threads share a core; equal core ids in two packages are two cores."""
    rows = [(0, 0), (0, 0), (0, 1), (1, 0)]
    text = "\n\n".join(
        f"processor\t: {at}\nmodel name\t: EPYC 9\nphysical id\t: {package}\ncore id\t\t: {core}\nflags\t\t: fpu avx2"
        for at, (package, core) in enumerate(rows)
    )
    found = read_cpuinfo(text)
    assert found.model == "EPYC 9"
    assert found.flags == ("fpu", "avx2")
    assert isinstance(found.physical, Known)
    assert found.physical.value == 3


def test_cpuinfo_of_arm_has_no_model() -> None:
    """aarch64 prints features and no core ids: the count of cores is unknown, not 0."""
    found = read_cpuinfo("processor\t: 0\nFeatures\t: fp asimd sve\n")
    assert found.model == ""
    assert found.flags == ("fp", "asimd", "sve")
    assert isinstance(found.physical, Unknown)


MOUNTS = """27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
30 25 0:27 / /dev/shm rw,relatime - tmpfs tmpfs rw,size=24684096k
31 27 0:30 / /data/big\\040disk rw shared:1 master:2 - xfs /dev/sdb rw
32 27 0:31 / /data rw - btrfs /dev/sdc rw
33 27 0:32 /sub /data rw - ext4 /dev/sdd rw
nonsense
"""


@pytest.mark.parametrize(
    ("path", "point", "fstype"),
    [
        ("/dev/shm/x", "/dev/shm", "tmpfs"),
        ("/dev/shmoo", "/", "ext4"),
        ("/data/big disk/m", "/data/big disk", "xfs"),
        ("/data", "/data", "ext4"),
        ("/", "/", "ext4"),
    ],
)
def test_mount_of_is_the_innermost_and_newest(path: str, point: str, fstype: str) -> None:
    """The longest mount point that holds the path wins, and of two the one mounted later."""
    mount = mount_of(path, read_mountinfo(MOUNTS))
    assert mount is not None
    assert (mount.point, mount.fstype) == (point, fstype)
