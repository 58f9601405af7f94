"""What builds said of themselves, kept between runs."""

import hashlib
import os
from pathlib import Path

from holddown.base.codec import dumps, loads
from holddown.facts.engine import Engine, EngineFacts


class FactsCache:
    """One file per environment, found again only under the same fingerprint of the installation."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, engine: Engine, fingerprint: str) -> EngineFacts | None:
        """None where there is no cache, or one of another installation or holddown: what it held can be had again."""
        try:
            found = loads(EngineFacts, self._file(engine).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found if found.fingerprint == fingerprint else None

    def keep(self, engine: Engine, found: EngineFacts) -> None:
        write_whole(self._file(engine), dumps(found))

    def _file(self, engine: Engine) -> Path:
        return self._folder / f"{engine.kind}-{key_of(engine)}.json"


class Imported:
    """The fingerprints of installations whose import was tried and went well."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, engine: Engine) -> str:
        """Empty where it was not tried yet, or did not go well: a repair must be seen."""
        try:
            return self._file(engine).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return ""

    def keep(self, engine: Engine, fingerprint: str) -> None:
        write_whole(self._file(engine), fingerprint)

    def _file(self, engine: Engine) -> Path:
        return self._folder / f"imported-{key_of(engine)}"


def key_of(engine: Engine) -> str:
    """Part of a file's name, one per environment."""
    return hashlib.sha256(f"{engine.executable}\n{engine.pythonpath}".encode()).hexdigest()[:16]


def write_whole(target: Path, text: str) -> None:
    """In one step. A cache that cannot be written costs time at the next start, and nothing else."""
    draft = target.with_name(f"{target.name}.{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(text, encoding="utf-8")
        draft.replace(target)
    except OSError:
        draft.unlink(missing_ok=True)
