"""One Python file of an engine as text, and its syntax tree."""

import ast
from collections.abc import Callable
from dataclasses import dataclass

from holddown.base.errors import EngineError

ReadModule = Callable[[str], ast.Module | None]
"""The tree of an engine's module by its dotted name, None where it has none that can be read."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """path: for messages."""

    path: str
    text: str


def tree_of(file: SourceFile) -> ast.Module:
    """Raises: EngineError naming a file that is not Python."""
    try:
        return ast.parse(file.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise EngineError(
            "a file of the engine cannot be read as Python",
            code="engine.source",
            seen=f"{file.path}: {error}",
            do="install this engine again, or run holddown under the Python that the engine uses",
        ) from error


def read_string(file: SourceFile, name: str) -> str | None:
    """The text that the module assigns to `name`; None where it assigns none (`cuda = None`) or does not name it.

    Raises: EngineError when the file is not Python.
    """
    for node in tree_of(file).body:
        match node:
            case ast.Assign(targets=targets, value=ast.Constant(value=str(text))):
                pass
            case ast.AnnAssign(target=target, value=ast.Constant(value=str(text))):
                targets = [target]
            case _:
                continue
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return text
    return None
