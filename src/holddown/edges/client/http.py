"""An OpenAI-compatible endpoint over HTTP. Whatever goes wrong there comes back as a `Refusal`, never as an exception.

Source: https://platform.openai.com/docs/api-reference for both completions endpoints; `echo`, `ignore_eos` and
`/tokenize` as vLLM defines them; the reasoning text is `reasoning` in vLLM 0.16 and later, `reasoning_content` before.
"""

import json
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from httpx_sse import EventSource

from holddown.base.evidence import Fact, Unknown, from_probe
from holddown.edges.client.served import served
from holddown.facts.answers import Answer, Ask, Refusal, Reply, TokenLogprob, Usage
from holddown.facts.served import Served

_SHOWN_CHARACTERS = 300
_CONNECT_SECONDS = 10.0
_HEALTH_SECONDS = 5.0
# uvicorn closes idle connections after 5 s; reusing one at that very moment would look like an engine that hangs up
_KEEPALIVE_SECONDS = 2.0

Json = Mapping[str, Any]


class _NotAnAnswer(Exception):
    """The endpoint said something that is no answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class HttpClient:
    """Asks one endpoint. Safe to use from several threads at once.

    base_url: scheme, host and port; a trailing `/v1` is accepted. timeout_s: how long the endpoint may stay silent:
    for a plain answer that is the whole generation, for a stream the pause between two deltas.
    """

    def __init__(self, base_url: str, api_key: str = "", timeout_s: float = 600.0) -> None:
        self._base_url = base_url.rstrip("/").removesuffix("/v1")
        self._api_key = api_key
        # trust_env: a proxy named in the environment must not stand between us and an engine on this machine.
        # verify: reading the CA certificates takes 60 ms of CPU, for nothing where there is no TLS; redirects, which
        # could lead from http to https, are not followed.
        self._http = httpx.Client(
            verify=self._base_url.startswith("https:"),
            timeout=httpx.Timeout(timeout_s, connect=_CONNECT_SECONDS),
            limits=httpx.Limits(max_connections=None, keepalive_expiry=_KEEPALIVE_SECONDS),
            trust_env=False,
        )

    def close(self) -> None:
        """Gives the connections back; asking again opens new ones."""
        self._http.close()

    def healthy(self) -> bool:
        """GET /health answered 200."""
        try:
            response = self._http.get(f"{self._base_url}/health", headers=self._headers(), timeout=_HEALTH_SECONDS)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError):
            return False
        return response.status_code == httpx.codes.OK

    def gauges(self, *metrics: str) -> tuple[float | None, ...]:
        """GET /metrics in Prometheus' text form, where a line is `name{labels} value`."""
        try:
            response = self._http.get(f"{self._base_url}/metrics", headers=self._headers(), timeout=_HEALTH_SECONDS)
            lines = response.text.splitlines() if response.status_code == httpx.codes.OK else []
            return tuple(_sum(metric, lines) for metric in metrics)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError):
            return (None,) * len(metrics)

    def ask(self, ask: Ask) -> Reply:
        """One whole answer."""
        try:
            with self._obstacles():
                sent_at = time.monotonic()
                response = self._http.post(self._base_url + _path(ask), json=_body(ask), headers=self._headers())
                ended_at = time.monotonic()
                _expect_ok(response)
                return _whole_answer(_object_of(response.text), sent_at, ended_at)
        except _NotAnAnswer as obstacle:
            return self._refusal(obstacle)

    def stream(self, ask: Ask) -> Reply:
        """The same as a stream, with the arrival time of every delta that carried text or tokens."""
        body = {**_body(ask), "stream": True, "stream_options": {"include_usage": True}}
        parts = _StreamParts(sent_at=time.monotonic())
        try:
            with (
                self._obstacles(),
                self._http.stream("POST", self._base_url + _path(ask), json=body, headers=self._headers()) as response,
            ):
                if not response.is_success:
                    response.read()
                _expect_ok(response)
                for event in EventSource(response).iter_sse():
                    arrived_at = time.monotonic()
                    if event.data.strip() == "[DONE]":
                        parts.done = True
                        break
                    parts.take(_object_of(event.data), arrived_at)
            return parts.answer(time.monotonic())
        except _NotAnAnswer as obstacle:
            seen = parts.so_far()
            return self._refusal(_NotAnAnswer(obstacle.status, f"{obstacle.message}{seen}"))

    def served(self) -> Served | Refusal:
        """What it says of itself."""
        try:
            return served(self._get("/v1/models"), self._get_if_there)
        except _NotAnAnswer as obstacle:
            return self._refusal(obstacle)

    def _get(self, path: str) -> Json:
        with self._obstacles():
            response = self._http.get(self._base_url + path, headers=self._headers(), timeout=_CONNECT_SECONDS)
            _expect_ok(response)
            return _object_of(response.text)

    def _get_if_there(self, path: str) -> Json:
        try:
            return self._get(path)
        except _NotAnAnswer:
            return {}

    def prompt_tokens(self, ask: Ask) -> int | None:
        """How many tokens the engine's own tokenizer makes of this prompt; None where it has no such endpoint."""
        for path, body in _counting(ask):
            try:
                with self._obstacles():
                    response = self._http.post(self._base_url + path, json=body, headers=self._headers())
                    _expect_ok(response)
                    count = _counted(_object_of(response.text))
            except _NotAnAnswer:
                continue
            if count is not None:
                return count
        return None

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._api_key}"} if self._api_key else {}

    @contextmanager
    def _obstacles(self) -> Iterator[None]:
        """Turns what httpx raises into one exception with words for a person."""
        try:
            yield
        except httpx.TimeoutException as error:
            raise _NotAnAnswer(0, f"no answer in time ({type(error).__name__})") from error
        except httpx.ConnectError as error:
            raise _NotAnAnswer(0, f"cannot connect to {self._base_url}: {error}") from error
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise _NotAnAnswer(0, f"{type(error).__name__}: {error}") from error

    def _refusal(self, obstacle: _NotAnAnswer) -> Refusal:
        # some endpoints quote the rejected key back
        message = obstacle.message.replace(self._api_key, "***") if self._api_key else obstacle.message
        return Refusal(obstacle.status, message)


def _counting(ask: Ask) -> Iterator[tuple[str, Json]]:
    """Questions for the number of the prompt's tokens: vLLM's and SGLang's first, then llama.cpp's, which gives no
    count to theirs.

    Source: llama.cpp b11434 tools/server/server-context.cpp post_tokenize, handle_count_tokens.
    """
    if ask.messages:
        messages = {"model": ask.model, "messages": _messages(ask)}
        yield "/tokenize", {**messages, "add_generation_prompt": True}
        yield "/v1/chat/completions/input_tokens", messages
    else:
        yield "/tokenize", {"model": ask.model, "prompt": ask.prompt}
        yield "/tokenize", {"content": ask.prompt, "add_special": True}


def _counted(answer: Json) -> int | None:
    """llama.cpp answers a question that it does not understand with no tokens at all, which is no count."""
    for count in (answer.get("count"), answer.get("input_tokens"), len(_list(answer.get("tokens"))) or None):
        if isinstance(count, int):
            return count
    return None


def _sum(metric: str, lines: Sequence[str]) -> float | None:
    """Raises: ValueError."""
    values = [float(line.split()[-1]) for line in lines if re.match(rf"{re.escape(metric)}[{{ ]", line)]
    return sum(values) if values else None


def _path(ask: Ask) -> str:
    return "/v1/chat/completions" if ask.messages else "/v1/completions"


def _messages(ask: Ask) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.content} for message in ask.messages]


def _body(ask: Ask) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": ask.model,
        "max_tokens": ask.max_tokens,
        "temperature": ask.temperature,
        "seed": 0,
    }
    if ask.messages:
        body["messages"] = _messages(ask)
        if ask.logprobs:
            body |= {"logprobs": True, "top_logprobs": ask.logprobs}
    else:
        body["prompt"] = ask.prompt
        if ask.logprobs:
            body["logprobs"] = ask.logprobs
        if ask.echo:
            body["echo"] = True
    if ask.stop:
        body["stop"] = list(ask.stop)
    if ask.ignore_eos:
        body["ignore_eos"] = True
    return body


def _expect_ok(response: httpx.Response) -> None:
    if not response.is_success:
        raise _NotAnAnswer(response.status_code, _error_text(response.text))


def _shorten(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _SHOWN_CHARACTERS else flat[:_SHOWN_CHARACTERS] + " ..."


def _error_text(text: str) -> str:
    """What an error answer says, in whichever of the usual shapes it says it."""
    try:
        data = json.loads(text)
    except ValueError:
        return _shorten(text) or "an empty answer"
    error = data.get("error", data) if isinstance(data, dict) else data
    if isinstance(error, dict):
        error = error.get("message") or error.get("detail") or error
    return _shorten(error if isinstance(error, str) else json.dumps(error, ensure_ascii=False))


def _object_of(text: str) -> Json:
    """A JSON object that is no error report. vLLM and SGLang report errors inside a stream whose status was 200."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise _NotAnAnswer(0, f"the answer is not JSON: {_shorten(text) or 'it is empty'}") from error
    if not isinstance(data, dict):
        raise _NotAnAnswer(0, f"the answer is not a JSON object: {_shorten(text)}")
    error_report = data.get("error")
    if error_report:
        code = error_report.get("code") if isinstance(error_report, dict) else None
        raise _NotAnAnswer(code if isinstance(code, int) else 0, _error_text(text))
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
    if isinstance(prompt, int) and isinstance(completion, int):
        return from_probe(Usage(prompt, completion), "usage of the answer")
    return Unknown("the answer has no usage")


def _whole_answer(data: Json, sent_at: float, ended_at: float) -> Answer:
    choice = _first_choice(data)
    if choice is None:
        raise _NotAnAnswer(0, f"the answer has no choices: {_shorten(json.dumps(data, ensure_ascii=False))}")
    message = _mapping(choice.get("message"))
    return Answer(
        text=_text(message.get("content"), choice.get("text")),
        finish_reason=_text(choice.get("finish_reason")),
        usage=_usage(data),
        sent_at=sent_at,
        ended_at=ended_at,
        reasoning=_text(message.get("reasoning"), message.get("reasoning_content")),
        logprobs=_logprobs(choice.get("logprobs")),
    )


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
class _StreamParts:
    """What a stream has brought so far."""

    sent_at: float
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    arrivals: list[float] = field(default_factory=list)
    finish_reason: str = ""
    usage: Fact[Usage] = field(default_factory=lambda: Unknown("the stream brought no usage"))
    done: bool = False

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
        if text or reasoning or logprobs or hidden_token:
            self.arrivals.append(arrived_at)
        self.text.append(text)
        self.reasoning.append(reasoning)
        self.logprobs.extend(logprobs)
        self.finish_reason = _text(choice.get("finish_reason")) or self.finish_reason

    def so_far(self) -> str:
        if not self.arrivals:
            return ""
        return f"; until then {len(self.arrivals)} deltas had come: {_shorten(''.join(self.text or self.reasoning))!r}"

    def answer(self, ended_at: float) -> Answer:
        """Raises: _NotAnAnswer when the stream broke off: a connection that closes is not always an error to HTTP."""
        if not self.done and not self.finish_reason:
            raise _NotAnAnswer(0, "the stream ended before the answer was finished")
        return Answer(
            text="".join(self.text),
            finish_reason=self.finish_reason,
            usage=self.usage,
            sent_at=self.sent_at,
            ended_at=ended_at,
            reasoning="".join(self.reasoning),
            logprobs=tuple(self.logprobs),
            arrivals=tuple(self.arrivals),
        )
