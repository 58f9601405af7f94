"""The command as it should be: the same words in the same order, but for what the remarks change."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holddown.facts.command.launch import LaunchCommand, Word
from holddown.lint.remark import Change, Remark


@dataclass(frozen=True, slots=True)
class Piece:
    """Words that belong together, an option with its values, ready for a shell. changed: not as it was written."""

    text: str
    changed: bool = False


@dataclass(frozen=True, slots=True)
class Corrected:
    """exports: lines before the command. pieces: the command. gone: what was left out, as it stood."""

    exports: tuple[Piece, ...]
    pieces: tuple[Piece, ...]
    gone: tuple[str, ...]

    @property
    def changed(self) -> bool:
        return bool(self.gone) or any(each.changed for each in (*self.exports, *self.pieces))

    @property
    def line(self) -> str:
        """All of it on one line, for a document."""
        return (
            "; ".join(each.text for each in self.exports)
            + ("; " if self.exports else "")
            + " ".join(each.text for each in self.pieces)
        )


def corrected(command: LaunchCommand, remarks: Sequence[Remark]) -> Corrected:
    """Of two changes to the same words the first counts."""
    applied = _applied([change for remark in remarks for change in remark.changes])
    gone: list[str] = []
    pieces: list[Piece] = []
    words, at = command.words, 0
    edges = _edges(command)
    while at <= len(words):
        for change in (each for each in applied if each.start == each.stop == at):
            pieces += _pieces(change.words)
        replaced = next((each for each in applied if each.start == at < each.stop), None)
        if replaced is not None:
            gone.append(" ".join(map(shell_text, words[at : replaced.stop])))
            made = _pieces(replaced.words)
            at = replaced.stop
            starts = [each.start for each in applied if each.start >= at]
            if (
                made and replaced.start >= command.begin and at not in edges and at not in starts
            ):  # only its name changed: its values stay with it
                stop = min(next(edge for edge in edges if edge > at), *starts, len(words))
                made[-1] = Piece(" ".join([made[-1].text, *map(shell_text, words[at:stop])]), changed=True)
                at = stop
            pieces += made
            continue
        if at < len(words):
            stop = next(edge for edge in edges if edge > at)
            stop = min([stop, *(each.start for each in applied if each.start > at)])
            pieces.append(Piece(" ".join(map(shell_text, words[at:stop]))))
            at = stop
        else:
            break
    exports, unset = _exports(command, remarks)
    return Corrected(exports, tuple(pieces), (*unset, *gone))


def _applied(changes: Iterable[Change]) -> list[Change]:
    kept: list[Change] = []
    for change in changes:
        overlaps = any(max(change.start, each.start) < min(change.stop, each.stop) or change == each for each in kept)
        named = {word for word in change.words if word.startswith("-")}
        twice = change.start == change.stop and any(
            each.start == each.stop and named & set(each.words) for each in kept
        )
        if not overlaps and not twice:
            kept.append(change)
    return sorted(kept, key=lambda each: each.start)


def _edges(command: LaunchCommand) -> list[int]:
    """Where a new piece begins: at every option, its own and those of the container around it."""
    words, first = command.words, 0 if command.container is not None else command.begin
    starts = (at for at in range(first, len(words)) if _is_option(words[at].text))
    program = {command.program} if command.container is not None else set()
    return sorted({0, len(words), *starts, *program})


def _is_option(text: str) -> bool:
    return text.startswith("--") or (text[:1] == "-" and text[1:2].isalpha())


def _pieces(words: Sequence[str]) -> list[Piece]:
    """Words of a change: each option begins a piece."""
    groups: list[list[str]] = []
    for word in words:
        if not groups or (word.startswith("--") and not word[2:3].isspace()):
            groups.append([])
        groups[-1].append(word)
    return [Piece(" ".join(map(shlex.quote, group)), changed=True) for group in groups]


def _exports(command: LaunchCommand, remarks: Sequence[Remark]) -> tuple[tuple[Piece, ...], tuple[str, ...]]:
    unset = {name for remark in remarks for name in remark.unset}
    kept, gone = [], []
    for variable in command.variables:
        if variable.at is not None:
            continue
        text = f"{variable.name}={shell_text(variable.value)}"
        if variable.name in unset:
            gone.append(f"export {text}")
        else:
            kept.append(Piece(f"export {text}"))
    for name, value in (pair for remark in remarks for pair in remark.set):
        held = f'"{value}"' if value.startswith("${") else shlex.quote(value)
        kept.append(Piece(f"export {name}={held}", changed=True))
    return tuple(kept), tuple(gone)


def shell_text(word: Word) -> str:
    """As it was written in a shell's text; quoted where it came from elsewhere."""
    if word.raw:
        return word.raw
    return f'"{word.text}"' if not word.certain and word.text else shlex.quote(word.text)
