"""Whether a server could bind here, and who is in its way."""

import errno
import os
import socket
from contextlib import suppress

from holddown.edges.hosts.processes import PROC, pids, read_process, user_name
from holddown.facts.listeners import (
    ADDRESS_NOT_HERE,
    HOST_NOT_KNOWN,
    PORT_NOT_ALLOWED,
    Listener,
    in_the_way,
    read_listeners,
)


def port_holder(host: str, port: int) -> str | None:
    """See `ports.Host.port_holder`. Asked by binding for a moment, the way servers do: SO_REUSEADDR, so that
    connections in TIME_WAIT are no obstacle."""
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError):
        # UnicodeError: a part of the name is empty or too long
        return HOST_NOT_KNOWN
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
                # two sockets may share a port while neither listens: only listening settles it
                probe.listen(1)
        except OSError as error:
            match error.errno:
                case errno.EADDRINUSE:
                    return _holder(str(address[0]), port)
                case errno.EADDRNOTAVAIL | errno.EINVAL:
                    # EINVAL: a link-local address without its interface, or an IPv6 group of receivers
                    return ADDRESS_NOT_HERE
                case errno.EACCES | errno.EPERM:
                    return PORT_NOT_ALLOWED
                case errno.EAFNOSUPPORT:
                    # a name with an IPv6 address on a kernel without IPv6: servers skip it too
                    continue
                case _:
                    raise
    return None


def _holder(address: str, port: int) -> str:
    listeners: list[Listener] = []
    for name in ("net/tcp", "net/tcp6"):
        with suppress(FileNotFoundError):
            listeners += read_listeners((PROC / name).read_text())
    found = in_the_way(tuple(listeners), address.partition("%")[0], port)
    if not found:
        # bound and not listening yet, or a closed connection of a server that did not set SO_REUSEADDR itself
        return "nobody who listens: a socket bound without listening, or a closed connection that lingers for a minute"
    pid = _owner({listener.inode for listener in found})
    facts = read_process(pid) if pid is not None else None
    if facts is None:
        return f"a process of another user ({user_name(found[0].uid)})"
    return f"pid {facts.pid} of {facts.user}: {facts.title}"


def _owner(inodes: set[int]) -> int | None:
    """The first process that this user can read with one of these sockets open."""
    links = {f"socket:[{inode}]" for inode in inodes}
    for pid in sorted(pids()):
        with suppress(OSError), os.scandir(PROC / str(pid) / "fd") as entries:
            for entry in entries:
                with suppress(OSError):
                    if os.readlink(entry.path) in links:  # noqa: PTH115 - a link to no path
                        return pid
    return None
