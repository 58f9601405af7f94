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
        """A cache that cannot be written costs time at the next start, and nothing else."""
        target = self._file(engine)
        draft = target.with_name(f"{target.name}.{os.getpid()}")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            draft.write_text(dumps(found), encoding="utf-8")
            draft.replace(target)
        except OSError:
            draft.unlink(missing_ok=True)

    def _file(self, engine: Engine) -> Path:
        key = hashlib.sha256(f"{engine.python}\n{engine.pythonpath}".encode()).hexdigest()[:16]
        return self._folder / f"{engine.kind}-{key}.json"
