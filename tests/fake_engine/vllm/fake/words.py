"""A deterministic "model" whose tokens are words: sane English, or what FAKE_ANSWER asks for."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from zlib import crc32

_SENTENCES = (
    "A river carries water from the hills down to the sea.",
    "Bread is made from flour, water, salt and a little yeast.",
    "The library opens at nine and closes in the early evening.",
    "Bees visit flowers to collect nectar and spread pollen as they go.",
    "In winter the days are short and the nights are long.",
    "A good map shows roads, rivers, towns and the height of the land.",
    "The train to the coast leaves twice an hour from platform four.",
    "Trees take in carbon dioxide and give back oxygen during the day.",
    "Many people like to drink tea or coffee with their breakfast.",
    "The moon goes around the Earth about once every month.",
    "Glass is formed when sand is heated until it melts.",
    "Our neighbour keeps three hens and sells fresh eggs on Saturdays.",
    "Sound travels faster through water than it does through air.",
    "A bicycle needs clean brakes and enough air in both tyres.",
    "The museum holds old coins, painted vases and a wooden boat.",
    "Farmers watch the weather closely before they cut the hay.",
    "Copper is a metal that conducts electricity very well.",
    "Children learn to read by hearing stories again and again.",
    "The bridge was built of stone more than two hundred years ago.",
    "Salt lowers the temperature at which water begins to freeze.",
)
_KNOWN = (
    # what is asked (all words must occur), what is answered
    (("capital", "france"), "The capital of France is Paris."),
    (("capital", "germany"), "The capital of Germany is Berlin."),
    (("capital", "italy"), "The capital of Italy is Rome."),
    (("two", "plus", "two"), "Two plus two is four."),
)
_JUNK = ("ʘ漢x", "жqz", "##ing", "\u0e01\u0e34", "]](", "vwxk", "ლო", "::=", "ñǂ", "한q", "0x", "}{")


@dataclass(frozen=True, slots=True)
class Word:
    """One token. text carries its leading white space; top: alternatives, best first, itself included."""

    text: str
    logprob: float
    top: tuple[tuple[str, float], ...]


def tokenize(text: str) -> list[str]:
    """White-space words, each with the white space before it; joined they are the text again."""
    return re.findall(r"\s*\S+|\s+\Z", text)


def token_id(token: str) -> int:
    return crc32(token.encode()) % 49152


def chat_prompt(messages: list[dict[str, Any]]) -> str:
    turns = "".join(f"<|im_start|>{turn['role']}\n{_content(turn['content'])}<|im_end|>\n" for turn in messages)
    return turns + "<|im_start|>assistant\n"


def _content(content: object) -> str:
    """Raises: TypeError, KeyError for what is neither a text nor parts of one."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not content:
        raise TypeError("content: a string or a list of parts")
    return "".join(part["text"] if part["type"] == "text" else "<image>" for part in content)


def given(text: str) -> Iterator[Word]:
    """A text as the model's own words."""
    for number, piece in enumerate(tokenize(text)):
        yield _word(piece, -0.12 - (crc32(piece.encode()) + number) % 40 / 100)


def generate(prompt: str, *, chat: bool, answer: str, ignore_eos: bool) -> Iterator[Word]:
    """Words without end when ignore_eos, else about two sentences."""
    if answer == "empty":
        return
    if answer == "gibberish":
        yield from _gibberish(prompt, endless=ignore_eos)
        return
    if answer == "repeat":
        yield from _repeat(endless=ignore_eos)
        return
    for number, piece in enumerate(_pieces(prompt, chat=chat, endless=ignore_eos)):
        yield _word(piece, -0.12 - (crc32(piece.encode()) + number) % 40 / 100)


def score(token: str, *, answer: str) -> Word:
    """A prompt token with the log-probability the "model" gives it, for `echo`: random weights find all surprising."""
    if answer == "gibberish":
        return _word(token, -10.5 - crc32(token.encode()) % 100 / 100)
    return _word(token, -0.25 if token == " Paris" else -1.0 - crc32(token.encode()) % 100 / 100)


def _pieces(prompt: str, *, chat: bool, endless: bool) -> Iterator[str]:
    opening = _opening(prompt, chat=chat)
    first = True
    for sentence in _told(opening, prompt, endless=endless):
        for piece in tokenize(sentence):
            # a chat answer opens without a space; everything else is set off from what came before
            yield piece if chat and first else " " + piece.lstrip()
            first = False


def _told(opening: str, prompt: str, *, endless: bool) -> Iterator[str]:
    seed = crc32(prompt.encode())
    if opening:
        yield opening
    count = 0
    # asked for a long story, it tells one
    while endless or count < 2 or ("a long story" in prompt and count < 300):
        yield _SENTENCES[(seed + 7 * count) % len(_SENTENCES)]
        count += 1


def _opening(prompt: str, *, chat: bool) -> str:
    if not chat:
        return "Paris and it lies on the river Seine." if prompt.rstrip().endswith("capital of France is") else ""
    words = set(re.findall(r"[a-z]+", prompt.lower()))
    return next((said for asked, said in _KNOWN if words.issuperset(asked)), "")


def _word(piece: str, logprob: float) -> Word:
    others = ((" the", -2.5), (" a", -3.1), (" and", -3.6), (" of", -4.2), (" to", -4.6))
    further = tuple((other, logprob + less) for other, less in others if other != piece)
    return Word(piece, logprob, ((piece, logprob), *further[:4]))


def _gibberish(prompt: str, *, endless: bool) -> Iterator[Word]:
    seed, number = crc32(prompt.encode()), 0
    while endless or number < 60:
        piece = " " + _JUNK[(seed + number * number) % len(_JUNK)]
        yield _word(piece, -6.0 - number % 5 * 0.7)
        number += 1


def _repeat(*, endless: bool) -> Iterator[Word]:
    number = 0
    while endless or number < 400:
        yield _word(" the" if number % 2 else " of", -0.02)
        number += 1
