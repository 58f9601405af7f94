"""Which Python files a checkpoint wants run: those that `auto_map` names, and those that these import."""

import ast
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from holddown.facts.model import CodeFile


@dataclass(frozen=True, slots=True)
class Script:
    """A Python file of the checkpoint, by its path within it."""

    name: str
    content: bytes


def code_files(named: Iterable[str], scripts: Iterable[Script]) -> tuple[CodeFile, ...]:
    """All files that would run, with the hash by which a change is seen; an empty hash for a file that is not here.

    Source: `get_relative_import_files` and `get_class_from_dynamic_module` of transformers' dynamic_module_utils.
    """
    here = {script.name: script.content for script in scripts}
    found: dict[str, str] = {}
    waiting = sorted(named)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        content = here.get(name)
        found[name] = "" if content is None else hashlib.sha256(content).hexdigest()
        if content is not None:
            waiting.extend(_imported(name, content, here))
    return tuple(CodeFile(name, sha256) for name, sha256 in sorted(found.items()))


def _imported(name: str, content: bytes, here: dict[str, bytes]) -> list[str]:
    """The files that this one imports relative to itself; all there are where it cannot be understood."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return list(here)
    found: list[str] = []
    folder = name.split("/")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and 1 <= node.level <= len(folder) + 1:
            base = folder[: len(folder) + 1 - node.level] + (node.module.split(".") if node.module else [])
            found.extend(_files(base, [alias.name for alias in node.names], here))
    return found


def _files(base: list[str], words: list[str], here: dict[str, bytes]) -> list[str]:
    """`from .base import words`: the file of base, or the package with those of its modules that are named."""
    if not base:
        return [f"{word}.py" for word in words if f"{word}.py" in here]
    path = "/".join(base)
    package = f"{path}/__init__.py"
    if f"{path}.py" in here or not any(name.startswith(f"{path}/") for name in here):
        return [f"{path}.py"]
    modules = [f"{path}/{word}.py" for word in words]
    return [name for name in (package, *modules) if name in here]
