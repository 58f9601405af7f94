"""A command's arguments read as a build's own parser reads them, by the rules of argparse.

Source: CPython 3.12 argparse.py `_parse_optional`, `_get_option_tuples`, `_match_arguments_partial`; vLLM 0.32.0
utils/argparse_utils.py (dotted names, `-O3`).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from holddown.facts.command.launch import Grammar, LaunchCommand, Word
from holddown.facts.engine import Flag, Takes
from holddown.lint.options import Option, Options, Unclear, bare, is_switch

_LEVELS = ("0", "1", "2", "3")
_NUMBER = re.compile(r"-\d+(?:\.\d*)?|-\.\d+")


class Fault(Enum):
    """What keeps the parser from taking an argument."""

    UNKNOWN = auto()
    UNCLEAR = auto()
    NO_VALUE = auto()
    NEEDS_NO_VALUE = auto()


@dataclass(frozen=True, slots=True)
class Given:
    """One option as it was given.

    written: its name as it stood, `--tp`. name: the build's own long name without dashes, or what was written where
    the build has none. key: the dotted rest of it. option: None where the build does not have it, or is not known.
    values: none for a switch. at: which words of the command it is.
    """

    written: str
    name: str
    key: str
    option: Option | None
    values: tuple[Word, ...]
    at: tuple[int, int]
    line: int
    fault: Fault | None = None
    candidates: tuple[str, ...] = ()
    attached: bool = False

    @property
    def on(self) -> bool:
        return self.option is None or self.option.on

    @property
    def value(self) -> Word | None:
        return self.values[0] if self.values else None

    @property
    def flag(self) -> Flag | None:
        return self.option.flag if self.option else None


@dataclass(frozen=True, slots=True)
class Arguments:
    """positional: words that no option takes, with their index. unread: words that only a shell knows."""

    given: tuple[Given, ...]
    positional: tuple[tuple[int, Word], ...]
    unread: tuple[Word, ...]

    def last(self, names: Sequence[str]) -> Given | None:
        """The one that counts among options of these names; one that reaches into a JSON option is none."""
        return next((each for each in reversed(self.given) if each.name in names and not each.key), None)


def read_arguments(command: LaunchCommand, options: Options | None, grammar: Grammar) -> Arguments:
    """options: None where nothing is known of the build: then an option takes the next word unless that is one too."""
    return _Reader(command, options, grammar).read()


@dataclass
class _Reader:
    command: LaunchCommand
    options: Options | None
    grammar: Grammar

    def read(self) -> Arguments:
        words = self.command.words
        given: list[Given] = []
        positional: list[tuple[int, Word]] = []
        unread: list[Word] = []
        at = self.command.begin
        while at < len(words):
            word = words[at]
            if word.text == "--":
                positional += enumerate(words[at + 1 :], at + 1)
                break
            if self._is_value(word):
                if word.certain:
                    positional.append((at, word))
                else:
                    unread.append(word)
                at += 1
                continue
            given.append(self._option(at))
            at = given[-1].at[1]
        return Arguments(tuple(given), tuple(positional), tuple(unread))

    def _is_value(self, word: Word) -> bool:
        """Whether the parser takes it for a value: a negative number is one, and so is what holds a space."""
        text = word.text
        if not text.startswith("-") or text == "-" or _NUMBER.fullmatch(text):
            return True
        return " " in text and "=" not in text.partition(" ")[0]

    def _option(self, at: int) -> Given:
        word = self.command.words[at]
        text = word.text
        if self.grammar.levels and re.fullmatch(r"-O=?\w+", text):
            return self._level(at, at + 1, text[2:].removeprefix("="))
        after = self.command.words[at + 1].text if at + 1 < len(self.command.words) else ""
        if self.grammar.levels and text == "-O" and after in _LEVELS:
            return self._level(at, at + 2, after)
        written, equals, attached = text.partition("=") if self.grammar.equals else (text, "", "")
        key = written.partition(".")[2] if self.grammar.dotted else ""
        found = self._find(written.partition(".")[0] if key else written)
        value = Word(attached, word.raw.partition("=")[2], word.line, word.certain) if equals else None
        if isinstance(found, Unclear):
            candidates = found.names
            return self._taken(at, written, key, None, value, Fault.UNCLEAR, candidates)
        fault = None if found or not self._judges(written) else Fault.UNKNOWN
        return self._taken(at, written, key, found, value, fault, ())

    def _find(self, name: str) -> Option | Unclear | None:
        return self.options.find(name) if self.options else None

    def _judges(self, written: str) -> bool:
        """Whether a name that was not found is known not to be there."""
        return self.options is not None and (written.startswith("--") or self.options.knows_short)

    def _level(self, at: int, stop: int, level: str) -> Given:
        """`-O3`, `-O=3`, `-O 3`."""
        found = self._find(f"--{self.grammar.levels}")
        word = self.command.words[at]
        value = Word(level, "", word.line, word.certain)
        option = found if isinstance(found, Option) else None
        return Given("-O", self.grammar.levels, "", option, (value,), (at, stop), word.line, attached=True)

    def _taken(
        self,
        at: int,
        written: str,
        key: str,
        option: Option | None,
        attached: Word | None,
        fault: Fault | None,
        candidates: tuple[str, ...],
    ) -> Given:
        """With the values that follow it."""
        flag = option.flag if option else None
        name = bare(flag.name) if flag else bare(written)
        values = (attached,) if attached is not None else tuple(self._values(at + 1, flag, key))
        end = at + 1 + (0 if attached is not None else len(values))
        if fault is None and flag is not None:
            fault = _miscounted(flag, key, values, written)
        line = self.command.words[at].line
        return Given(written, name, key, option, values, (at, end), line, fault, candidates, attached is not None)

    def _values(self, start: int, flag: Flag | None, key: str) -> Iterator[Word]:
        words = self.command.words
        if flag is not None and is_switch(flag) and not key:
            return
        many = flag is not None and flag.several and not key
        for at in range(start, len(words)):
            word = words[at]
            # llama.cpp takes the next word, whatever it is; after a dot vLLM does so too
            whatever = at == start and flag is not None and (key or not self.grammar.equals)
            if not whatever and not self._is_value(word):
                return
            yield word
            if not many:
                return


def _miscounted(flag: Flag, key: str, values: Sequence[Word], written: str) -> Fault | None:
    if is_switch(flag) and not key:
        return Fault.NEEDS_NO_VALUE if values else None
    if values or flag.optional or (flag.takes is Takes.UNKNOWN and flag.several):
        return None
    return Fault.NO_VALUE
