"""The files of an engine's Python package, read without importing any."""

import ast
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holddown.base.errors import EngineError
from holddown.facts.python_source import SourceFile, tree_of
from holddown.facts.registry_source import read_words


@contextmanager
def without_collector() -> Iterator[None]:
    """Syntax trees are a million objects without a cycle; looking for some takes half of the time of reading."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class PythonPackage:
    """Syntax trees of a package's files, each parsed once; None for one that is missing or is no Python."""

    def __init__(self, folder: Path) -> None:
        """folder: the package's own, named as Python imports it."""
        self.folder = folder
        self._trees: dict[str, ast.Module | None] = {}

    def module(self, name: str) -> ast.Module | None:
        """By dotted name: `vllm.v1.attention.backend`."""
        parts = name.split(".")
        if parts[0] != self.folder.name:
            return None
        relative = "/".join(parts[1:])
        return self.tree(f"{relative}.py") or self.tree(f"{relative}/__init__.py".lstrip("/"))

    def tree(self, relative: str) -> ast.Module | None:
        """By path: `v1/attention/backend.py`."""
        if relative not in self._trees:
            self._trees[relative] = self._parsed(self.folder / relative)
        return self._trees[relative]

    def needed(self, path: Path) -> ast.Module:
        """By its file. Raises: EngineError when it is missing or is no Python."""
        relative = str(path.relative_to(self.folder))
        found = self._trees.get(relative) or tree_of(source_file(path))
        self._trees[relative] = found
        return found

    def words(self, relative: str, name: str) -> tuple[str, ...]:
        """Of `name = Literal[...]`, by path; none where there is no such file or name."""
        tree = self.tree(relative)
        return read_words(tree, name) if tree else ()

    def _parsed(self, path: Path) -> ast.Module | None:
        try:
            return ast.parse(path.read_text(encoding="utf-8", errors="replace"))
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            return None

    def below(self, folder: str) -> list[ast.Module]:
        """Of every file below a folder."""
        found = [self.tree(str(path.relative_to(self.folder))) for path in python_files(self.folder / folder)]
        return [tree for tree in found if tree is not None]


def python_files(folder: Path) -> list[Path]:
    """Every .py file below it, by path."""
    return sorted(folder.rglob("*.py"))


def source_file(path: Path) -> SourceFile:
    """The text of one file. Raises: EngineError."""
    try:
        return SourceFile(str(path), path.read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        raise EngineError(
            "a file of the engine cannot be read",
            code="engine.source",
            seen=str(error),
            do="install this engine again; if it is a layout that holddown does not know, please report it",
        ) from error
