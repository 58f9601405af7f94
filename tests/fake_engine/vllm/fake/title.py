"""Process titles as the setproctitle package sets them: over the memory of the command line, and in `comm`."""

import ctypes
import sys
from pathlib import Path


def set_title(title: str) -> None:
    """Afterwards /proc/PID/cmdline shows `title`. Does nothing where there is no /proc."""
    if not sys.platform.startswith("linux"):
        return
    Path("/proc/self/comm").write_text(title[:15])
    # after the last ')' because a process name may hold spaces; arg_start and arg_end are fields 48 and 49 (proc(5))
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    room = end - start
    text = title.encode()[: room - 1]
    ctypes.memmove(start, text.ljust(room, b"\0"), room)
