"""Checkpoints on this machine's disks: a directory, a GGUF file, or a repository in the Hugging Face cache."""

import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from holddown.base.errors import CheckpointError
from holddown.facts import gguf, safetensors
from holddown.facts.agreement import NO_MARKS, NameMarks, agree
from holddown.facts.checkpoint import TEXTS, DirectorySeen, TextFile, directory_facts, weight_files
from holddown.facts.gguf_model import gguf_facts
from holddown.facts.model import Inspection
from holddown.facts.remote_code import Script
from holddown.facts.shard_index import INDEX, Agreed, Index, read_index
from holddown.facts.weights import TAIL_BYTES, ShardSeen, Tail, head_sha256, numbered_parts

_FIRST_READ_BYTES = 1 << 20
_MAX_TEXT_BYTES = 256 << 20
_MAX_SCRIPT_BYTES = 4 << 20
_LARGE_INDEX = 1 << 20


class LocalCheckpoints:
    """Reads headers, small text files, and the last MiB of each weight file; writes nothing.

    environ: where HF_HUB_CACHE and HF_HOME are looked up. large_index: from how many characters on an index is first
    compared with the headers by hashes.
    """

    def __init__(self, environ: Mapping[str, str] | None = None, large_index: int = _LARGE_INDEX) -> None:
        self._environ = os.environ if environ is None else environ
        self._large_index = large_index

    def inspect(self, path: str) -> Inspection:
        """Raises: CheckpointError when there is no checkpoint to speak of; faults of its files are findings."""
        found = self._find(path)
        try:
            if found.is_dir():
                return self._directory(found)
            if stat.S_ISREG(found.stat().st_mode):
                return _file(found)
        except OSError as error:
            raise CheckpointError(
                f"{found} cannot be read", code="checkpoint.unreadable", seen=str(error), do=f"ls -la {found}"
            ) from error
        raise CheckpointError(f"{found} is neither a directory nor a file", code="checkpoint.not-a-checkpoint")

    def _find(self, path: str) -> Path:
        given = Path(os.path.expanduser(path))  # noqa: PTH111 - pathlib raises for a `~user` that is not known
        if os.path.lexists(given):
            return given.absolute()
        parts = path.split("/")
        if len(parts) != 2 or not all(parts) or path.startswith((".", "~")):
            raise CheckpointError(
                f"{path} does not exist", code="checkpoint.not-found", do="name a directory or a .gguf file"
            )
        return self._cached(path)

    def _cached(self, repository: str) -> Path:
        """The snapshot of `org/name` in the hub cache. Source: the cache layout of huggingface_hub."""
        environ = self._environ
        home = Path(
            environ.get("HF_HOME") or Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "huggingface"
        )
        hub = Path(environ.get("HF_HUB_CACHE") or home / "hub").expanduser()
        folder = hub / ("models--" + repository.replace("/", "--"))
        try:
            revision = (folder / "refs" / "main").read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError):
            revision = ""
        snapshot = folder / "snapshots" / revision
        if revision and snapshot.is_dir():
            return snapshot
        raise CheckpointError(
            f"{repository} is neither a path here nor in the Hugging Face cache",
            code="checkpoint.not-found",
            seen=f"looked for {folder}",
            do=f"hf download {repository}",
        )

    def _directory(self, folder: Path) -> Inspection:
        names = tuple(sorted(entry.name for entry in os.scandir(folder) if entry.is_file()))
        if not names:
            raise CheckpointError(
                f"{folder} is empty", code="checkpoint.no-weights", do="name a directory that holds a model"
            )
        ggufs = [name for name in names if name.endswith(".gguf")]
        if ggufs and not any(name.endswith(".safetensors") for name in names):
            return _file(folder / _one_gguf(folder, ggufs))
        texts = tuple(_text(folder / name) for name in TEXTS if name in names)
        index, shards = self._weights(folder, names, next((file for file in texts if file.name == INDEX), None))
        files = weight_files(names, index)
        return directory_facts(DirectorySeen(str(folder), names, texts, index, files, shards, _scripts(folder, names)))

    def _weights(
        self, folder: Path, names: tuple[str, ...], index: TextFile | None
    ) -> tuple[Index, tuple[ShardSeen, ...]]:
        """The headers of all weight files. Of a large checkpoint names are held only where they are of use: where the
        index and the headers disagree."""
        if index is not None and len(index.text) > self._large_index:
            present = weight_files(names, None).present
            shards, marks = _marked(folder, present)
            if agree(index.text, marks):
                return Agreed(present), shards
        read = read_index(index.text, index.fault) if index is not None else None
        return read, tuple(_safetensors_shard(folder / name) for name in weight_files(names, read).present)


def _one_gguf(folder: Path, names: list[str]) -> str:
    """The one model among GGUF files: parts of a split are one, and `mmproj` is a vision tower beside a model."""
    models = sorted({numbered_parts(name)[0] for name in names if "mmproj" not in name.lower()})
    if len(models) == 1:
        return min(name for name in names if numbered_parts(name)[0] == models[0])
    raise CheckpointError(
        f"{folder} holds {len(models)} GGUF models; which one is meant?",
        code="checkpoint.ambiguous",
        seen=", ".join(models[:5]) + (", ..." if len(models) > 5 else ""),
        do=f"holddown inspect {folder / (models[0] if models else names[0])}",
    )


def _file(path: Path) -> Inspection:
    """A GGUF file, with the other parts where it is one of several; a lone safetensors file's directory is meant."""
    with path.open("rb") as file:
        head = file.read(8)
    if path.suffix == ".gguf" or head[:4] == gguf.MAGIC:
        names = numbered_parts(path.name)
        present = [name for name in names if (path.parent / name).is_file()]
        parts = tuple(_gguf_part(path.parent / name) for name in present)
        first = path.parent / names[0]
        return gguf_facts(str(first if first.exists() else path), parts, tuple(sorted(set(names) - set(present))))
    is_shard = path.suffix == ".safetensors"
    raise CheckpointError(
        f"{path} is {'one weight file of a checkpoint' if is_shard else 'not a checkpoint'}",
        code="checkpoint.not-a-checkpoint",
        seen="a directory with config.json, or a .gguf file, can be served"
        + ("" if is_shard else f"; this begins with {head!r}"),
        do=f"holddown inspect {path.parent}",
    )


def _text(path: Path) -> TextFile:
    try:
        if path.stat().st_size > _MAX_TEXT_BYTES:
            return TextFile(path.name, "", f"it has {path.stat().st_size} bytes, no such file is that long")
        return TextFile(path.name, path.read_bytes().decode("utf-8"))
    except UnicodeDecodeError as error:
        return TextFile(path.name, "", f"it is not UTF-8 at byte {error.start}")
    except OSError as error:
        return TextFile(path.name, "", error.strerror or str(error))


def _scripts(folder: Path, names: tuple[str, ...]) -> tuple[Script, ...]:
    """The Python files, and those of packages beside them."""
    if not any(name.endswith(".py") for name in names):
        return ()
    paths = sorted({*folder.glob("*.py"), *folder.glob("[!.]*/*.py")})
    found = []
    for path in paths:
        try:
            if path.is_file() and path.stat().st_size <= _MAX_SCRIPT_BYTES:
                found.append(Script(path.relative_to(folder).as_posix(), path.read_bytes()))
        except OSError:
            continue  # a file that cannot be read is told as one that is not there
    return tuple(found)


def _marked(folder: Path, names: tuple[str, ...]) -> tuple[tuple[ShardSeen, ...], list[NameMarks]]:
    shards = tuple(_safetensors_shard(folder / name, only_marks=True) for name in names)
    headers = [shard.header for shard in shards]
    return shards, [header.marks if isinstance(header, safetensors.ShardHeader) else NO_MARKS for header in headers]


def _safetensors_shard(path: Path, *, only_marks: bool = False) -> ShardSeen:
    with path.open("rb", buffering=0) as file:
        descriptor = file.fileno()
        size = os.fstat(descriptor).st_size
        wanted = min(safetensors.header_bytes_wanted(_read(descriptor, 0, safetensors.LENGTH_BYTES)), size)
        head = _read(descriptor, 0, wanted)
        header = safetensors.read_header(path.name, size, head, only_marks=only_marks)
        tail = Tail.DATA
        if isinstance(header, safetensors.ShardHeader) and header.header_bytes + header.data_bytes == size:
            tail = _tail(descriptor, size, header.header_bytes)
    return ShardSeen(path.name, size, head_sha256(head), header, tail)


def _gguf_part(path: Path) -> ShardSeen:
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        head = _read(file.fileno(), 0, min(size, _FIRST_READ_BYTES))
        while isinstance(header := gguf.read_header(path.name, size, head), gguf.NeedMore):
            # doubling keeps the work in proportion: each try parses again from the start
            wanted = min(size, max(header.at_least_bytes, 2 * len(head)))
            more = _read(file.fileno(), len(head), wanted - len(head))
            if not more:
                header = safetensors.truncated(
                    path.name, "it shrank while it was read", len(head), header.at_least_bytes
                )
                break
            head += more
        tail = Tail.DATA
        if isinstance(header, gguf.GgufHeader):
            head = head[: header.header_bytes]
            if header.data_start + header.data_bytes <= size:
                tail = _tail(file.fileno(), size, header.data_start)
    return ShardSeen(path.name, size, head_sha256(head), header, tail)


def _read(descriptor: int, at: int, count: int) -> bytes:
    """`count` bytes, or fewer at the end of the file."""
    pieces = []
    while count > 0 and (piece := os.pread(descriptor, count, at)):
        pieces.append(piece)
        at += len(piece)
        count -= len(piece)
    return b"".join(pieces)


def _tail(descriptor: int, size: int, data_start: int) -> Tail:
    """Whether the end of the file was ever filled. A shard with less than a MiB of data is too small to tell."""
    start = size - TAIL_BYTES
    if start < data_start or _read(descriptor, start, TAIL_BYTES) != bytes(TAIL_BYTES):
        return Tail.DATA
    try:
        os.lseek(descriptor, start, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return Tail.UNWRITTEN
    return Tail.ZERO
