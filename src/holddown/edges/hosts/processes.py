"""Processes as /proc shows them. One that ends while it is read is as if it had never been seen."""

import os
import pwd
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from holddown.base.evidence import Fact, Unknown, from_file
from holddown.facts.machine import ProcessFacts
from holddown.facts.proc import Stat, read_boot_time, read_cmdline, read_stat, read_uids

PROC = Path("/proc")
_GONE = (FileNotFoundError, ProcessLookupError)


def user_name(uid: int) -> str:
    """The login name, or `uid 1234` where no name is known (usual in containers)."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def pids() -> Iterator[int]:
    """Of every process that is visible."""
    return iter([int(name) for name in os.listdir(PROC) if name.isdigit()])  # noqa: PTH208 - names, not paths


def read_process(pid: int) -> ProcessFacts | None:
    """None when there is no such process (any more), or /proc hides it (hidepid)."""
    folder = PROC / str(pid)
    try:
        stat = read_stat(_text(folder / "stat"))
        uids = read_uids(_text(folder / "status"))
        title = read_cmdline((folder / "cmdline").read_bytes(), stat.name)
        cwd = _cwd(folder, stat)
        again = read_stat(_text(folder / "stat"))
    except (*_GONE, PermissionError, ValueError):
        return None
    if again.started_at != stat.started_at:
        # the pid passed to another process between two reads
        return None
    return ProcessFacts(
        pid=pid,
        started_at=stat.started_at,
        started_unix=_boot_time() + stat.started_at / os.sysconf("SC_CLK_TCK"),
        parent=stat.parent,
        session=stat.session,
        user=user_name(uids[0]) if uids else "unknown",
        name=stat.name,
        title=title,
        state=stat.state,
        rss_bytes=stat.rss_pages * os.sysconf("SC_PAGE_SIZE"),
        cwd=cwd,
    )


def _text(path: Path) -> str:
    # not read_text: a carriage return in a name is no line end
    return path.read_bytes().decode(errors="backslashreplace")


def _cwd(folder: Path, stat: Stat) -> Fact[str]:
    link = folder / "cwd"
    try:
        return from_file(str(link.readlink()), str(link))
    except PermissionError:
        return Unknown("this user may not read it")
    except OSError:
        # kernel threads and zombies have none
        return Unknown(f"it has no working directory (state {stat.state})")


@cache
def _boot_time() -> int:
    return read_boot_time((PROC / "stat").read_text())


def boot_id() -> str:
    """The kernel's name for this boot. Raises: OSError."""
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()
