"""How text of so many tokens is written for one server: by its own tokenizer, or else by what its `usage` says."""

from collections.abc import Callable
from dataclasses import dataclass

from holddown import ports
from holddown.base.errors import FactError
from holddown.base.evidence import Known
from holddown.facts.answers import Ask, Message, Refusal, Reply
from holddown.measure.drive import OPENING, Language
from holddown.measure.words import COMMON, NEEDED

_GROUP = 16
_CHAT_IS_NOT_THERE = (400, 404, 405, 422, 501)


@dataclass(frozen=True, slots=True)
class _Counter:
    """says: tokens of a prompt with these words, None where nothing tells. by: who says so."""

    says: Callable[[str], int | None]
    by: str


def language(client: ports.Client, model: str) -> Language:
    """Raises: FactError where the server answers neither a chat nor a plain completion."""
    chat = _answers_chats(client, model)

    def ask(text: str) -> Ask:
        if chat:
            return Ask(model=model, messages=(Message("user", text),), max_tokens=1)
        return Ask(model=model, prompt=text, max_tokens=1)

    counter = _counter(client, ask)
    if counter is None:
        note = "the server has no tokenizer endpoint and reports no usage: prompts are so many words, not tokens"
        return Language(COMMON[:NEEDED], 0, 1.0, chat, exact=False, note=note)
    return _measured(counter, chat)


def _answers_chats(client: ports.Client, model: str) -> bool:
    said = client.ask(Ask(model=model, messages=(Message("user", OPENING),), max_tokens=1))
    if not isinstance(said, Refusal):
        return True
    if said.status in _CHAT_IS_NOT_THERE:
        plain = client.ask(Ask(model=model, prompt=OPENING, max_tokens=1))
        if not isinstance(plain, Refusal):
            return False
    raise FactError(
        "the server answers no completion",
        code="bench.no-answer",
        seen=f"HTTP {said.status}: {said.message}" if said.status else said.message,
        do="holddown verify TARGET says more",
    )


def _counter(client: ports.Client, ask: Callable[[str], Ask]) -> _Counter | None:
    if client.prompt_tokens(ask(OPENING)) is not None:
        return _Counter(lambda text: client.prompt_tokens(ask(text)), "its tokenizer")
    if _used(client.ask(ask(OPENING))) is not None:
        return _Counter(lambda text: _used(client.ask(ask(text))), "its usage, as it has no tokenizer endpoint")
    return None


def _used(reply: Reply) -> int | None:
    if isinstance(reply, Refusal) or not isinstance(reply.usage, Known):
        return None
    return reply.usage.value.prompt_tokens


def _measured(counter: _Counter, chat: bool) -> Language:
    def count(*words: str) -> int | None:
        return counter.says(" ".join((OPENING, *words)))

    overhead = count()
    words = COMMON[:NEEDED]
    whole = count(*words)
    if overhead is None or whole is None:
        note = "the server counts some prompts and others not: prompts are so many words, not tokens"
        return Language(words, 0, 1.0, chat, exact=False, note=note)
    if whole - overhead != NEEDED:
        groups = [COMMON[at : at + _GROUP] for at in range(0, len(COMMON) - _GROUP + 1, _GROUP)]
        good = [word for group in groups if count(*group) == overhead + _GROUP for word in group]
        if len(good) < NEEDED // 4:
            per_word = (whole - overhead) / NEEDED
            note = (
                f"a word takes {per_word:.2f} tokens on average by {counter.by}: prompt lengths are near what was asked"
            )
            return Language(words, overhead, per_word, chat, exact=False, note=note)
        words = tuple((good * (NEEDED // len(good) + 1))[:NEEDED])
    note = f"prompt lengths by {counter.by}" if "usage" in counter.by else ""
    return Language(words, overhead, 1.0, chat, exact=True, note=note)
