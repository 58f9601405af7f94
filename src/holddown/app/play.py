"""Plays a check's script against a server."""

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, assert_never

from holddown.ports import Client
from holddown.verify.script import (
    Abandoned,
    Counted,
    Gauged,
    Paused,
    Posted,
    Question,
    Streamed,
    Tokenized,
    Whole,
)

One = TypeVar("One")
Given = TypeVar("Given")

_POSTED_AT_ONCE = 4


def play(script: Generator[Question, Any, Given], client: Client, sleep: Callable[[float], None]) -> Given:
    """Asks what it asks, and gives what it returns."""
    try:
        question = next(script)
        while True:
            question = script.send(_answered(question, client, sleep))
    except StopIteration as end:
        returned: Given = end.value
        return returned


def _answered(question: Question, client: Client, sleep: Callable[[float], None]) -> object:
    match question:
        case Whole(asks):
            return _at_once(client.ask, asks)
        case Streamed(asks):
            return _at_once(client.stream, asks)
        case Abandoned(asks, deltas):
            return _at_once(lambda ask: client.abandon(ask, deltas), asks)
        case Posted(path, contents):
            return _at_once(lambda content: client.post(path, content), contents, _POSTED_AT_ONCE)
        case Counted(ask):
            return client.prompt_tokens(ask)
        case Tokenized(ask):
            return client.token_ids(ask)
        case Gauged(metrics):
            return client.gauges(*metrics)
        case Paused(seconds):
            sleep(seconds)
            return None
        case _:
            assert_never(question)


def _at_once(do: Callable[[One], Given], of: Sequence[One], at_most: int = 0) -> tuple[Given, ...]:
    with ThreadPoolExecutor(at_most or max(1, len(of))) as pool:
        return tuple(pool.map(do, of))
