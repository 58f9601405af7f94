"""What an OpenAI-compatible endpoint answers, read from whatever JSON comes.

Source: https://platform.openai.com/docs/api-reference; the reasoning text is `reasoning` in vLLM 0.16 and later,
`reasoning_content` before.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holddown.base.evidence import Fact, Unknown, from_probe
from holddown.facts.answers import Answer, TokenLogprob, ToolCall, Usage

_SHOWN_CHARACTERS = 300

Json = Mapping[str, Any]


class NotAnAnswer(Exception):
    """The endpoint said something that is no answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def summed(metric: str, lines: Sequence[str]) -> float | None:
    """Raises: ValueError."""
    values = [float(line.split()[-1]) for line in lines if re.match(rf"{re.escape(metric)}[{{ ]", line)]
    return sum(values) if values else None


def counted(answer: Json) -> int | None:
    """llama.cpp answers a question that it does not understand with no tokens at all, which is no count."""
    for count in (answer.get("count"), answer.get("input_tokens"), len(_list(answer.get("tokens"))) or None):
        if isinstance(count, int):
            return count
    return None


def token_ids(answer: Json) -> tuple[int, ...]:
    """Of the prompt's tokens; empty where they are not given."""
    given = _list(answer.get("tokens"))
    return tuple(given) if all(isinstance(each, int) for each in given) else ()


def _shorten(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _SHOWN_CHARACTERS else flat[:_SHOWN_CHARACTERS] + " ..."


def error_text(text: str) -> str:
    """What an error answer says, in whichever of the usual shapes it says it."""
    try:
        data = json.loads(text)
    except ValueError:
        return _shorten(text) or "an empty answer"
    error = data.get("error", data) if isinstance(data, dict) else data
    if isinstance(error, dict):
        error = error.get("message") or error.get("detail") or error
    return _shorten(error if isinstance(error, str) else json.dumps(error, ensure_ascii=False))


def object_of(text: str) -> Json:
    """A JSON object that is no error report. vLLM and SGLang report errors inside a stream whose status was 200."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise NotAnAnswer(0, f"the answer is not JSON: {_shorten(text) or 'it is empty'}") from error
    if not isinstance(data, dict):
        raise NotAnAnswer(0, f"the answer is not a JSON object: {_shorten(text)}")
    error_report = data.get("error")
    if error_report:
        code = error_report.get("code") if isinstance(error_report, dict) else None
        raise NotAnAnswer(code if isinstance(code, int) else 0, error_text(text))
    return data


def _mapping(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _text(*values: object) -> str:
    """The first that is a non-empty string."""
    return next((value for value in values if isinstance(value, str) and value), "")


def _first_choice(data: Json) -> Json | None:
    choices = _list(data.get("choices"))
    return choices[0] if choices and isinstance(choices[0], dict) else None


def _usage(data: Json) -> Fact[Usage]:
    usage = _mapping(data.get("usage"))
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    cached = _mapping(usage.get("prompt_tokens_details")).get("cached_tokens")
    if isinstance(prompt, int) and isinstance(completion, int):
        told = cached if isinstance(cached, int) else None
        return from_probe(Usage(prompt, completion, told), "usage of the answer")
    return Unknown("the answer has no usage")


def whole_answer(data: Json, sent_at: float, ended_at: float) -> Answer:
    choice = _first_choice(data)
    if choice is None:
        raise NotAnAnswer(0, f"the answer has no choices: {_shorten(json.dumps(data, ensure_ascii=False))}")
    message = _mapping(choice.get("message"))
    return Answer(
        text=_text(message.get("content"), choice.get("text")),
        finish_reason=_text(choice.get("finish_reason")),
        usage=_usage(data),
        sent_at=sent_at,
        ended_at=ended_at,
        reasoning=_text(message.get("reasoning"), message.get("reasoning_content")),
        logprobs=_logprobs(choice.get("logprobs")),
        tool_calls=tuple(_tool_call(_mapping(raw)) for raw in _list(message.get("tool_calls"))),
        others=tuple(_further(data)),
    )


def _further(data: Json) -> Iterator[str]:
    for raw in _list(data.get("choices"))[1:]:
        choice = _mapping(raw)
        yield _text(_mapping(choice.get("message")).get("content"), choice.get("text"))


def _tool_call(raw: Json) -> ToolCall:
    function = _mapping(raw.get("function"))
    arguments = function.get("arguments", "")
    # some endpoints give an object where the protocol has its text: kept as it is, so that the judge sees it
    text = arguments if isinstance(arguments, str) else f"not a string: {json.dumps(arguments)}"
    return ToolCall(_text(raw.get("id")), _text(function.get("name")), text)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _best_first(pairs: Iterator[tuple[object, object]]) -> tuple[tuple[str, float], ...]:
    named = [(str(token), logprob) for token, value in pairs if (logprob := _number(value)) is not None]
    # NaN compares with nothing: it goes last, or the order of the others would be left to chance
    return tuple(sorted(named, key=lambda pair: (math.isnan(pair[1]), -pair[1])))


def _logprobs(value: object) -> tuple[TokenLogprob, ...]:
    """Both shapes, told apart by what is there: llama.cpp gives the chat shape for plain completions too.

    The first token of an echoed prompt has no log-probability and is left out.
    """
    logprobs = _mapping(value)
    if "content" in logprobs:
        return tuple(_chat_logprobs(_list(logprobs["content"])))
    return tuple(_plain_logprobs(logprobs))


def _chat_logprobs(content: Sequence[Any]) -> Iterator[TokenLogprob]:
    for raw in content:
        entry = _mapping(raw)
        logprob = _number(entry.get("logprob"))
        if logprob is not None:
            rows = (_mapping(row) for row in _list(entry.get("top_logprobs")))
            top = _best_first((row.get("token", ""), row.get("logprob")) for row in rows)
            yield TokenLogprob(str(entry.get("token", "")), logprob, top)


def _plain_logprobs(logprobs: Json) -> Iterator[TokenLogprob]:
    tops = _list(logprobs.get("top_logprobs"))
    pairs = zip(_list(logprobs.get("tokens")), _list(logprobs.get("token_logprobs")), strict=False)
    for index, (token, value) in enumerate(pairs):
        logprob = _number(value)
        if logprob is not None:
            top = _best_first(iter(_mapping(tops[index]).items())) if index < len(tops) else ()
            yield TokenLogprob(str(token), logprob, top)


@dataclass(slots=True)
class StreamParts:
    """What a stream has brought so far."""

    sent_at: float
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    arrivals: list[float] = field(default_factory=list)
    finish_reason: str = ""
    usage: Fact[Usage] = field(default_factory=lambda: Unknown("the stream brought no usage"))
    done: bool = False
    calls: dict[int, ToolCall] = field(default_factory=dict)

    def take(self, data: Json, arrived_at: float) -> None:
        usage = _usage(data)
        if not isinstance(usage, Unknown):
            self.usage = usage
        choice = _first_choice(data)
        if choice is None:
            return
        delta = _mapping(choice.get("delta"))
        text = _text(delta.get("content"), choice.get("text"))
        reasoning = _text(delta.get("reasoning"), delta.get("reasoning_content"))
        logprobs = _logprobs(choice.get("logprobs"))
        # a plain completion is sent an empty text for a token that has none to show: a special one under `ignore_eos`,
        # or the first part of a character. In a chat an empty delta only names the role.
        hidden_token = "text" in choice and not choice.get("finish_reason")
        if text or reasoning or logprobs or hidden_token or _list(delta.get("tool_calls")):
            self.arrivals.append(arrived_at)
        self._take_calls(_list(delta.get("tool_calls")))
        self.text.append(text)
        self.reasoning.append(reasoning)
        self.logprobs.extend(logprobs)
        self.finish_reason = _text(choice.get("finish_reason")) or self.finish_reason

    def _take_calls(self, deltas: Sequence[Any]) -> None:
        """A call comes in parts that share an index: its name once, its arguments piece by piece."""
        for raw in deltas:
            part, index = _tool_call(_mapping(raw)), _mapping(raw).get("index")
            at = index if isinstance(index, int) else len(self.calls)
            had = self.calls.get(at, ToolCall("", "", ""))
            self.calls[at] = ToolCall(had.id or part.id, had.name + part.name, had.arguments + part.arguments)

    def so_far(self) -> str:
        if not self.arrivals:
            return ""
        return f"; until then {len(self.arrivals)} deltas had come: {_shorten(''.join(self.text or self.reasoning))!r}"

    def answer(self, ended_at: float) -> Answer:
        """Raises: NotAnAnswer when the stream broke off: a connection that closes is not always an error to HTTP."""
        if not self.done and not self.finish_reason:
            raise NotAnAnswer(0, "the stream ended before the answer was finished")
        return Answer(
            text="".join(self.text),
            finish_reason=self.finish_reason,
            usage=self.usage,
            sent_at=self.sent_at,
            ended_at=ended_at,
            reasoning="".join(self.reasoning),
            logprobs=tuple(self.logprobs),
            arrivals=tuple(self.arrivals),
            tool_calls=tuple(self.calls[index] for index in sorted(self.calls)),
        )
