"""Finds the row that a person, or NVML, means by a name. What fits no row, or several, gets no default."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Protocol, TypeVar

from holddown.base.errors import UsageError


class Named(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def aliases(self) -> tuple[str, ...]: ...


Row = TypeVar("Row", bound=Named)


@dataclass(frozen=True, slots=True)
class NoRow:
    """near: names that were perhaps meant. several: each of them fits, so that one word more decides."""

    near: tuple[str, ...]
    several: bool


def _words(name: str) -> tuple[str, ...]:
    """`RTX PRO6000` and `rtx pro-6000` are the same words: rtx, pro, 6000."""
    return tuple(re.findall(r"[a-z]+|[0-9]+", name.casefold()))


def find_row(rows: Sequence[Row], asked: str) -> Row | NoRow:
    """The row that is called so, or else the only one whose name or alias holds all the words of `asked`."""
    words = _words(asked)
    for row in rows:
        if any(_words(name) == words for name in (row.name, *row.aliases)):
            return row
    fitting = [row for row in rows if words and any(set(words) <= set(_words(n)) for n in (row.name, *row.aliases))]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        return NoRow(tuple(row.name for row in fitting), several=True)
    return NoRow(_near(rows, asked), several=False)


def the_row(rows: Sequence[Row], asked: str, kind: str) -> Row:
    """As `find_row`. kind: `GPU`, `fabric`, for the message. Raises: UsageError that lists near names."""
    found = find_row(rows, asked)
    if not isinstance(found, NoRow):
        return found
    code = f"usage.{kind.casefold()}"
    if found.several:
        raise UsageError(f"{asked!r} fits more than one {kind}", code=code, seen=", ".join(found.near), do="name one")
    known = found.near or tuple(row.name for row in rows)
    raise UsageError(
        f"no {kind} of the table is called {asked!r}",
        code=code,
        seen=("near: " if found.near else "known: ") + ", ".join(known),
        do=f"name one of these; without a row there is no prediction for this {kind}",
    )


def _near(rows: Sequence[Row], asked: str) -> tuple[str, ...]:
    """Rows with a word of `asked` in common, or spelt much like it; at most five."""
    by_name = {name.casefold(): row.name for row in rows for name in (row.name, *row.aliases)}
    close = [by_name[name] for name in get_close_matches(asked.casefold(), list(by_name), n=5, cutoff=0.6)]
    # a number names a model ("6000"); a word such as "rtx" names half of the table
    numbers = {word for word in _words(asked) if word.isdigit()}
    sharing = [row.name for row in rows if numbers & set(_words(row.name))]
    return tuple(dict.fromkeys([*close, *sharing]))[:5]
