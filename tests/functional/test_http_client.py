"""HttpClient against a small server that says exactly what a test wants on the wire."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from holddown.base.evidence import Known, Unknown
from holddown.edges.client.http import HttpClient
from holddown.facts.answers import Answer, Ask, Message, Refusal, Usage

KEY = "sk-very-secret"
PLAIN = Ask(model="m", prompt="The capital of France is", max_tokens=2, logprobs=2)
CHAT = Ask(model="m", messages=(Message("user", "Hello?"),), max_tokens=2, logprobs=2, stop=("x",))


@dataclass
class Seen:
    """One request as it came."""

    path: str
    body: dict[str, Any]
    authorization: str


@dataclass
class Endpoint:
    """Answers every POST with `speak(handler)`, and remembers what was asked."""

    speak: Callable[[BaseHTTPRequestHandler], None]
    url: str = ""
    seen: list[Seen] = field(default_factory=list)


@contextmanager
def endpoint(speak: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[Endpoint]:
    served = Endpoint(speak)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            served.seen.append(Seen(self.path, body, self.headers.get("Authorization", "")))
            served.speak(self)

        def do_GET(self) -> None:
            served.seen.append(Seen(self.path, {}, self.headers.get("Authorization", "")))
            served.speak(self)

        def log_message(self, format: str, *args: Any) -> None:
            """Not onto the test's stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    served.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def client(url: str, api_key: str = "", timeout_s: float = 10.0) -> Iterator[HttpClient]:
    made = HttpClient(url, api_key, timeout_s)
    try:
        yield made
    finally:
        made.close()


def says(status: int, body: object) -> Callable[[BaseHTTPRequestHandler], None]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()

    def speak(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(raw)))
        handler.end_headers()
        handler.wfile.write(raw)

    return speak


def streams(*pieces: bytes) -> Callable[[BaseHTTPRequestHandler], None]:
    """Writes the pieces as they are; the end of the body is the end of the connection."""

    def speak(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream; charset=utf-8")
        handler.end_headers()
        for piece in pieces:
            handler.wfile.write(piece)
            handler.wfile.flush()

    return speak


def event(data: object) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()


def plain_delta(text: str, finish_reason: str | None = None) -> bytes:
    return event({"choices": [{"index": 0, "text": text, "finish_reason": finish_reason}]})


USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
DONE = b"data: [DONE]\n\n"

CHAT_ANSWER = {
    "choices": [
        {
            "message": {"role": "assistant", "content": "Hi there", "reasoning": "they greet"},
            "finish_reason": "length",
            "logprobs": {
                "content": [
                    {
                        "token": "Hi",
                        "logprob": -0.5,
                        "top_logprobs": [{"token": "Oh", "logprob": -1.2}, {"token": "Hi", "logprob": -0.5}],
                    },
                    {"token": " there", "logprob": -0.1, "top_logprobs": []},
                ]
            },
        }
    ],
    "usage": USAGE,
}
PLAIN_ANSWER = {
    "choices": [
        {
            "text": "The capital of France is Paris",
            "finish_reason": "length",
            "logprobs": {
                "tokens": ["The", " capital", " Paris"],
                "token_logprobs": [None, -6.0, -0.25],
                "top_logprobs": [None, {" capital": -6.0, " first": -2.0}, {" Paris": -0.25}],
            },
        }
    ],
    "usage": USAGE,
}


def refused(speak: Callable[[BaseHTTPRequestHandler], None], *, stream: bool = False) -> Refusal:
    with endpoint(speak) as served, client(served.url, KEY) as made:
        reply = made.stream(PLAIN) if stream else made.ask(PLAIN)
    assert isinstance(reply, Refusal)
    return reply


def test_chat_answer() -> None:
    """Text, reasoning, reason to end, usage, and log-probabilities with the best first."""
    with endpoint(says(200, CHAT_ANSWER)) as served, client(served.url) as made:
        reply = made.ask(CHAT)
    assert isinstance(reply, Answer)
    assert (reply.text, reply.reasoning, reply.finish_reason) == ("Hi there", "they greet", "length")
    assert isinstance(reply.usage, Known)
    assert reply.usage.value == Usage(5, 2)
    assert [(one.token, one.logprob) for one in reply.logprobs] == [("Hi", -0.5), (" there", -0.1)]
    assert reply.logprobs[0].top == (("Hi", -0.5), ("Oh", -1.2))
    assert reply.ended_at >= reply.sent_at


def test_what_a_chat_question_looks_like() -> None:
    """Temperature 0 with a fixed seed, log-probabilities in the chat manner, the key as a bearer."""
    with endpoint(says(200, CHAT_ANSWER)) as served, client(served.url + "/v1/", KEY) as made:
        made.ask(CHAT)
    assert served.seen[0].path == "/v1/chat/completions"
    assert served.seen[0].authorization == f"Bearer {KEY}"
    assert served.seen[0].body == {
        "model": "m",
        "max_tokens": 2,
        "temperature": 0.0,
        "seed": 0,
        "messages": [{"role": "user", "content": "Hello?"}],
        "logprobs": True,
        "top_logprobs": 2,
        "stop": ["x"],
    }


def test_plain_answer_with_echo() -> None:
    """The first echoed token has no log-probability and is left out; a rarer best comes first."""
    with endpoint(says(200, PLAIN_ANSWER)) as served, client(served.url) as made:
        reply = made.ask(Ask(model="m", prompt="The capital", max_tokens=1, logprobs=2, echo=True, ignore_eos=True))
    assert isinstance(reply, Answer)
    assert [one.token for one in reply.logprobs] == [" capital", " Paris"]
    assert reply.logprobs[0].top[0] == (" first", -2.0)
    assert served.seen[0].path == "/v1/completions"
    body = served.seen[0].body
    assert (body["prompt"], body["logprobs"], body["echo"], body["ignore_eos"]) == ("The capital", 2, True, True)


def test_thinking_that_is_asked_for_and_granted_so_many_tokens() -> None:
    """In the words of each engine; a question that asks for neither has none of them."""
    asked = Ask(model="m", messages=(Message("user", "Hi"),), max_tokens=5)
    with endpoint(says(200, CHAT_ANSWER)) as served, client(served.url) as made:
        made.ask(replace(asked, thinking=True, thinking_budget=3))
        made.ask(asked)
    body, plain = (request.body for request in served.seen)
    assert {name: body[name] for name in body.keys() - plain.keys()} == {
        "chat_template_kwargs": {"enable_thinking": True, "thinking": True},
        "thinking_token_budget": 3,
        "thinking_budget_tokens": 3,
        "custom_params": {"thinking_budget": 3},
    }


def test_older_name_of_the_reasoning_text() -> None:
    """vLLM before 0.16 and SGLang call it `reasoning_content`."""
    answer = {"choices": [{"message": {"content": None, "reasoning_content": "hm"}, "finish_reason": "length"}]}
    with endpoint(says(200, answer)) as served, client(served.url) as made:
        reply = made.ask(CHAT)
    assert isinstance(reply, Answer)
    assert (reply.text, reply.reasoning) == ("", "hm")
    assert isinstance(reply.usage, Unknown)


def test_stream_in_pieces() -> None:
    """Events cut anywhere, comments between them, several tokens in a delta, usage in a chunk of its own."""
    first = plain_delta(" Paris, the capital")
    pieces = (first[:7], first[7:], b": ping\n\n", plain_delta(" of"), plain_delta("", "length"))
    with (
        endpoint(streams(*pieces, event({"choices": [], "usage": USAGE}), DONE)) as served,
        client(served.url) as made,
    ):
        reply = made.stream(PLAIN)
    assert isinstance(reply, Answer)
    assert (reply.text, reply.finish_reason) == (" Paris, the capital of", "length")
    assert isinstance(reply.usage, Known)
    assert reply.usage.value.completion_tokens == 2
    assert len(reply.arrivals) == 2
    assert reply.sent_at <= reply.arrivals[0] <= reply.arrivals[1] <= reply.ended_at
    assert served.seen[0].body["stream_options"] == {"include_usage": True}


def test_a_token_without_text_is_an_arrival() -> None:
    """Random weights under `ignore_eos` may say nothing but special tokens; the closing chunk is no token."""
    pieces = (plain_delta(""), plain_delta(""), plain_delta("", "length"), event({"choices": [], "usage": USAGE}))
    with endpoint(streams(*pieces, DONE)) as served, client(served.url) as made:
        reply = made.stream(PLAIN)
    assert isinstance(reply, Answer)
    assert (reply.text, len(reply.arrivals)) == ("", 2)


def test_chat_stream() -> None:
    """The delta that only names the role is no arrival; reasoning, text and log-probabilities add up."""

    def delta(**fields: object) -> bytes:
        return event({"choices": [{"delta": fields, "finish_reason": None}]})

    lp = {"content": [{"token": "Hi", "logprob": -0.5, "top_logprobs": []}]}
    pieces = (
        delta(role="assistant", content=""),
        delta(reasoning="they "),
        delta(reasoning="greet"),
        event({"choices": [{"delta": {"content": "Hi"}, "logprobs": lp, "finish_reason": "stop"}]}),
    )
    with endpoint(streams(*pieces, DONE)) as served, client(served.url) as made:
        reply = made.stream(CHAT)
    assert isinstance(reply, Answer)
    assert (reply.text, reply.reasoning, reply.finish_reason) == ("Hi", "they greet", "stop")
    assert len(reply.arrivals) == 3
    assert [one.token for one in reply.logprobs] == ["Hi"]


def test_stream_that_breaks_off() -> None:
    """An engine that dies closes the connection; HTTP alone sees no error in that. What had come is shown."""
    reply = refused(streams(plain_delta(" Par")), stream=True)
    assert reply.status == 0
    assert "ended before" in reply.message and "'Par'" in reply.message


def test_stream_that_breaks_off_inside_a_chunk() -> None:
    """A body shorter than it was announced to be."""

    def speak(handler: BaseHTTPRequestHandler) -> None:
        handler.protocol_version = "HTTP/1.1"
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"ff\r\n" + plain_delta(" Par"))
        handler.close_connection = True

    assert refused(speak, stream=True).status == 0


def test_error_inside_a_stream() -> None:
    """vLLM answers 200 and reports the failure as an event."""
    broken = event({"error": {"message": "EngineCore encountered an issue.", "code": 500}})
    reply = refused(streams(plain_delta(" Par"), broken, DONE), stream=True)
    assert reply.status == 500
    assert "EngineCore" in reply.message and "1 deltas" in reply.message


def test_stream_that_is_none() -> None:
    """A JSON answer to a question for a stream."""
    assert refused(says(200, PLAIN_ANSWER), stream=True).status == 0


def test_stream_refused() -> None:
    """The status and the message of the error, though the body of a stream is read late."""
    reply = refused(says(404, {"error": {"message": "The model `m` does not exist."}}), stream=True)
    assert reply == Refusal(404, "The model `m` does not exist.")


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (500, {"error": {"message": "boom", "code": 500}}, "boom"),
        (400, {"object": "error", "message": "bad", "code": 400}, "bad"),
        (422, {"detail": "no such field"}, "no such field"),
        (401, {"error": "Unauthorized"}, "Unauthorized"),
        (502, b"<html>Bad gateway</html>", "<html>Bad gateway</html>"),
        (503, b"", "an empty answer"),
    ],
)
def test_every_shape_of_an_error(status: int, body: object, message: str) -> None:
    """vLLM's, SGLang's, FastAPI's, a proxy's, and none."""
    assert refused(says(status, body)) == Refusal(status, message)


@pytest.mark.parametrize(
    "body", [b"not json", b"", b"[1, 2]", b"null", b'{"choices": []}', b'{"choices": {"0": 1}}', b"{}", b"\xff\xfe{"]
)
def test_garbage_is_a_refusal_that_shows_it(body: bytes) -> None:
    """200 with anything but an answer is status 0, with what was seen."""
    reply = refused(says(200, body))
    assert reply.status == 0
    assert reply.message


@pytest.mark.parametrize(
    "body",
    [
        {"choices": [{"text": 7, "logprobs": 3, "finish_reason": []}], "usage": "many"},
        {"choices": [{"message": "hello", "logprobs": {"content": [None, {"logprob": "x"}]}}], "usage": {"a": 1}},
        {"choices": [{"text": "", "logprobs": {"tokens": ["a"], "token_logprobs": None, "top_logprobs": [1]}}]},
    ],
)
def test_fields_of_the_wrong_kind_are_not_taken(body: object) -> None:
    """A field that is not what it should be counts as absent; nothing breaks on it."""
    with endpoint(says(200, body)) as served, client(served.url) as made:
        reply = made.ask(PLAIN)
    assert isinstance(reply, Answer)
    assert (reply.text, reply.logprobs) == ("", ())
    assert isinstance(reply.usage, Unknown)


def test_nobody_listens() -> None:
    """Connection refused is status 0, and names the address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with client(f"http://127.0.0.1:{port}") as made:
        reply = made.ask(PLAIN)
        assert not made.healthy()
    assert isinstance(reply, Refusal)
    assert reply.status == 0
    assert str(port) in reply.message


def test_an_address_that_is_none() -> None:
    """A broken URL is a refusal, not an exception."""
    with client("http://[broken") as made:
        assert isinstance(made.ask(PLAIN), Refusal)
        assert isinstance(made.stream(PLAIN), Refusal)
        assert not made.healthy()


def test_silence_runs_into_the_timeout() -> None:
    """An engine that hangs is a refusal too."""
    release = threading.Event()

    def hang(handler: BaseHTTPRequestHandler) -> None:
        release.wait(10)

    with endpoint(hang) as served, client(served.url, timeout_s=0.2) as made:
        reply = made.ask(PLAIN)
        release.set()
    assert isinstance(reply, Refusal)
    assert "in time" in reply.message


def test_the_key_is_in_no_message() -> None:
    """Some endpoints quote the key that they reject; it must not reach a log or a record."""
    reply = refused(says(401, {"error": {"message": f"Incorrect API key provided: {KEY}"}}))
    assert reply == Refusal(401, "Incorrect API key provided: ***")


@pytest.mark.parametrize("key", ["kéy", "two\nlines"])
def test_a_key_that_no_header_can_carry(key: str) -> None:
    """It is refused without being shown."""
    with endpoint(says(200, PLAIN_ANSWER)) as served, client(served.url, key) as made:
        reply = made.ask(PLAIN)
        assert made.prompt_tokens(PLAIN) is None
        assert not made.healthy()
    assert isinstance(reply, Refusal)
    assert key not in reply.message


def test_healthy() -> None:
    """Only 200 is healthy; no key is needed for it."""
    with endpoint(says(200, b"")) as served, client(served.url) as made:
        assert made.healthy()
        assert served.seen[0].path == "/health"
        served.speak = says(503, b"")
        assert not made.healthy()


def test_prompt_tokens() -> None:
    """A chat is counted with the template's opening of the answer, as the engine will see it."""
    with endpoint(says(200, {"count": 31, "tokens": [1] * 31})) as served, client(served.url) as made:
        assert made.prompt_tokens(CHAT) == 31
        assert made.prompt_tokens(PLAIN) == 31
    assert served.seen[0].path == "/tokenize"
    messages = [{"role": "user", "content": "Hello?"}]
    assert served.seen[0].body == {"model": "m", "messages": messages, "add_generation_prompt": True}
    assert served.seen[1].body == {"model": "m", "prompt": PLAIN.prompt}


@pytest.mark.parametrize(("status", "body"), [(404, {"detail": "Not Found"}), (200, {"tokens": []}), (200, b"?")])
def test_prompt_tokens_without_a_tokenizer(status: int, body: object) -> None:
    """No such endpoint, or one of another shape (llama.cpp): not known, not 0."""
    with endpoint(says(status, body)) as served, client(served.url) as made:
        assert made.prompt_tokens(PLAIN) is None


def test_a_proxy_in_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy cannot reach this machine's loopback."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    with endpoint(says(200, PLAIN_ANSWER)) as served, client(served.url) as made:
        assert isinstance(made.ask(PLAIN), Answer)
