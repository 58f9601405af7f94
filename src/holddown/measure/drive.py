"""What a load client is told to do, and what it brings back."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import shake_128

from holddown.measure.pauses import Pauses
from holddown.measure.run import ClientSide, Trace
from holddown.measure.shapes import Shape


@dataclass(frozen=True, slots=True)
class Language:
    """How text of so many tokens is written for one model.

    words: each one token where another word stands before it, 256 of them. overhead: tokens of a prompt that are not
    its words: the chat template, the text's opening. per_word: tokens of a word. chat: asked as a chat completion, else
    as a plain one. exact: the count was checked with the server's own tokenizer. note: what a reader must know of it.
    """

    words: tuple[str, ...]
    overhead: int
    per_word: float
    chat: bool
    exact: bool
    note: str = ""


OPENING = "Words:"
"""Of every text: the first word of a text is no token of its own in every tokenizer."""


@dataclass(frozen=True, slots=True)
class Shot:
    """One request. session: whose text it has. due_s: seconds since the phase began, of an open loop."""

    session: int
    shared_tokens: int
    input_tokens: int
    output_tokens: int
    due_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Drive:
    """One phase for a load client. users: of a closed loop; 0 for an open one, whose requests are `shots`.

    requests, seconds: a closed loop ends when so many are sent or so much time is over, whichever comes first; 0 for no
    such end. first_session: so that no phase repeats a text of another. patience_s: how long a server may stay silent.
    """

    model: str
    language: Language
    shape: Shape
    seed: int
    ignore_eos: bool
    users: int
    requests: int
    seconds: float
    first_session: int
    patience_s: float
    processes: int = 1
    shots: tuple[Shot, ...] = ()

    def shot(self, user: int, number: int) -> Shot:
        """A user's request of that number, in a closed loop: sessions one after the other, turn by turn."""
        session, turn = divmod(number, self.shape.turns)
        return shot_of(self.shape, self.first_session + session * self.users + user, turn)

    def text(self, shot: Shot) -> str:
        """Its prompt. Deterministic; two sessions, or two seeds, have in common what the shape says, and no more."""
        language = self.language
        words = max(1, round((shot.input_tokens - language.overhead) / language.per_word))
        shared = min(words, round(shot.shared_tokens / language.per_word))
        own = _words(language.words, f"{self.seed} {shot.session}", words - shared)
        return " ".join((OPENING, *_words(language.words, f"{self.seed}", shared), *own))


def shot_of(shape: Shape, session: int, turn: int, due_s: float = 0.0) -> Shot:
    return Shot(session, shape.shared_tokens, shape.input_at(turn), shape.output_tokens, due_s)


def _words(words: Sequence[str], seed: str, count: int) -> Sequence[str]:
    """The longer text of a seed begins with the shorter one: an extendable hash gives one word per byte."""
    return [words[byte] for byte in shake_128(seed.encode()).digest(count)]


@dataclass(frozen=True, slots=True)
class Pulse:
    """How a phase goes: now, and since its beginning. deltas: events with text so far. ttft_s: median of the answers
    that began since the last pulse, None where none did."""

    elapsed_s: float
    running: int
    done: int
    failed: int
    deltas: int
    ttft_s: float | None


STOPPED = "stopped by Ctrl-C"


@dataclass(frozen=True, slots=True)
class Driven:
    """What came of a `Drive`. held_s: for how long the load was held; what follows is its fading. cut: why it
    ended before its end, empty where it did not."""

    traces: tuple[Trace, ...]
    held_s: float
    pauses: Pauses
    client: ClientSide
    cut: str = ""
