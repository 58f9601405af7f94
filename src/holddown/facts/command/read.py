"""Any text that holds launch commands, told apart by its name or by how it looks."""

import re
from collections.abc import Sequence
from enum import StrEnum

from holddown.facts.command.launch import Grammar, LaunchCommand
from holddown.facts.command.manifest import manifest_commands
from holddown.facts.command.shell import shell_commands
from holddown.facts.command.unit import unit_commands


class TextKind(StrEnum):
    SHELL = "shell"
    MANIFEST = "manifest"
    UNIT = "unit"


_UNIT = re.compile(r"^\s*(?:\[(?:Unit|Service|Container)\]|ExecStart\s*=)", re.MULTILINE)
_MANIFEST = re.compile(r"^(?:services|apiVersion|kind|version|spec|containers|x-[\w-]+)\s*:", re.MULTILINE)


def text_kind(text: str, name: str = "") -> TextKind:
    """name: of its file, empty where there is none."""
    lower = name.lower()
    if lower.endswith((".service", ".conf")) or (not lower.endswith((".sh", ".yaml", ".yml")) and _UNIT.search(text)):
        return TextKind.UNIT
    if lower.endswith((".yaml", ".yml", ".json")) or (not lower.endswith(".sh") and _MANIFEST.search(text)):
        return TextKind.MANIFEST
    return TextKind.SHELL


def read_commands(text: str, grammars: Sequence[Grammar], name: str = "") -> list[LaunchCommand]:
    """Every engine command in it, in order. name: of its file, empty for a command line, whose words then have no line.

    Raises: UsageError where it cannot be read as what it is.
    """
    match text_kind(text, name):
        case TextKind.UNIT:
            return unit_commands(text, grammars, name)
        case TextKind.MANIFEST:
            return manifest_commands(text, grammars, name)
        case TextKind.SHELL:
            return shell_commands(text, grammars, 1 if name else 0, name)
