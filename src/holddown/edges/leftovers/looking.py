"""What lies about, and what every process shows of its use of it. Only reads."""

import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from holddown.base.evidence import Fact, Unknown, from_probe
from holddown.edges.leftovers.sole import nobody_has_it
from holddown.facts.leftovers import FileId, Form, FoundFile, Kind, Namespaces, View, read_maps
from holddown.facts.proc import read_stat, read_uids

PROC = Path("/proc")
GONE = (FileNotFoundError, ProcessLookupError)


def text_of(path: Path) -> str:
    """As the kernel wrote it: a carriage return in a path is no line end. Raises: OSError."""
    return path.read_bytes().decode(errors="backslashreplace")


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names, not paths
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []


def is_own_folder(folder: Path, uid: int) -> bool:
    """Not a link, and ours: anybody may make a folder of that name in /tmp."""
    try:
        there = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(there.st_mode) and there.st_uid == uid


def file_id(there: os.stat_result) -> FileId:
    return FileId(os.major(there.st_dev), os.minor(there.st_dev), there.st_ino)


def file_form(mode: int) -> Form:
    forms = ((stat.S_ISREG, Form.FILE), (stat.S_ISSOCK, Form.SOCKET), (stat.S_ISDIR, Form.FOLDER))
    for is_it, form in (*forms, (stat.S_ISLNK, Form.LINK)):
        if is_it(mode):
            return form
    return Form.OTHER


def found(path: Path, kind: Kind) -> Iterator[FoundFile]:
    try:
        there = path.lstat()
    except OSError:
        return
    inside = tuple(_inside(path)) if kind is Kind.RUN_DIR and stat.S_ISDIR(there.st_mode) else ()
    whole = (there, *inside)
    yield FoundFile(
        path=str(path),
        kind=kind,
        form=file_form(there.st_mode),
        id=file_id(there),
        owner_uid=there.st_uid,
        owner=user_name(there.st_uid),
        size_bytes=sum(one.st_blocks * 512 for one in whole),
        modified_at=max(one.st_mtime for one in whole),
        changed_at=max(one.st_ctime for one in whole),
        contents=frozenset(file_id(one) for one in inside),
        strangers=sum(one.st_uid != there.st_uid for one in inside),
        alone=there.st_uid == os.geteuid() and all(nobody_has_it(one) for one in _leaves(path)),
    )


def _inside(folder: Path) -> Iterator[os.stat_result]:
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            with suppress(FileNotFoundError):
                yield Path(place, name).lstat()


def _leaves(path: Path) -> Iterator[Path]:
    """The file itself, or every file in a folder."""
    if path.is_symlink() or not path.is_dir():
        yield path
    for place, _, files in os.walk(path):
        yield from (Path(place, name) for name in files)


def namespaces(folder: Path) -> Fact[Namespaces]:
    try:
        ipc, pid, mnt = (os.readlink(folder / "ns" / name) for name in ("ipc", "pid", "mnt"))  # noqa: PTH115
        root = (folder / "root").stat()
    except PermissionError:
        return Unknown("this user may not read its namespaces")
    return from_probe(Namespaces(ipc, pid, mnt, f"{root.st_dev}:{root.st_ino}"), str(folder / "ns"))


def views(files: tuple[FoundFile, ...]) -> Iterator[View]:
    wanted = {one: file.id for file in files for one in (file.id, *file.contents)}
    by_path = {file.path: file.id for file in files}
    for name in names(PROC):
        if not name.isdigit():
            continue
        folder = PROC / name
        try:
            stat_ = read_stat(text_of(folder / "stat"))
            if stat_.kernel or (stat_.state == "Z" and len(names(folder / "task")) <= 1):
                # neither has memory or files; but a leader may be a zombie while its threads run on
                continue
            uids = read_uids(text_of(folder / "status"))
            yield View(int(name), stat_.name, uids, _held(folder, wanted, by_path), namespaces(folder))
        except GONE:
            continue


def _held(folder: Path, wanted: dict[FileId, FileId], by_path: dict[str, FileId]) -> Fact[frozenset[FileId]]:
    """Which of the files in question a process maps or has open, each by the id under which it is judged."""
    found: set[FileId] = set()
    try:
        for mapped, path in read_maps(text_of(folder / "maps")):
            if mapped in wanted:
                found.add(wanted[mapped])
            # overlayfs and btrfs show another device in maps than stat does: there the path tells
            found |= {id_ for known, id_ in by_path.items() if (path + "/").startswith(known + "/")}
        with os.scandir(folder / "fd") as entries:
            for entry in entries:
                with suppress(*GONE):
                    opened = file_id(Path(entry.path).stat())
                    if opened in wanted:
                        found.add(wanted[opened])
    except PermissionError:
        return Unknown("this user may not read what it maps and has open")
    return from_probe(frozenset(found), f"{folder}/maps, {folder}/fd")


def fd_targets(folder: Path) -> Iterator[str]:
    with suppress(OSError), os.scandir(folder / "fd") as entries:
        for entry in entries:
            with suppress(OSError):
                yield os.readlink(entry.path)  # noqa: PTH115 - a link to no path
