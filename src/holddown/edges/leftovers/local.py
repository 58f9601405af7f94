"""Leftovers of this machine: where they are looked for, and the door to their removal."""

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from holddown.edges.leftovers import ending, removing
from holddown.edges.leftovers.looking import (
    PROC,
    fd_targets,
    found,
    is_own_folder,
    names,
    namespaces,
    text_of,
    user_name,
    views,
)
from holddown.facts.leftovers import (
    SHM_NAMES,
    SOCKET_NAMES,
    Ended,
    FoundFile,
    Held,
    Kept,
    Kind,
    NotEnded,
    Removed,
    Traces,
    read_bound_sockets,
    read_maps,
)
from holddown.facts.listeners import read_listeners
from holddown.facts.machine import ProcessFacts


class LocalLeftovers:
    """Port `Leftovers`. temporaries: folders in which sockets and private folders may lie."""

    def __init__(self, shm: Path = Path("/dev/shm"), temporaries: Sequence[Path] | None = None) -> None:
        self._shm = shm
        places = temporaries if temporaries is not None else (Path(tempfile.gettempdir()), Path("/tmp"))
        self._temporaries = tuple(dict.fromkeys(place.resolve() for place in places))

    def look(self, processes: tuple[ProcessFacts, ...]) -> Traces:
        """Files first, then who uses them: what is opened in between is seen."""
        uid = os.geteuid()
        roots = tuple(root for root in self._private_roots(uid) if is_own_folder(root, uid))
        files = tuple(self._files(roots))
        return Traces(
            looked_at=time.time(),
            boot_id=text_of(PROC / "sys/kernel/random/boot_id").strip(),
            own_uid=uid,
            own_user=user_name(uid),
            own_pid=os.getpid(),
            own_namespaces=namespaces(PROC / "self"),
            private_roots=tuple(str(root) for root in self._private_roots(uid)),
            files=files,
            views=tuple(views(files)),
            processes=processes,
            bound_sockets=read_bound_sockets(text_of(PROC / "net/unix")),
        )

    def _private_roots(self, uid: int) -> Iterator[Path]:
        return (place / f"holddown-{uid}" for place in self._temporaries)

    def _files(self, roots: Sequence[Path]) -> Iterator[FoundFile]:
        for name in names(self._shm):
            if SHM_NAMES.fullmatch(name):
                yield from found(self._shm / name, Kind.SHM)
        for place in self._temporaries:
            for name in names(place):
                if SOCKET_NAMES.fullmatch(name):
                    yield from found(place / name, Kind.SOCKET)
        for root in roots:
            for name in names(root):
                yield from found(root / name, Kind.RUN_DIR)

    def held(self, pid: int) -> Held:
        folder = PROC / str(pid)
        shm: tuple[str, ...] = ()
        with suppress(OSError):
            maps = read_maps(text_of(folder / "maps"))
            shm = tuple(dict.fromkeys(path for _, path in maps if path.startswith(f"{self._shm}/")))
        sockets = {target for target in fd_targets(folder) if target.startswith("socket:")}
        ports = set()
        for table in ("net/tcp", "net/tcp6"):
            # its own network namespace, should it be another
            with suppress(OSError):
                listeners = read_listeners(text_of(folder / table))
                ports |= {one.port for one in listeners if f"socket:[{one.inode}]" in sockets}
        return Held(shm, tuple(sorted(ports)))

    def remove(self, file: FoundFile) -> Removed | Kept:
        return removing.remove(file)

    def end(self, targets: Sequence[ProcessFacts]) -> tuple[Ended | NotEnded, ...]:
        return ending.end(targets)
