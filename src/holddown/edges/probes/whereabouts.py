"""Where an engine's package lies, remembered: asking its Python takes 50 ms and more, looking at times takes one."""

from dataclasses import dataclass
from pathlib import Path

from holddown.base.codec import dumps, loads
from holddown.edges.probes.facts_cache import key_of, write_whole
from holddown.facts.engine import Engine
from holddown.facts.engine_locate import Located


@dataclass(frozen=True, slots=True)
class _Remembered:
    """times: of every path that an installation changes, in nanoseconds; 0 for one that is not there."""

    where: Located
    times: tuple[tuple[str, int], ...]


class Whereabouts:
    """An answer holds as long as the interpreter, its folders of packages and their .pth files are untouched: an
    install, an upgrade and a removal each rename something in such a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, engine: Engine) -> Located | None:
        try:
            found = loads(_Remembered, self._file(engine).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found.where if found.times == _times(engine, found.where) else None

    def keep(self, engine: Engine, where: Located) -> None:
        write_whole(self._file(engine), dumps(_Remembered(where, _times(engine, where))))

    def _file(self, engine: Engine) -> Path:
        return self._folder / f"where-{key_of(engine)}.json"


def _times(engine: Engine, where: Located) -> tuple[tuple[str, int], ...]:
    python = Path(engine.python)
    links = [Path(site) / name for site in where.site_dirs for name in where.installed if not name.endswith("-info")]
    paths = [python, python.parent.parent / "pyvenv.cfg", Path(where.package_dir), *map(Path, where.site_dirs), *links]
    return tuple((str(path), _time(path)) for path in paths)


def _time(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
