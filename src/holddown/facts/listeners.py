"""Who listens where, from /proc/net/tcp and tcp6, and what a failed bind means."""

import ipaddress
from dataclasses import dataclass
from typing import Final

ADDRESS_NOT_HERE: Final = "nobody: the address is not one of this machine's"
PORT_NOT_ALLOWED: Final = "nobody: this user may not bind so low a port"
HOST_NOT_KNOWN: Final = "nobody: the host name has no address"

_LISTEN = "0A"


@dataclass(frozen=True, slots=True)
class Listener:
    """One listening TCP socket. inode: joins it with /proc/PID/fd."""

    address: str
    port: int
    uid: int
    inode: int


def _address(word: str) -> str:
    """The kernel prints each 32-bit word of an address in the machine's byte order: little-endian on x86 and ARM."""
    data = bytes.fromhex(word)
    data = b"".join(data[start : start + 4][::-1] for start in range(0, len(data), 4))
    return str(ipaddress.ip_address(data))


def read_listeners(text: str) -> tuple[Listener, ...]:
    """Source: proc_pid_net(5), tcp: local address is column 2, state 4 (0A is LISTEN), uid 8, inode 10."""
    found = []
    for line in text.split("\n")[1:]:
        words = line.split()
        if len(words) < 10 or words[3] != _LISTEN:
            continue
        address, _, port = words[1].partition(":")
        found.append(Listener(_address(address), int(port, 16), int(words[7]), int(words[9])))
    return tuple(found)


def in_the_way(listeners: tuple[Listener, ...], address: str, port: int) -> tuple[Listener, ...]:
    """Those because of which (address, port) cannot be bound: the same address, or a wildcard on either side.

    A socket on `::` takes IPv4's port too unless it asked not to, so it counts for both families.
    """
    wanted = ipaddress.ip_address(address)
    found = []
    for listener in listeners:
        held = ipaddress.ip_address(listener.address)
        if listener.port != port:
            continue
        if isinstance(held, ipaddress.IPv6Address) and held.ipv4_mapped is not None:
            held = held.ipv4_mapped
        same_family = held.version == wanted.version
        dual = not same_family and (held if held.version == 6 else wanted).is_unspecified
        if held == wanted or dual or (same_family and (held.is_unspecified or wanted.is_unspecified)):
            found.append(listener)
    return tuple(found)
