"""What is asked of an OpenAI-compatible endpoint, and what it answered. Times are seconds of one monotonic clock."""

from dataclasses import dataclass, field

from holddown.base.evidence import Fact


@dataclass(frozen=True, slots=True)
class ToolCall:
    """arguments: JSON text as the endpoint gave it, valid or not."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may call. parameters: a JSON schema, as text."""

    name: str
    description: str
    parameters: str


@dataclass(frozen=True, slots=True)
class Message:
    """One chat turn; role is system, user, assistant or tool. tool_calls: that an assistant made. tool_call_id: whose
    result a tool's turn is. image: a `data:` URL, shown before the content."""

    role: str
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    image: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request. With `messages` it is a chat completion, with `prompt` or its `token_ids` a plain one; exactly one
    of these is given.

    n: how many answers. tool_choice: auto, none, required or a tool's name; empty leaves it to the endpoint.
    schema: that the answer must fit, a JSON schema as text.
    logprobs: how many top log-probabilities per token to ask for; 0 asks for none.
    echo: plain completions only: give the prompt's own tokens and log-probabilities too.
    ignore_eos: run to max_tokens, an extension that vLLM, SGLang and llama.cpp share.
    thinking: chats only: think, where the model's template leaves that out unless it is asked for.
    thinking_budget: chats only: tokens after which the endpoint is to end the thinking; 0 asks for no end.
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
    token_ids: tuple[int, ...] = ()
    seed: int = 0
    n: int = 1
    tools: tuple[Tool, ...] = ()
    tool_choice: str = ""
    schema: str = ""
    thinking: bool = False
    thinking_budget: int = 0


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One token as the endpoint gave it, natural log. top: (token text, log-probability), best first."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """cached_tokens: of the prompt, that came out of the prefix cache; None where that is not told."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer. For a stream, `arrivals` has one time per delta that carried text or tokens.

    text: what the user would read. reasoning: the separate reasoning text, where the endpoint splits it off. others:
    texts of the further answers where several were asked for.
    """

    text: str
    finish_reason: str
    usage: Fact[Usage]
    sent_at: float
    ended_at: float
    reasoning: str = ""
    logprobs: tuple[TokenLogprob, ...] = ()
    arrivals: tuple[float, ...] = field(default=())
    tool_calls: tuple[ToolCall, ...] = ()
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """The endpoint refused or failed. status: the HTTP status, 0 when no HTTP answer came at all."""

    status: int
    message: str


Reply = Answer | Refusal
