"""Which checks fit a deployment, and what each of them asks. Pure data: nothing is asked here.

Questions are few and short, and shared between checks, since a model on two CPU cores gives 10 to 25 tokens per
second: all of them together let at most 110 tokens be generated.
"""

from dataclasses import dataclass
from typing import ClassVar

from holddown.base.evidence import Fact, Known
from holddown.facts.answers import Ask, Message
from holddown.facts.model import ModelFacts
from holddown.plan.plan import Plan
from holddown.tables.load import engine_table

NEXT_TOKEN_PROMPT = "The capital of France is"
SENTENCES = (
    "The sun rises in the east and sets in the west.",
    "Water is made of hydrogen and oxygen, and it freezes at zero degrees Celsius.",
    "There are seven days in a week and twelve months in a year.",
)
QUESTIONS = (
    "Name the capital city of France.",
    "Write one sentence about the sea.",
    "Why do people sleep at night?",
)
BEGINNINGS = (
    "The sea is a large body of salt water that",
    "The first person to walk on the Moon was",
    "People sleep at night because",
)
ANSWER_TOKENS = 20
MAX_TOKENS_ASKED = 3
STOP_TOKENS = 12
UNKNOWN_MODEL = "holddown-asks-for-a-model-that-is-not-here"
_LOGPROBS = 5


@dataclass(frozen=True, slots=True)
class FirstToken:
    """One token from the plainest endpoint. /health says that the server is up, not that the model can run."""

    name: ClassVar[str] = "first-token"
    ask: Ask


@dataclass(frozen=True, slots=True)
class Coherence:
    """sentences: echoed, to see what the model thinks of plain English. answers: to see what it says itself."""

    name: ClassVar[str] = "coherence"
    next_token: Ask
    sentences: tuple[Ask, ...]
    answers: tuple[Ask, ...]
    vocab_size: Fact[int]


@dataclass(frozen=True, slots=True)
class Streaming:
    """A stream gives the text that the whole answer gives."""

    name: ClassVar[str] = "streaming"
    ask: Ask


@dataclass(frozen=True, slots=True)
class UsageCounts:
    """What is billed is what was computed."""

    name: ClassVar[str] = "usage"
    ask: Ask


@dataclass(frozen=True, slots=True)
class StopSequence:
    """ask: the question whose answer lends the stop sequence."""

    name: ClassVar[str] = "stop"
    ask: Ask


@dataclass(frozen=True, slots=True)
class MaxTokens:
    name: ClassVar[str] = "max-tokens"
    ask: Ask


@dataclass(frozen=True, slots=True)
class WrongModel:
    name: ClassVar[str] = "wrong-model"
    ask: Ask


Check = FirstToken | Coherence | Streaming | UsageCounts | StopSequence | MaxTokens | WrongModel

CHECK_NAMES: tuple[str, ...] = (
    FirstToken.name,
    Coherence.name,
    Streaming.name,
    UsageCounts.name,
    StopSequence.name,
    MaxTokens.name,
    WrongModel.name,
)
"""What `--skip-check` takes, in the order in which they run."""


def checks(model: ModelFacts, plan: Plan) -> tuple[Check, ...]:
    """Of a deployment of ours, before its release."""
    return quick_checks(
        plan.served_model_name,
        model.vocab_size,
        chat=isinstance(model.chat_template, Known),
        any_model=bool(engine_table(plan.engine_kind).any_model_source),
    )


def quick_checks(name: str, vocab_size: Fact[int], *, chat: bool, any_model: bool) -> tuple[Check, ...]:
    """Chat questions only where there is a chat template; a base model continues plain text instead. any_model: the
    engine answers under any name, and is not asked for another model."""
    next_token = Ask(model=name, prompt=NEXT_TOKEN_PROMPT, max_tokens=1, logprobs=_LOGPROBS)
    sentences = tuple(Ask(model=name, prompt=text, max_tokens=1, logprobs=1, echo=True) for text in SENTENCES)
    answers = _answers(name, chat=chat)
    # the longest answer is the best to compare and to cut: a capital city is one word
    longest = answers[-1]
    other = WrongModel(Ask(model=UNKNOWN_MODEL, prompt=NEXT_TOKEN_PROMPT, max_tokens=1))
    return (
        FirstToken(next_token),
        Coherence(next_token, sentences, answers, vocab_size),
        Streaming(longest),
        UsageCounts(longest),
        StopSequence(longest),
        MaxTokens(_short(longest)),
        *(() if any_model else (other,)),
    )


def _answers(name: str, *, chat: bool) -> tuple[Ask, ...]:
    if chat:
        return tuple(
            Ask(model=name, messages=(Message("user", text),), max_tokens=ANSWER_TOKENS, logprobs=_LOGPROBS)
            for text in QUESTIONS
        )
    return tuple(Ask(model=name, prompt=text, max_tokens=ANSWER_TOKENS, logprobs=_LOGPROBS) for text in BEGINNINGS)


def _short(ask: Ask) -> Ask:
    return Ask(model=ask.model, messages=ask.messages, prompt=ask.prompt, max_tokens=MAX_TOKENS_ASKED)
