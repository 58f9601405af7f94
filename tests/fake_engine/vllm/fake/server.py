"""The OpenAI-compatible HTTP side. Failures are JSON in vLLM's shapes."""

import itertools
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from vllm._version import __version__
from vllm.fake import able, words
from vllm.fake.cues import Cues
from vllm.fake.log import raw
from vllm.fake.words import Word

ENGINE_DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."


@dataclass(slots=True)
class Service:
    """What all requests share. quiet: paths kept out of the log. kill_engine: makes the EngineCore process die now."""

    cues: Cues
    model_path: str
    names: tuple[str, ...]
    max_model_len: int
    api_key: str
    quiet: frozenset[str]
    kill_engine: Callable[[], None]
    dead: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    taken: int = 0
    running: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0
    prompts: list[list[str]] = field(default_factory=list)
    cached_tokens: int = 0

    def lie(self, model: object) -> str:
        """That a model of this name tells; empty for none."""
        return str(model) if self.cues.lies_by_name and model in (*able.LIES, *able.THINKING) else ""

    def remember(self, job: "Job") -> None:
        """The prefix cache."""
        tokens = words.tokenize(job.prompt)
        with self.lock:
            if job.lie != "no-prefix-cache":
                self.cached_tokens += able.shared_blocks(tokens, self.prompts)
            self.prompts = [*self.prompts[-15:], tokens]

    def take(self) -> bool:
        """Counts one generation request; False when the engine is dead or dies of this one."""
        with self.lock:
            self.taken += 1
            dies = self.cues.crash_after is not None and self.taken > self.cues.crash_after
        if dies and not self.dead.is_set():
            self.kill_engine()
            self.dead.wait(5)
        return not self.dead.is_set()


@dataclass(frozen=True, slots=True)
class Job:
    """One generation request, checked."""

    chat: bool
    model: str
    prompt: str
    max_tokens: int
    stop: tuple[str, ...]
    logprobs: int
    echo: bool
    ignore_eos: bool
    stream: bool
    include_usage: bool
    n: int
    sampled: str
    lie: str
    said: able.Said


class Bad(Exception):
    """The request is refused. Arguments: status, kind, message, the parameter at fault."""

    def __init__(self, status: int, kind: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": status}}


def read_job(service: Service, body: dict[str, Any], *, chat: bool) -> Job:
    """Raises: Bad."""
    model = body.get("model") or service.names[0]
    lie = service.lie(model)
    if model not in service.names and service.cues.answer != "any-model":
        raise Bad(404, "NotFoundError", f"The model `{model}` does not exist.", "model")
    prompt = _prompt(body, chat=chat)
    count = len(words.tokenize(prompt))
    room = service.max_model_len - count
    asked = body.get("max_completion_tokens") or body.get("max_tokens")
    if asked is None:
        asked = room if chat else 16
    if lie == "cuts-silently" and count > service.max_model_len:
        prompt, asked, room = prompt[-1000:], 1, 1
        count = len(words.tokenize(prompt))
    if count > service.max_model_len or (not body.get("echo") and asked > room):
        raise Bad(
            400,
            "BadRequestError",
            f"This model's maximum context length is {service.max_model_len} tokens. However, you requested {asked} "
            f"output tokens and your prompt contains {count} input tokens.",
            "input_tokens",
        )
    stop = body.get("stop") or ()
    n = body.get("n") or 1
    if not 1 <= int(n) <= 8 or not all(isinstance(each, str) for each in stop):
        raise Bad(400, "BadRequestError", "n: from 1 to 8; stop: strings")
    logprobs = body.get("logprobs") or 0
    if logprobs is True:
        logprobs = body.get("top_logprobs") or 1
    return Job(
        chat=chat,
        model=str(model),
        prompt=prompt,
        max_tokens=int(asked),
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        logprobs=int(logprobs),
        echo=bool(body.get("echo")),
        ignore_eos=bool(body.get("ignore_eos")),
        stream=bool(body.get("stream")),
        include_usage=bool((body.get("stream_options") or {}).get("include_usage")),
        n=1 if lie == "n-ignored" else int(n),
        sampled=_sampled(service, body, lie),
        lie=lie,
        said=able.said(body, prompt, lie) if chat else able.Said(),
    )


def checked_job(service: Service, body: Any, lie: str, *, chat: bool) -> Job:
    """As `read_job`, with any fault of the body said. Raises: Bad."""
    try:
        return read_job(service, body, chat=chat)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, StopIteration) as error:
        if lie == "dies-at-malformed":
            service.kill_engine()
        raise Bad(500 if lie == "500-on-malformed" else 400, "BadRequestError", repr(error)) from error


def _sampled(service: Service, body: dict[str, Any], lie: str) -> str:
    """What makes one sampled answer another than the next: its seed."""
    if not body.get("temperature"):
        return ""
    return str(service.taken) if lie == "seed-ignored" or "seed" not in body else str(body["seed"])


def _prompt(body: dict[str, Any], *, chat: bool) -> str:
    """Raises: Bad."""
    if chat:
        messages = body.get("messages")
        if not messages:
            raise Bad(400, "BadRequestError", "messages: field required", "messages")
        return words.chat_prompt(messages)
    prompt = body.get("prompt")
    if isinstance(prompt, list) and prompt and isinstance(prompt[0], str):
        prompt = prompt[0]
    if not isinstance(prompt, str):
        raise Bad(400, "BadRequestError", "prompt: a string is required", "prompt")
    return prompt


@dataclass(slots=True)
class Generation:
    """Runs a job word by word; `finish` is set at its end."""

    service: Service
    job: Job
    finish: str = "stop"
    count: int = 0

    def words(self) -> Iterator[words.Word]:
        """The words to send: a stop sequence and what follows it are withheld."""
        job, answer = self.job, self.service.cues.answer
        limit = job.max_tokens + 16 if answer == "ignore-max-tokens" else job.max_tokens
        endless = job.ignore_eos or answer == "ignore-max-tokens"
        prompt = job.prompt + " again" if answer == "stream-differs" and job.stream else job.prompt
        prompt += job.sampled
        text = ""
        if job.said.text is not None:
            source = words.given(job.said.reasoning + job.said.text)
        else:
            source = words.generate(prompt, chat=job.chat, answer=answer, ignore_eos=endless)
        for word in self._degenerating(source):
            if self.count >= limit:
                self.finish = "length"
                return
            time.sleep(self.service.cues.token_seconds)
            if self.service.dead.is_set():
                raise Bad(500, "InternalServerError", ENGINE_DEAD)
            self.count += 1
            before, text = text, text + word.text
            cut = min((at for stop in job.stop if (at := text.find(stop)) >= 0), default=-1)
            if cut >= 0 and answer != "ignore-stop":
                if text[len(before) : cut]:
                    yield words.Word(text[len(before) : cut], word.logprob, word.top)
                return
            yield word
        self.finish = "tool_calls" if job.said.calls else "stop"
        self.count += sum(len(words.tokenize(arguments)) for _, arguments in job.said.calls)

    def _degenerating(self, source: Iterator[Word]) -> Iterator[Word]:
        """As it comes; of a model that degenerates no more than 300 words."""
        for number, word in enumerate(source):
            if self.job.lie == "degenerates" and number >= 300:
                yield from words.generate("", chat=False, answer="repeat", ignore_eos=False)
                return
            yield word

    def usage(self) -> dict[str, int]:
        prompt, extra = len(words.tokenize(self.job.prompt)), 0
        if self.job.lie == "usage-off-by-one":
            prompt += 1
        if self.service.cues.answer == "wrong-usage":
            prompt, extra = prompt + 3, 7
        done = self.count + extra
        return {"prompt_tokens": prompt, "total_tokens": prompt + done, "completion_tokens": done}


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    service: Service

    def do_GET(self) -> None:
        self.get(self.path.partition("?")[0])

    def get(self, path: str) -> None:
        service = self.service
        if path in ("/health", "/ping"):
            self._send(503 if service.dead.is_set() else 200, b"", "text/plain")
        elif path == "/version":
            self._json(200, {"version": __version__})
        elif path == "/metrics":
            self._send(200, metrics(service).encode(), "text/plain; version=0.0.4")
        elif path == "/v1/models":
            if self._allowed():
                self._json(200, models(service))
        else:
            self._json(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        raw_body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.startswith("/v1") and not self._allowed():
            return
        try:
            body = json.loads(raw_body or b"{}")
            lie = self.service.lie(body.get("model")) if isinstance(body, dict) else ""
            if self.path == "/tokenize":
                self._json(200, tokenized(self.service, body))
            elif self.path in ("/v1/chat/completions", "/v1/completions"):
                self._generate(checked_job(self.service, body, lie, chat="chat" in self.path))
            else:
                self._json(404, {"detail": "Not Found"})
        except ValueError as error:
            self._json(400, Bad(400, "BadRequestError", f"not JSON: {error}").body)
        except Bad as refusal:
            self._json(refusal.status, refusal.body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _generate(self, job: Job) -> None:
        service = self.service
        if service.cues.hang_at == "request":
            threading.Event().wait()
        if not service.take():
            raise Bad(500, "InternalServerError", ENGINE_DEAD)
        with service.lock:
            service.running += 1
        if service.cues.hang_after is not None and service.taken > service.cues.hang_after:
            threading.Event().wait()
        generation = Generation(service, job)
        service.remember(job)
        held = False
        try:
            if job.stream:
                self._stream(generation)
            else:
                self._json(200, whole(generation, list(generation.words())))
        except (BrokenPipeError, ConnectionResetError):
            held = job.lie == "cancel-holds"
            raise
        finally:
            with service.lock:
                service.running -= 0 if held else 1
                service.prompt_tokens += len(words.tokenize(job.prompt))
                service.generated_tokens += generation.count

    def _stream(self, generation: Generation) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for event in events(generation):
                self._chunk(f"data: {json.dumps(event)}\n\n")
        except Bad as failure:
            # the status line is gone already: vLLM sends the error as an event
            self._chunk(f"data: {json.dumps(failure.body)}\n\n")
        self._chunk("data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _allowed(self) -> bool:
        key = self.service.api_key
        if not key or self.headers.get("Authorization") == f"Bearer {key}":
            return True
        self._json(401, {"error": "Unauthorized"})
        return False

    def _json(self, status: int, value: object) -> None:
        self._send(status, json.dumps(value).encode(), "application/json")

    def _send(self, status: int, data: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        if self.path.partition("?")[0] in self.service.quiet:
            return
        phrase = self.responses.get(int(code), ("",))[0]
        raw(f'INFO:     {self.client_address[0]}:{self.client_address[1]} - "{self.requestline}" {code} {phrase}\n')


def events(generation: Generation) -> Iterator[dict[str, Any]]:
    """The stream's JSON events, `[DONE]` excluded."""
    job = generation.job
    if job.chat:
        yield _envelope(job, [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}])
    reasoning = len(words.tokenize(job.said.reasoning))
    for number, word in enumerate(generation.words()):
        yield _envelope(job, [_choice(job, word.text, [word], None, part=True, thought=number < reasoning)])
    for delta in _call_deltas(job):
        yield _envelope(job, [{"index": 0, "delta": {"tool_calls": [delta]}, "finish_reason": None}])
    yield _envelope(job, [_choice(job, "", [], generation.finish, part=True)])
    if job.include_usage:
        yield {**_envelope(job, []), "usage": generation.usage()}


def whole(generation: Generation, said: list[words.Word]) -> dict[str, Any]:
    """The answer that is no stream."""
    job = generation.job
    text = "".join(word.text for word in said)
    if job.echo:
        text = job.prompt + text
        asked, cue = words.tokenize(job.prompt), generation.service.cues.answer
        # of a damaged model every other token is what random weights make of it
        answers = ["gibberish" if job.lie == "thinks-otherwise" and number % 2 else cue for number in range(len(asked))]
        said = [words.score(token, answer=how) for token, how in zip(asked, answers, strict=True)] + said
    reasoning = job.said.reasoning
    choice = _choice(job, text.removeprefix(reasoning), said, generation.finish, part=False)
    if reasoning:
        choice["message"] |= _thought(job, text)
    if job.said.calls:
        calls = [_call(number, name, arguments) for number, (name, arguments) in enumerate(job.said.calls)]
        choice["message"] |= {"content": None, "tool_calls": calls}
    further = [_further(job, number) for number in range(1, job.n)]
    return {**_envelope(job, [choice, *further]), "usage": generation.usage()}


def _thought(job: Job, text: str) -> dict[str, str]:
    """What it thinks and what it says of a text that may end while it thinks."""
    reasoning = job.said.reasoning
    if not text.startswith(reasoning):
        return {"content": text} if job.lie == "thinking-given-out" else {"content": "", "reasoning": text}
    return {"content": text.removeprefix(reasoning), "reasoning": reasoning}


def _further(job: Job, number: int) -> dict[str, Any]:
    source = words.generate(f"{job.prompt}{job.sampled}{number}", chat=job.chat, answer="good", ignore_eos=False)
    text = "".join(word.text for word in itertools.islice(source, job.max_tokens))
    return {**_choice(job, text, [], "length", part=False), "index": number}


def _call(number: int, name: str, arguments: str) -> dict[str, Any]:
    return {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}


def _call_deltas(job: Job) -> Iterator[dict[str, Any]]:
    """A call's name, then its arguments piece by piece."""
    for number, (name, arguments) in enumerate(job.said.calls):
        yield {"index": number, **_call(number, name, "")}
        pieces = words.tokenize(arguments)
        if job.lie == "tool-deltas-differ":
            pieces.pop()
        yield from ({"index": number, "function": {"arguments": piece}} for piece in pieces)


def _envelope(job: Job, choices: list[dict[str, Any]]) -> dict[str, Any]:
    kind = ("chat.completion.chunk" if job.stream else "chat.completion") if job.chat else "text_completion"
    head = "chatcmpl" if job.chat else "cmpl"
    return {
        "id": f"{head}-{time.monotonic_ns():x}",
        "object": kind,
        "created": int(time.time()),
        "model": job.model,
        "choices": choices,
    }


def _choice(
    job: Job, text: str, said: list[words.Word], finish: str | None, *, part: bool, thought: bool = False
) -> dict[str, Any]:
    choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": finish}
    if job.chat:
        delta = {"reasoning" if thought else "content": text}
        choice["delta" if part else "message"] = delta if part else {"role": "assistant", "content": text}
    else:
        choice["text"] = text
    if job.logprobs and said:
        if job.lie == "logprobs-shifted":
            said = [words.Word(word.text, word.logprob - 3, word.top) for word in said]
        choice["logprobs"] = _chat_logprobs(job, said) if job.chat else _plain_logprobs(job, said)
    return choice


def _chat_logprobs(job: Job, said: list[words.Word]) -> dict[str, Any]:
    def entry(text: str, logprob: float) -> dict[str, Any]:
        return {"token": text, "logprob": logprob, "bytes": list(text.encode())}

    return {
        "content": [
            {**entry(word.text, word.logprob), "top_logprobs": [entry(*other) for other in word.top[: job.logprobs]]}
            for word in said
        ]
    }


def _plain_logprobs(job: Job, said: list[words.Word]) -> dict[str, Any]:
    """With echo the very first prompt token has no log-probability, as in vLLM."""
    values: list[float | None] = [word.logprob for word in said]
    tops: list[dict[str, float] | None] = [dict(word.top[: job.logprobs]) for word in said]
    if job.echo:
        values[0], tops[0] = None, None
    offsets = [sum(len(word.text) for word in said[:number]) for number in range(len(said))]
    return {
        "tokens": [word.text for word in said],
        "token_logprobs": values,
        "top_logprobs": tops,
        "text_offset": offsets,
    }


def models(service: Service) -> dict[str, Any]:
    def card(name: str) -> dict[str, Any]:
        return {
            "id": name,
            "object": "model",
            "created": int(time.time()),
            "owned_by": "vllm",
            "root": service.model_path,
            "parent": None,
            "max_model_len": service.max_model_len,
        }

    return {"object": "list", "data": [card(name) for name in service.names]}


def tokenized(service: Service, body: dict[str, Any]) -> dict[str, Any]:
    """Raises: Bad."""
    tokens = words.tokenize(_prompt(body, chat="messages" in body))
    return {
        "count": len(tokens),
        "max_model_len": service.max_model_len,
        "tokens": [words.token_id(token) for token in tokens],
        "token_strs": None,
    }


def metrics(service: Service) -> str:
    labels = f'engine="0",model_name="{service.names[0]}"'
    rows = (
        ("gauge", "vllm:num_requests_running", service.running),
        ("gauge", "vllm:num_requests_waiting", 0),
        ("gauge", "vllm:kv_cache_usage_perc", 0),
        ("counter", "vllm:prompt_tokens_total", service.prompt_tokens),
        ("counter", "vllm:generation_tokens_total", service.generated_tokens),
        ("counter", "vllm:prefix_cache_hits_total", service.cached_tokens),
    )
    text = "".join(f"# TYPE {name} {kind}\n{name}{{{labels}}} {float(value)}\n" for kind, name, value in rows)
    blocks = 8 * service.max_model_len // 128
    config = f'block_size="128",cache_dtype="auto",engine="0",num_gpu_blocks="{blocks}"'
    return f"{text}# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{{{config}}} 1.0\n"


class Server(ThreadingHTTPServer):
    """Bound before the engine loads, listening only once it has, as vLLM does: until then connections are refused."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), Handler, bind_and_activate=False)
        self.server_bind()

    def server_bind(self) -> None:
        # not HTTPServer's: that one asks the resolver for our name
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def open(self, service: Service, handler: type[Handler] = Handler) -> None:
        """From here on requests are answered, in the background."""
        self.RequestHandlerClass = type("BoundHandler", (handler,), {"service": service})
        self.server_activate()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is no error of the engine's."""


def key_from(environ: "os._Environ[str]", flag: list[str] | None) -> str:
    return flag[0] if flag else environ.get("VLLM_API_KEY", "")
