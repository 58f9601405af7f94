"""`<root>/<name>@<version>/engine.json`: one folder per environment.

The JSON file is written last and in one step, so a folder without it is an installation that was cut short.
"""

import os
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from holddown.base.codec import dumps, loads
from holddown.base.errors import EngineError, UsageError
from holddown.edges.engines.install import install_recipe
from holddown.edges.engines.locate import find_engine, version_of
from holddown.facts.engine import Engine, version_key
from holddown.ports import Progress
from holddown.tables.engine import EngineTable, Recipe
from holddown.tables.load import engine_tables

ProgramVersion = Callable[[Path], str | None]

_FILE = "engine.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]*")


class EngineFolders:
    """programs: kind -> the version of the server that a program is, None where it is not of this kind."""

    def __init__(
        self,
        root: Path,
        tables: Sequence[EngineTable] | None = None,
        programs: Mapping[str, ProgramVersion] | None = None,
    ) -> None:
        self._root = root
        self._programs = dict(programs or {})
        self._tables = tuple(tables) if tables is not None else engine_tables()

    def all(self) -> tuple[Engine, ...]:
        found = [_read(path) for path in sorted(self._root.glob(f"*@*/{_FILE}"))]
        return tuple(sorted(found, key=lambda engine: (engine.name, version_key(engine.version), engine.version)))

    def install(self, name: str, version: str | None, progress: Progress) -> Engine:
        table, recipe = self._recipe(name)
        wanted = _checked(version or recipe.version, _VERSION, "version")
        wanted = recipe.version_prefix + wanted.removeprefix(recipe.version_prefix)
        ref = f"{recipe.name}@{wanted}"
        existing = self._registered(ref)
        if existing is not None:
            return self._complete(existing)
        folder = self._root / ref
        started = str(install_recipe(recipe, wanted, folder, progress))
        python, program = ("", started) if recipe.program else (started, "")
        engine = Engine(
            recipe.name, wanted, table.kind, python, "", managed=True, registered_at=time.time(), program=program
        )
        there = self._version_of(engine, table)
        if there.split("+")[0] != wanted.split("+")[0]:
            raise EngineError(
                f"asked for {ref}, but pip installed {there}",
                code="engine.other-version",
                seen=started,
                do=f"holddown engine install {recipe.name}@{there}",
            )
        _write(folder, engine)
        return engine

    def _version_of(self, engine: Engine, table: EngineTable) -> str:
        if engine.program:
            return self._programs[engine.kind](Path(engine.program)) or "something else"
        return version_of(find_engine(Path(engine.python), "", [table.package]))

    def add(self, name: str | None, python: str, pythonpath: str) -> Engine:
        if name is not None:
            _checked(name, _NAME, "name")
        # absolute, but not resolved: a venv's python is a link, and following it leaves the venv
        interpreter = _absolute(python)
        path = str(_absolute(pythonpath)) if pythonpath else ""
        engine = self._server(name, interpreter) or self._environment(name, interpreter, path)
        existing = self._registered(engine.ref)
        if existing is None:
            _write(self._root / engine.ref, engine)
            return engine
        if (existing.executable, existing.pythonpath) != (engine.executable, engine.pythonpath):
            raise EngineError(
                f"{engine.ref} is registered already, with another {'server' if engine.program else 'Python'}",
                code="engine.name-taken",
                seen=f"{existing.executable} {existing.pythonpath}".strip(),
                do=f"give this one a name of its own: --name NAME, or first: holddown engine remove {engine.ref}",
            )
        return existing

    def _server(self, name: str | None, program: Path) -> Engine | None:
        """The engine that this program is by itself; None for an interpreter, and for what cannot be run at all."""
        if not program.is_file() or not os.access(program, os.X_OK) or program.name.startswith("python"):
            return None
        for kind, version_of_program in self._programs.items():
            version = version_of_program(program)
            if version is not None:
                return Engine(name or kind, version, kind, "", "", False, time.time(), program=str(program))
        return None

    def _environment(self, name: str | None, interpreter: Path, path: str) -> Engine:
        tables = [table for table in self._tables if table.package]
        found = find_engine(interpreter, path, [table.package for table in tables])
        kind = next(table.kind for table in tables if table.package == found.package)
        return Engine(
            name=name or found.name,
            version=version_of(found),
            kind=kind,
            python=str(interpreter),
            pythonpath=path,
            managed=False,
            registered_at=time.time(),
        )

    def remove(self, ref: str) -> Engine:
        engine = self._registered(ref)
        if engine is None:
            known = ", ".join(engine.ref for engine in self.all()) or "none"
            raise UsageError(f"there is no engine {ref}", code="engine.unknown", seen=f"registered: {known}")
        folder = self._root / engine.ref
        try:
            # the record first: what is left of a removal that was cut short is an unfinished installation
            (folder / _FILE).unlink()
            if engine.managed:
                shutil.rmtree(folder)
            elif not any(folder.iterdir()):
                folder.rmdir()
        except OSError as error:
            raise EngineError(
                f"{engine.ref} could not be removed wholly", code="engine.remove", seen=str(error)
            ) from error
        return engine

    def _registered(self, ref: str) -> Engine | None:
        return next((engine for engine in self.all() if engine.ref == ref), None)

    def _recipe(self, name: str) -> tuple[EngineTable, Recipe]:
        for table in self._tables:
            for recipe in table.recipes:
                if recipe.name == name:
                    return table, recipe
        names = ", ".join(recipe.name for table in self._tables for recipe in table.recipes)
        raise UsageError(
            f"holddown has no recipe to install {name}",
            code="engine.no-recipe",
            seen=f"recipes: {names}",
            do="install it yourself and register it: holddown engine add /path/to/its/python",
        )

    def _complete(self, engine: Engine) -> Engine:
        if engine.managed and not os.access(engine.executable, os.X_OK):
            raise EngineError(
                f"{engine.ref} was installed, but its {'server' if engine.program else 'Python'} is gone",
                code="engine.program-missing" if engine.program else "engine.python-missing",
                seen=engine.executable,
                do=f"holddown engine remove {engine.ref}, then install it again",
            )
        return engine


def _absolute(path: str) -> Path:
    # not pathlib's: that raises for a `~user` that is not known
    return Path(os.path.expanduser(path)).absolute()  # noqa: PTH111


def _checked(text: str, shape: re.Pattern[str], what: str) -> str:
    if not shape.fullmatch(text):
        raise UsageError(
            f"{text!r} cannot be an engine's {what}",
            code=f"engine.{what}",
            seen="letters, digits, '.', '_' and '-' can be in it, and the first is a letter or digit",
        )
    return text


def _read(path: Path) -> Engine:
    try:
        return loads(Engine, path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EngineError(
            "the record of an engine environment cannot be read",
            code="engine.record",
            seen=f"{path}: {error}",
            do=f"delete the folder {path.parent} and register or install that engine again",
        ) from error


def _write(folder: Path, engine: Engine) -> None:
    draft = folder / f".{_FILE}.{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(draft, "w", encoding="utf-8") as file:
            file.write(dumps(engine))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(folder / _FILE)
    except OSError as error:
        raise EngineError("the engine could not be registered", code="engine.record", seen=str(error)) from error
