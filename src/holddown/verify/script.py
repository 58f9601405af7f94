"""Checks as scripts: a generator that yields what is to be asked, is sent what was answered, and returns its verdict.

Nothing is asked here: `app/verify` plays a script against a server. A check so reads from top to bottom, and a test
plays it against answers of its own.

    def streaming(claims: Claims) -> Script:
        whole = yield from ask(question)
        streamed = yield from stream(question)
        return passed(...) if whole == streamed else failed(...)
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeAlias

from holddown.facts.answers import Ask, Refusal, Reply
from holddown.verify.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Whole:
    """All at once -> a reply each."""

    asks: tuple[Ask, ...]


@dataclass(frozen=True, slots=True)
class Streamed:
    """All at once -> a reply each."""

    asks: tuple[Ask, ...]


@dataclass(frozen=True, slots=True)
class Abandoned:
    """Streams, all at once, cut after so many deltas -> None each, or why it could not be."""

    asks: tuple[Ask, ...]
    deltas: int


@dataclass(frozen=True, slots=True)
class Posted:
    """Bodies as they are, a few at once -> what came of each."""

    path: str
    contents: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Counted:
    """-> how many tokens the prompt has, or None."""

    ask: Ask


@dataclass(frozen=True, slots=True)
class Tokenized:
    """-> the prompt's tokens; none where the server does not tell them."""

    ask: Ask


@dataclass(frozen=True, slots=True)
class Gauged:
    """-> the values of these metrics now."""

    metrics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Paused:
    seconds: float


Question = Whole | Streamed | Abandoned | Posted | Counted | Tokenized | Gauged | Paused
Script: TypeAlias = Generator[Question, Any, Verdict]


@dataclass(frozen=True, slots=True)
class Scripted:
    """One check. script: begins it anew. slow: it takes more than seconds on a small machine."""

    name: str
    script: Callable[[], Script]
    slow: bool = False


def ask(one: Ask) -> Generator[Question, Any, Reply]:
    replies: tuple[Reply, ...] = yield Whole((one,))
    return replies[0]


def ask_all(asks: tuple[Ask, ...]) -> Generator[Question, Any, tuple[Reply, ...]]:
    replies: tuple[Reply, ...] = yield Whole(asks)
    return replies


def stream(one: Ask) -> Generator[Question, Any, Reply]:
    replies: tuple[Reply, ...] = yield Streamed((one,))
    return replies[0]


def abandon(asks: tuple[Ask, ...], deltas: int) -> Generator[Question, Any, tuple[Refusal | None, ...]]:
    cut: tuple[Refusal | None, ...] = yield Abandoned(asks, deltas)
    return cut


def post(path: str, contents: tuple[bytes, ...]) -> Generator[Question, Any, tuple[Refusal, ...]]:
    given: tuple[Refusal, ...] = yield Posted(path, contents)
    return given


def count(one: Ask) -> Generator[Question, Any, int | None]:
    tokens: int | None = yield Counted(one)
    return tokens


def token_ids(one: Ask) -> Generator[Question, Any, tuple[int, ...]]:
    ids: tuple[int, ...] = yield Tokenized(one)
    return ids


def gauge(*metrics: str) -> Generator[Question, Any, tuple[float | None, ...]]:
    values: tuple[float | None, ...] = yield Gauged(metrics)
    return values


def pause(seconds: float) -> Generator[Question, Any, None]:
    yield Paused(seconds)
