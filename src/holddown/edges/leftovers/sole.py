"""Whether anybody else has a file open: asked of the kernel, which knows it for every container and every user."""

import errno
import fcntl
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

_NOFOLLOW = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class InUse(Exception):
    """Somebody uses the file after all, or it is not the file that was judged."""


@contextmanager
def opened_folder(path: Path) -> Iterator[int]:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _NOFOLLOW)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def alone(name: str, folder: int, *, sure: bool = False) -> Iterator[os.stat_result]:
    """Holds the file such that nobody else has it open or mapped, in whatever container, or raises `InUse`.

    The kernel grants a write lease only to a file's sole opener, and lets every later one wait until it is given back.
    Where it knows no leases, what /proc showed has to do, unless `sure` is wanted. Source: fcntl(2), F_SETLEASE.
    """
    handle = os.open(name, os.O_RDONLY | _NOFOLLOW, dir_fd=folder)
    try:
        # an opener who has to wait makes the kernel signal us: by default with SIGIO, which would end us
        fcntl.fcntl(handle, fcntl.F_SETSIG, signal.SIGURG)
        try:
            fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError as error:
            if error.errno == errno.EAGAIN:
                raise InUse("a process has it open that /proc does not show") from error
            if sure or error.errno not in (errno.EINVAL, errno.ENOLCK, errno.EOPNOTSUPP):
                raise
        yield os.fstat(handle)
    finally:
        os.close(handle)


def check_unbound(name: str, folder: int) -> None:
    """A socket file without a socket refuses at once. Asked through the folder's handle: the path may be too long."""
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with closing(socket.socket(socket.AF_UNIX, kind)) as probe:
            probe.setblocking(False)
            answer = probe.connect_ex(f"/proc/self/fd/{folder}/{name}")
        if answer == errno.ECONNREFUSED:
            return
        if answer != errno.EPROTOTYPE:
            break
    raise InUse("a process answers on this socket")


def nobody_has_it(path: Path) -> bool:
    """One plain file or socket. False also where the kernel cannot say."""
    try:
        with opened_folder(path.parent) as folder:
            if path.is_socket():
                check_unbound(path.name, folder)
                return True
            with alone(path.name, folder, sure=True):
                return True
    except (InUse, OSError):
        return False
