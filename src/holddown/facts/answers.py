"""What is asked of an OpenAI-compatible endpoint, and what it answered. Times are seconds of one monotonic clock."""

from dataclasses import dataclass, field

from holddown.base.evidence import Fact


@dataclass(frozen=True, slots=True)
class Message:
    """One chat turn; role is system, user or assistant."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Ask:
    """One request. With `messages` it is a chat completion, with `prompt` a plain completion; exactly one is given.

    logprobs: how many top log-probabilities per token to ask for; 0 asks for none.
    echo: plain completions only: give the prompt's own tokens and log-probabilities too.
    ignore_eos: run to max_tokens (load measurement only; an extension that vLLM, SGLang and llama.cpp share).
    """

    model: str
    max_tokens: int
    messages: tuple[Message, ...] = ()
    prompt: str = ""
    temperature: float = 0.0
    stop: tuple[str, ...] = ()
    logprobs: int = 0
    echo: bool = False
    ignore_eos: bool = False


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One token as the endpoint gave it, natural log. top: (token text, log-probability), best first."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer. For a stream, `arrivals` has one time per delta that carried text or tokens.

    text: what the user would read. reasoning: the separate reasoning text, where the endpoint splits it off.
    """

    text: str
    finish_reason: str
    usage: Fact[Usage]
    sent_at: float
    ended_at: float
    reasoning: str = ""
    logprobs: tuple[TokenLogprob, ...] = ()
    arrivals: tuple[float, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Refusal:
    """The endpoint refused or failed. status: the HTTP status, 0 when no HTTP answer came at all."""

    status: int
    message: str


Reply = Answer | Refusal
