"""What engines print when they fail, and what it means."""

from dataclasses import dataclass
from enum import StrEnum


class Sure(StrEnum):
    """How sure a sign is. CERTAIN: it quotes the figures or names that are wrong. LIKELY: it names the cause. POSSIBLE:
    it has more than one cause."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"


@dataclass(frozen=True, slots=True)
class Form:
    """One way in which a failure shows on a line of a log: stable fragments, without file names and line numbers.

    engine: that prints it, empty for any; where its releases say it otherwise, each has a form. cause, remedy, edits:
    in place of the failure's. Texts are templates over the pattern's named groups; derive: names a function that makes
    further ones of them. edits: `setting=value`, of a plan that would not fail so.
    """

    pattern: str
    sure: Sure
    engine: str = ""
    cause: str = ""
    remedy: str = ""
    edits: tuple[str, ...] = ()
    derive: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """One cause. id: unique, part of the finding's code. stage: what the engine was at. never: the remedy that tempts
    and is wrong. source: of its messages and its remedy."""

    id: str
    stage: str
    cause: str
    source: str
    forms: tuple[Form, ...]
    remedy: str = ""
    edits: tuple[str, ...] = ()
    never: str = ""


@dataclass(frozen=True, slots=True)
class Failures:
    """One file of them."""

    failures: tuple[Failure, ...]


@dataclass(frozen=True, slots=True)
class Consequence:
    """An exception that tells of another one, or of the end that it led to. survivor: of a process that lost its
    peers, so that it may be all there is to see."""

    pattern: str
    source: str
    survivor: bool = False


@dataclass(frozen=True, slots=True)
class Consequences:
    consequences: tuple[Consequence, ...]
