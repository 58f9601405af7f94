"""Readers for the kernel's texts under /proc: text in, facts out."""

from dataclasses import dataclass

from holddown.base.evidence import Fact, Unknown, from_file

_PF_KTHREAD = 0x00200000


@dataclass(frozen=True, slots=True)
class Stat:
    """What /proc/PID/stat says. started_at: clock ticks since boot; rss_pages: resident memory in pages.

    kernel: a thread of the kernel itself: it has no files, no memory of its own, and cannot be signalled.
    """

    pid: int
    name: str
    state: str
    parent: int
    session: int
    started_at: int
    rss_pages: int
    kernel: bool
    cpu_ticks: int


@dataclass(frozen=True, slots=True)
class Meminfo:
    """/proc/meminfo, in bytes."""

    total_bytes: int
    available_bytes: int
    swap_total_bytes: int


@dataclass(frozen=True, slots=True)
class Cpuinfo:
    """/proc/cpuinfo. model: empty where this architecture's kernel does not print one."""

    model: str
    physical: Fact[int]
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of /proc/self/mountinfo. root: the part of the file system that is mounted there."""

    root: str
    point: str
    fstype: str
    options: tuple[str, ...]


def read_stat(text: str) -> Stat:
    """Fields after the name are counted from its last parenthesis: a name may hold spaces and parentheses itself.

    Source: proc_pid_stat(5); state is field 3, ppid 4, session 6, flags 9, utime 14, stime 15, starttime 22, rss 24;
    PF_KTHREAD in the kernel's sched.h.
    Raises: ValueError when the line is cut short.
    """
    opening, closing = text.find("("), text.rfind(")")
    after = text[closing + 1 :].split()
    if opening < 0 or closing < opening or len(after) < 22:
        raise ValueError(f"not a stat line: {text[:80]!r}")
    return Stat(
        pid=int(text[:opening]),
        name=text[opening + 1 : closing],
        state=after[0],
        parent=int(after[1]),
        session=int(after[3]),
        started_at=int(after[19]),
        rss_pages=int(after[21]),
        kernel=bool(int(after[6]) & _PF_KTHREAD),
        cpu_ticks=int(after[11]) + int(after[12]),
    )


def read_cmdline(data: bytes, name: str) -> str:
    """The command line as one text. A title set by setproctitle lies in the same place, padded with zero bytes.

    A kernel thread or a zombie has none: its name in brackets stands for it, as in ps.
    """
    words = data.rstrip(b"\0 ").split(b"\0")
    title = " ".join(word.decode(errors="backslashreplace") for word in words).strip()
    return title or f"[{name}]"


def read_uids(status: str) -> tuple[int, ...]:
    """Real, effective, saved and file-system user id out of /proc/PID/status; empty when the line is not there."""
    for line in status.split("\n"):
        if line.startswith("Uid:"):
            return tuple(int(word) for word in line.split()[1:])
    return ()


def read_boot_time(stat: str) -> int:
    """Seconds since the epoch at which the kernel started, out of /proc/stat. Raises: ValueError."""
    for line in stat.split("\n"):
        if line.startswith("btime "):
            return int(line.split()[1])
    raise ValueError("no btime line in /proc/stat")


def read_meminfo(text: str) -> Meminfo:
    """Raises: ValueError when the kernel prints no MemTotal or no MemAvailable (older than 3.14)."""
    found: dict[str, int] = {}
    for line in text.split("\n"):
        key, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdecimal():
            # the unit that the kernel writes as "kB" is 1024 bytes
            found[key] = int(words[0]) * (1024 if words[1:] == ["kB"] else 1)
    missing = [key for key in ("MemTotal", "MemAvailable") if key not in found]
    if missing:
        raise ValueError(f"/proc/meminfo has no {' and no '.join(missing)}")
    return Meminfo(found["MemTotal"], found["MemAvailable"], found.get("SwapTotal", 0))


def read_cpuinfo(text: str) -> Cpuinfo:
    """x86 prints `model name`, `flags` and ids of package and core; aarch64 prints `Features` alone."""
    model = ""
    flags: tuple[str, ...] = ()
    cores: set[tuple[str, str]] = set()
    package = "0"
    for line in text.split("\n"):
        key, _, value = (part.strip() for part in line.partition(":"))
        match key:
            case "model name" if not model:
                model = value
            case "flags" | "Features" if not flags:
                flags = tuple(value.split())
            case "physical id":
                package = value
            case "core id":
                cores.add((package, value))
            case _:
                pass
    physical: Fact[int] = Unknown("/proc/cpuinfo has no core ids")
    if cores:
        physical = from_file(len(cores), "/proc/cpuinfo, distinct (physical id, core id)")
    return Cpuinfo(model, physical, flags)


def _unescape(word: str) -> str:
    """Mount points hold blanks as octal escapes. Source: proc_pid_mountinfo(5)."""
    for escape, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        word = word.replace(escape, character)
    return word


def read_mountinfo(text: str) -> tuple[Mount, ...]:
    """In the order of mounting: of two with one mount point, the later hides the earlier."""
    mounts = []
    for line in text.split("\n"):
        left, separator, right = line.partition(" - ")
        words, tail = left.split(), right.split()
        if not separator or len(words) < 6 or not tail:
            continue
        # per-superblock options are the last word: there v1 cgroup mounts name their controllers
        options = tuple(tail[-1].split(",")) if len(tail) > 2 else ()
        mounts.append(Mount(_unescape(words[3]), _unescape(words[4]), tail[0], options))
    return tuple(mounts)


def mount_of(path: str, mounts: tuple[Mount, ...]) -> Mount | None:
    """The mount that holds `path`, which must be absolute and free of links."""
    best: Mount | None = None
    for mount in mounts:
        inside = mount.point == "/" or path == mount.point or path.startswith(mount.point + "/")
        if inside and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best
