"""What engines leave on a machine, and what /proc says about who still uses it."""

import re
from dataclasses import dataclass, field
from enum import StrEnum

from holddown.base.evidence import Fact
from holddown.facts.machine import ProcessFacts

# Source: names seen left behind by vLLM 0.16 to 0.32: Python's shared memory and semaphores, its own, NCCL's.
SHM_NAMES = re.compile(r"(psm_|sem\.mp-|vllm|nccl).+")
# zmq endpoints are named by a UUID; torch.distributed's meeting point is `vllm_dist_` with hex digits
SOCKET_NAMES = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|vllm_dist_\w+")


class Kind(StrEnum):
    """SHM: a file in /dev/shm. SOCKET: in a temporary folder. RUN_DIR: a deployment's private folder."""

    SHM = "shared memory"
    SOCKET = "socket"
    RUN_DIR = "private folder"


class Form(StrEnum):
    FILE = "file"
    SOCKET = "socket"
    FOLDER = "folder"
    LINK = "symbolic link"
    OTHER = "special file"


@dataclass(frozen=True, slots=True, order=True)
class FileId:
    """The file itself, whatever its name. Numbers of the device, and the inode on it."""

    major: int
    minor: int
    inode: int


@dataclass(frozen=True, slots=True)
class FoundFile:
    """Something whose name says that an engine made it. Times are seconds since the epoch.

    size_bytes: what is allocated; ring buffers look larger. changed_at: the inode's, which no program can set back.
    For a private folder the times are the newest within, contents its files, strangers those that are not its owner's.
    alone: the kernel said that nobody has it open, in whatever container: a lease that only a sole opener gets, or a
    connection that it refused.
    """

    path: str
    kind: Kind
    form: Form
    id: FileId
    owner_uid: int
    owner: str
    size_bytes: int
    modified_at: float
    changed_at: float
    contents: frozenset[FileId] = field(default=frozenset())
    strangers: int = 0
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Namespaces:
    """The kernel's numbers of a process's namespaces. root: device and inode of what it sees as `/`."""

    ipc: str
    pid: str
    mnt: str
    root: str


@dataclass(frozen=True, slots=True)
class View:
    """What one process shows of itself. uids: real, effective, saved, file system.

    held: those of the files in question that it maps or has open. Unknown where /proc does not let us read it.
    """

    pid: int
    name: str
    uids: tuple[int, ...]
    held: Fact[frozenset[FileId]]
    namespaces: Fact[Namespaces]


@dataclass(frozen=True, slots=True)
class Traces:
    """All of it, looked at once. bound_sockets: paths in /proc/net/unix. private_roots: folders in which holddown makes
    the private folders of this user's deployments."""

    looked_at: float
    boot_id: str
    own_uid: int
    own_user: str
    own_pid: int
    own_namespaces: Fact[Namespaces]
    private_roots: tuple[str, ...]
    files: tuple[FoundFile, ...]
    views: tuple[View, ...]
    processes: tuple[ProcessFacts, ...]
    bound_sockets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """What one process holds beside memory: files of /dev/shm that it maps, TCP ports on which it listens."""

    shm: tuple[str, ...]
    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Removed:
    path: str


@dataclass(frozen=True, slots=True)
class Kept:
    """Something changed, or was seen, in the last moment before it would have gone."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Ended:
    """signal: the one that it took."""

    pid: int
    signal: str


@dataclass(frozen=True, slots=True)
class NotEnded:
    pid: int
    why: str


@dataclass(frozen=True, slots=True)
class KnownEngine:
    """An engine on record. session_pid, started_at_ticks, boot_id: its leader for good. active: not over."""

    deployment_id: str
    session_pid: int
    started_at_ticks: int
    boot_id: str
    active: bool
    run_dir: str = ""


def read_maps(text: str) -> tuple[tuple[FileId, str], ...]:
    """The files that a process maps, with their paths, out of /proc/PID/maps.

    Source: proc_pid_maps(5); inode 0 is no file.
    """
    found: dict[tuple[FileId, str], None] = {}
    for line in text.split("\n"):
        words = line.split(maxsplit=5)
        if len(words) < 5 or words[4] == "0":
            continue
        major, _, minor = words[3].partition(":")
        path = words[5] if len(words) == 6 else ""
        found[FileId(int(major, 16), int(minor, 16), int(words[4])), path] = None
    return tuple(found)


def read_bound_sockets(text: str) -> tuple[str, ...]:
    """Paths of Unix sockets that live, out of /proc/net/unix; abstract ones (`@...`) have no file."""
    paths = []
    for line in text.split("\n")[1:]:
        words = line.split(maxsplit=7)
        if len(words) == 8 and not words[7].startswith("@"):
            paths.append(words[7])
    return tuple(paths)
