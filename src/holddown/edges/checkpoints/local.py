"""Checkpoints on this machine's disks: a directory, a GGUF file, or a repository in the Hugging Face cache.

What turns headers into facts is imported when it is needed: for a large checkpoint while another process reads.
"""

import os
import stat
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from holddown.base.errors import CheckpointError
from holddown.edges.checkpoints.beside import beside
from holddown.edges.checkpoints.headers import gguf_part, safetensors_shard
from holddown.facts.agreement import NO_MARKS, agree, index_marks
from holddown.facts.safetensors import ShardHeader
from holddown.facts.shard_index import INDEX, Agreed, Index, read_index, weight_files
from holddown.facts.weights import ShardSeen, numbered_parts

if TYPE_CHECKING:
    from holddown.facts.checkpoint import TextFile
    from holddown.facts.model import Inspection
    from holddown.facts.remote_code import Script

_MAX_TEXT_BYTES = 256 << 20
_MAX_SCRIPT_BYTES = 4 << 20
_LARGE_INDEX = 1 << 20
# Percent of the shards that this process reads itself; it has the index and all that follows to do beside.
_OURS = 30


class LocalCheckpoints:
    """Reads headers, small text files, and the last MiB of each weight file; writes nothing.

    environ: where HF_HUB_CACHE and HF_HOME are looked up. large_index: from how many characters on an index is first
    compared with the headers by hashes.
    """

    def __init__(self, environ: Mapping[str, str] | None = None, large_index: int = _LARGE_INDEX) -> None:
        self._environ = os.environ if environ is None else environ
        self._large_index = large_index

    def inspect(self, path: str) -> "Inspection":
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

    def _directory(self, folder: Path) -> "Inspection":
        names = tuple(sorted(entry.name for entry in os.scandir(folder) if entry.is_file()))
        if not names:
            raise CheckpointError(
                f"{folder} is empty", code="checkpoint.no-weights", do="name a directory that holds a model"
            )
        ggufs = [name for name in names if name.endswith(".gguf")]
        if ggufs and not any(name.endswith(".safetensors") for name in names):
            return _file(folder / _one_gguf(folder, ggufs))
        index, shards = self._weights(folder, names)
        from holddown.facts.checkpoint import TEXTS, DirectorySeen, directory_facts

        texts = tuple(_text(folder / name) for name in TEXTS if name in names)
        files = weight_files(names, index)
        return directory_facts(DirectorySeen(str(folder), names, texts, index, files, shards, _scripts(folder, names)))

    def _weights(self, folder: Path, names: tuple[str, ...]) -> tuple[Index, tuple[ShardSeen, ...]]:
        """The index, and the headers of all weight files. Of a large checkpoint the names of tensors are held only
        where they are of use: where the index and the headers disagree."""
        index: Index = None
        if INDEX in names:
            if (folder / INDEX).stat().st_size > self._large_index:
                agreed = _agreed(folder, weight_files(names, None).present)
                if agreed is not None:
                    return agreed
            index = _index(folder / INDEX)
        return index, tuple(safetensors_shard(folder / name) for name in weight_files(names, index).present)


def _agreed(folder: Path, names: tuple[str, ...]) -> tuple[Index, tuple[ShardSeen, ...]] | None:
    """Index and headers where they say the same, read in two processes; None where it takes the names to tell."""
    ours, theirs = names[: len(names) * _OURS // 100], names[len(names) * _OURS // 100 :]
    with beside(lambda: _marked(folder, theirs)) as rest:
        # a tenth of a second of imports, while the other process reads
        import_module("holddown.facts.checkpoint")
        shards = _marked(folder, ours)
        try:
            index = index_marks((folder / INDEX).read_bytes())
        except OSError:
            return None
        shards += rest()
    headers = [shard.header for shard in shards]
    marks = [header.marks if isinstance(header, ShardHeader) else NO_MARKS for header in headers]
    return (Agreed(names), shards) if agree(index, marks) else None


def _marked(folder: Path, names: tuple[str, ...]) -> tuple[ShardSeen, ...]:
    return tuple(safetensors_shard(folder / name, only_marks=True) for name in names)


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


def _file(path: Path) -> "Inspection":
    """A GGUF file, with the other parts where it is one of several; a lone safetensors file's directory is meant."""
    with path.open("rb") as file:
        head = file.read(8)
    if path.suffix == ".gguf" or head[:4] == b"GGUF":
        from holddown.facts.gguf_model import gguf_facts

        names = numbered_parts(path.name)
        present = [name for name in names if (path.parent / name).is_file()]
        parts = tuple(gguf_part(path.parent / name) for name in present)
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


def _bytes(path: Path) -> bytes:
    """Raises: ValueError saying why it cannot be read."""
    try:
        if path.stat().st_size > _MAX_TEXT_BYTES:
            raise ValueError(f"it has {path.stat().st_size} bytes, no such file is that long")
        return path.read_bytes()
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from error


def _index(path: Path) -> Index:
    try:
        return read_index(_bytes(path))
    except ValueError as error:
        return read_index(None, str(error))


def _text(path: Path) -> "TextFile":
    from holddown.facts.checkpoint import TextFile

    try:
        return TextFile(path.name, _bytes(path).decode("utf-8"))
    except UnicodeDecodeError as error:
        return TextFile(path.name, "", f"it is not UTF-8 at byte {error.start}")
    except ValueError as error:
        return TextFile(path.name, "", str(error))


def _scripts(folder: Path, names: tuple[str, ...]) -> "tuple[Script, ...]":
    """The Python files, and those of packages beside them."""
    from holddown.facts.remote_code import Script

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
