"""Where a fact came from, and what to hold in its place when there is none.

A fact that could not be had is `Unknown(why)`: never 0, never None, never a guess.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeAlias, TypeVar

T = TypeVar("T")


class SourceKind(StrEnum):
    """Strongest first where two sources disagree: a user's word, then what was asked, then what we noted."""

    USER = "user"
    FILE = "file"
    PROBE = "probe"
    MEASURED = "measured"
    DERIVED = "derived"
    TABLE = "table"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Source:
    """`where` is for a person: a file name with its key, a command, a table row, a formula."""

    kind: SourceKind
    where: str

    def __str__(self) -> str:
        return f"{self.where} ({self.kind})"


@dataclass(frozen=True, slots=True)
class Known(Generic[T]):
    """A value and where it came from."""

    value: T
    source: Source


@dataclass(frozen=True, slots=True)
class Unknown:
    """No value, and why there is none."""

    why: str


Fact: TypeAlias = Known[T] | Unknown


def from_file(value: T, where: str) -> Known[T]:
    """A value read from a file; `where` names the file and the key."""
    return Known(value, Source(SourceKind.FILE, where))


def from_probe(value: T, where: str) -> Known[T]:
    """A value that the machine or the installed engine gave when asked."""
    return Known(value, Source(SourceKind.PROBE, where))


def derived(value: T, where: str) -> Known[T]:
    """A value computed from others; `where` is the formula."""
    return Known(value, Source(SourceKind.DERIVED, where))


def known_or(fact: Fact[T], default: T) -> T:
    """The value, or `default` where the caller can say what an unknown means to it."""
    return fact.value if isinstance(fact, Known) else default
