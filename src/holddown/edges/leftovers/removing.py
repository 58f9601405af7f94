"""Removal of one file or private folder. Every step looks again before it acts; no link is followed."""

import errno
import fcntl
import os
import shutil
import signal
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from holddown.edges.leftovers.looking import file_form, file_id, found
from holddown.facts.leftovers import Form, FoundFile, Kept, Removed

_NOFOLLOW = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class _Changed(Exception):
    """The file is not what was judged, or somebody uses it after all."""


def remove(file: FoundFile) -> Removed | Kept:
    """Nothing goes that is not the very file that was judged."""
    try:
        with opened_folder(Path(file.path).parent) as folder:
            name = Path(file.path).name
            _check_same(name, folder, file)
            if file.form is Form.FOLDER:
                _remove_tree(name, folder, file)
            else:
                _unlink(name, folder, file)
    except FileNotFoundError:
        return Removed(file.path)
    except _Changed as changed:
        return Kept(file.path, str(changed))
    except OSError as error:
        return Kept(file.path, error.strerror or str(error))
    return Removed(file.path)


@contextmanager
def opened_folder(path: Path) -> Iterator[int]:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _NOFOLLOW)
    try:
        yield handle
    finally:
        os.close(handle)


def _check_same(name: str, folder: int, file: FoundFile) -> None:
    there = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if (file_id(there), there.st_uid, file_form(there.st_mode)) != (file.id, file.owner_uid, file.form):
        raise _Changed("another file has taken its place")
    if file.form is not Form.FOLDER and (there.st_mtime, there.st_ctime) != (file.modified_at, file.changed_at):
        raise _Changed("it changed since it was looked at")


def _unlink(name: str, folder: int, file: FoundFile) -> None:
    if file.form is Form.SOCKET:
        _check_unbound(name, folder)
        _check_same(name, folder, file)
        os.unlink(name, dir_fd=folder)
        return
    with _alone(name, folder) as there:
        if file_id(there) != file.id:
            raise _Changed("another file has taken its place")
        _check_same(name, folder, file)
        os.unlink(name, dir_fd=folder)


@contextmanager
def _alone(name: str, folder: int) -> Iterator[os.stat_result]:
    """Holds the file such that nobody else has it open or mapped, in whatever container, or raises `_Changed`.

    The kernel grants a write lease only to a file's sole opener, and lets every later one wait until it is given back.
    Where it knows no leases, what /proc showed has to do. Source: fcntl(2), F_SETLEASE.
    """
    handle = os.open(name, os.O_RDONLY | _NOFOLLOW, dir_fd=folder)
    try:
        # an opener who has to wait makes the kernel signal us: by default with SIGIO, which would end us
        fcntl.fcntl(handle, fcntl.F_SETSIG, signal.SIGURG)
        try:
            fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError as error:
            if error.errno == errno.EAGAIN:
                raise _Changed("a process has it open that /proc does not show") from error
            if error.errno not in (errno.EINVAL, errno.ENOLCK, errno.EOPNOTSUPP):
                raise
        yield os.fstat(handle)
    finally:
        os.close(handle)


def _check_unbound(name: str, folder: int) -> None:
    """A socket file without a socket refuses at once. Asked through the folder's handle: the path may be too long."""
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with closing(socket.socket(socket.AF_UNIX, kind)) as probe:
            probe.setblocking(False)
            answer = probe.connect_ex(f"/proc/self/fd/{folder}/{name}")
        if answer == errno.ECONNREFUSED:
            return
        if answer != errno.EPROTOTYPE:
            break
    raise _Changed("a process answers on this socket")


def _remove_tree(name: str, folder: int, file: FoundFile) -> None:
    """All of a private folder or nothing of it: each file in it is asked for first."""
    path = Path(file.path)
    for now in found(path, file.kind):
        if now != file:
            raise _Changed("something in it changed since it was looked at")
    for place, _, files in os.walk(path):
        with opened_folder(Path(place)) as inner:
            for one in files:
                form = file_form(os.stat(one, dir_fd=inner, follow_symlinks=False).st_mode)
                if form is Form.SOCKET:
                    _check_unbound(one, inner)
                elif form is Form.FILE:
                    with _alone(one, inner):
                        pass
    _check_same(name, folder, file)
    shutil.rmtree(name, dir_fd=folder)
