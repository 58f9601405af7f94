"""A shell's text -> the engine commands in it, with the line of every word.

No shell is run: what only a shell could know (`$(...)`, a variable that the text does not set) stays as it was written
and is marked so.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from holddown.base.errors import UsageError
from holddown.facts.command.launch import Grammar, LaunchCommand, Variable, Word, assigned, launch_command

_PIECES = r"""'[^']*'|"(?:[^"\\]|\\.)*"|\\.|\$\([^()]*\)|\$\{[^}]*\}|`[^`]*`|\$'[^']*'|[^\s'"\\;&|<>()`]"""
_TOKEN = re.compile(
    rf"""(?P<blank>(?:[ \t\r\f\v]|\\\r?\n)+)
    |(?P<comment>\#[^\n]*)
    |(?P<redirect>(?:\d+|&)?(?:<<<|<<-?|>>?|<)&?)
    |(?P<end>\r?\n|;;?|&&?|\|[|&]?|[()])
    |(?P<word>(?:{_PIECES})+)""",
    re.VERBOSE | re.DOTALL,
)
_PIECE = re.compile(_PIECES, re.DOTALL)
_EXPANSION = re.compile(r"\$(?:(\w+)|\{(\w+)(?::?-([^}]*))?\}|[({@*#?!$-])")
_SHELLS = ("sh", "bash", "dash", "zsh")
_DEEPEST = 3


def shell_commands(
    text: str, grammars: Sequence[Grammar], first_line: int = 0, where: str = "", depth: int = 0
) -> list[LaunchCommand]:
    """Every engine command of a line or script, with the variables that lines before it set.

    first_line: number of its first line, 0 where it is no file. Raises: UsageError where a quote is never closed.
    """
    known: dict[str, Variable] = {}
    exported: dict[str, Variable] = {}
    found: list[LaunchCommand] = []
    for words in statements(text, first_line, known):
        setting = _assignments(words)
        if setting:
            known.update((each.name, each) for each in setting)
            if words[0].text in ("export", "declare", "set"):
                exported.update((each.name, each) for each in setting)
            continue
        if words[0].text == "export":
            exported.update((each.text, known[each.text]) for each in words[1:] if each.text in known)
        inner = _inner(words)
        if inner is not None and depth < _DEEPEST:
            found += shell_commands(inner.text, grammars, inner.line, where, depth + 1)
            continue
        command = launch_command(words, grammars, tuple(exported.values()), None, where)
        if command is not None:
            found.append(command)
    return found


def statements(text: str, first_line: int = 0, known: Mapping[str, Variable] | None = None) -> Iterator[list[Word]]:
    """The words of one simple command after the other. known: variables whose values the text has set so far."""
    words: list[Word] = []
    heredocs: list[str] = []
    at, skip = 0, ""
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            line = text.count("\n", 0, at) + 1
            raise UsageError(
                f"a quote or bracket that opens in line {line} is never closed",
                code="lint.quote",
                seen=f"line {line}: {text[at]}",  # no more of it: a key may stand there
                do="close it, or put the whole command in single quotes",
            )
        kind, piece = match.lastgroup, match.group()
        line = first_line + text.count("\n", 0, at) if first_line else 0
        at = match.end()
        if kind == "redirect":
            skip = piece.lstrip("0123456789&") or ">"
        elif kind == "word" and skip:
            if skip.startswith("<<") and skip != "<<<":
                heredocs.append(piece.strip("'\""))
            skip = ""
        elif kind == "word":
            words.append(_word(piece, line, known or {}))
        elif kind == "end":
            skip = ""
            if words:
                yield words
                words = []
            if piece.endswith("\n"):
                at = _past(heredocs, text, at)
    if words:
        yield words


def _past(heredocs: list[str], text: str, at: int) -> int:
    """Where the text goes on after the bodies of these here-documents."""
    while heredocs:
        mark = heredocs.pop(0)
        end = re.compile(rf"^\s*{re.escape(mark)}$", re.MULTILINE).search(text, at)
        at = end.end() if end else len(text)
    return at


def _word(raw: str, line: int, known: Mapping[str, Variable]) -> Word:
    """What the shell makes of it, as far as it can be told."""
    parts: list[str] = []
    certain = True
    for match in _PIECE.finditer(raw.replace("\\\n", "")):
        piece = match.group()
        if piece.startswith("'"):
            parts.append(piece[1:-1])
        elif piece.startswith("$'"):
            parts.append(piece[2:-1])
        elif piece.startswith("\\"):
            parts.append(piece[1:])
        elif piece.startswith('"'):
            text, sure = _expanded(piece[1:-1], known)
            parts.append(re.sub(r"\\([\\\"$`])", r"\1", text))
            certain = certain and sure
        else:
            parts.append(piece)
    text = "".join(parts)
    if "'" not in raw and '"' not in raw:
        text, certain = _expanded(text, known)
    return Word(text, raw, line, certain)


def _expanded(text: str, known: Mapping[str, Variable]) -> tuple[str, bool]:
    certain = "`" not in text

    def value(match: re.Match[str]) -> str:
        nonlocal certain
        variable = known.get(match[1] or match[2] or "")
        if variable is not None and variable.value.certain:
            return variable.value.text
        if match[3] is not None:
            return match[3]
        certain = False
        return match[0]

    return _EXPANSION.sub(value, text), certain


def _assignments(words: Sequence[Word]) -> list[Variable]:
    """`A=B`, `export A=B C=D`: a line of assignments alone; none where it is a command."""
    pairs = [assigned(word) for word in (words[1:] if words[0].text in ("export", "declare") else words)]
    made = [Variable(*pair) for pair in pairs if pair is not None]
    return made if len(made) == len(pairs) else []


def _inner(words: Sequence[Word]) -> Word | None:
    """The text of `bash -c '...'`."""
    for index, word in enumerate(words[:-2]):
        if word.text.rpartition("/")[2] in _SHELLS and re.fullmatch(r"-[a-z]*c", words[index + 1].text):
            return words[index + 2]
    return None
