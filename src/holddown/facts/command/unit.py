"""A systemd unit -> the engine commands of its ExecStart lines. Source: systemd.service(5), systemd.exec(5)."""

import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise

from holddown.base.errors import UsageError
from holddown.facts.command.launch import Grammar, LaunchCommand, Variable, Word, assigned, launch_command
from holddown.facts.command.shell import shell_commands

_SPECIFIER = re.compile(r"%[a-zA-Z]|\$\{?\w")


def unit_commands(text: str, grammars: Sequence[Grammar], where: str) -> list[LaunchCommand]:
    """Raises: UsageError where a quote is never closed."""
    lines = list(_settings(text))
    variables = []
    for name, value, line in lines:
        if name == "Environment":
            pairs = (assigned(Word(each, "", line, not _SPECIFIER.search(each))) for each in _split(value, line))
            variables += [Variable(*pair) for pair in pairs if pair is not None]
    found = []
    for name, value, line in lines:
        if name != "ExecStart" or not value:
            continue
        parts = _split(re.sub(r"^[-@:+!]+", "", value), line)
        words = [Word(part, "", line, not _SPECIFIER.search(part)) for part in parts]
        command = launch_command(words, grammars, variables, None, where)
        if command is not None:
            found.append(command)
        else:
            inner = [word for before, word in pairwise(words) if re.fullmatch(r"-\w*c", before.text)]
            found += [each for text_ in inner for each in shell_commands(text_.text, grammars, line, where, 1)]
    return found


def _settings(text: str) -> Iterator[tuple[str, str, int]]:
    """Name, value and line of each, with continued lines joined."""
    held, start = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if not held and (not line.strip() or line.lstrip()[0] in "#;["):
            continue
        if held and line.lstrip().startswith(("#", ";")):
            continue  # comments may stand within a continued line
        start = start or number
        held += line.rstrip()
        if held.endswith("\\"):
            held = held[:-1] + " "
            continue
        name, equals, value = held.partition("=")
        if equals:
            yield name.strip(), value.strip(), start
        held, start = "", 0


def _split(text: str, line: int) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        what = f"line {line} of the unit cannot be split into words: {str(error).lower()}"
        raise UsageError(what, code="lint.unit", do="close the quote") from error
