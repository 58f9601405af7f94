"""One response, from its reads to the times of its deltas: each way a body can end, and each way it can lie."""

from collections.abc import Sequence

import pytest

from fakes.load import CHUNKED, DONE, HEAD, USAGE, chunk, event, finished, stream
from holddown.edges.load.response import Response


def read(*reads: bytes, hangs_up: bool = False) -> Response:
    """The first read at 1.0 s, each further one a second later."""
    response = Response()
    for number, data in enumerate(reads):
        response.take(data, 1.0 + number)
    if hangs_up:
        response.end()
    return response


def a_stream(*pieces: bytes) -> Sequence[bytes]:
    return [CHUNKED, *map(chunk, pieces), b"0\r\n\r\n"]


def test_each_delta_has_the_time_of_its_read() -> None:
    """And what carries no text, the end, the usage, has none."""
    response = read(*a_stream(event("a"), event(" b"), event(" c"), finished(), USAGE % 3, DONE))
    assert response.over and not response.closes
    assert response.verdict() == ""
    assert response.deltas == [2.0, 3.0, 4.0]
    assert response.usage is not None
    assert (response.usage.prompt_tokens, response.usage.completion_tokens) == (7, 3)


def test_the_role_is_no_token() -> None:
    """A chat begins with an empty delta that names it."""
    role = b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n'
    assert read(*a_stream(role, event("a"), finished(), USAGE % 1, DONE)).deltas == [3.0]


def test_a_hidden_token_of_a_plain_completion_counts() -> None:
    """A special token under ignore_eos has no text, and is one all the same."""
    hidden, last = (
        b'data: {"choices":[{"text":""}]}\n\n',
        b'data: {"choices":[{"text":"","finish_reason":"length"}]}\n\n',
    )
    assert read(*a_stream(hidden, hidden, last, USAGE % 2, DONE)).deltas == [2.0, 3.0]


def test_reasoning_is_content_and_no_answer() -> None:
    """The first token is a reasoning one; the answer begins later."""
    pieces = [event("hm", "reasoning"), event("so", "reasoning_content"), event("Yes"), finished(), USAGE % 3, DONE]
    response = read(*a_stream(*pieces))
    assert (response.deltas[0], response.answer_at) == (2.0, 4.0)


@pytest.mark.parametrize("text", ['say \\"hi\\"', "back\\\\slash", "", "née 漢", "}]", "data: x"])
def test_a_delta_unlike_the_learned_one_is_parsed(text: str) -> None:
    """What is the same but for its text is not parsed; quotes and emptiness are looked at."""
    plain = chunk(event("aaaaaaaaaaaa"))
    raw = (
        b'data: {"id":"c-1","choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":null}]}\n\n' % text.encode()
    )
    response = read(CHUNKED, plain, chunk(raw), plain, *map(chunk, (finished(), USAGE % 3, DONE)), b"0\r\n\r\n")
    assert response.verdict() == ""
    assert response.deltas == ([2.0, 3.0, 4.0] if text else [2.0, 4.0])


def test_a_finish_in_the_shape_of_a_token_is_seen() -> None:
    """Of the same length as a token's chunk, and no token."""
    token = b'data: {"choices":[{"delta":{"content":"abcd"},"finish_reason":null}]}\n\n'
    last = b'data: {"choices":[{"delta":{"content":""},"finish_reason":"length"}]}\n\n'
    response = read(*a_stream(token, token, last + b" " * 0, USAGE % 2, DONE))
    assert response.finished and len(response.deltas) == 2


def test_a_body_with_a_length() -> None:
    """It ends at its last byte, and the connection stays."""
    body = event("a") + finished() + USAGE % 1 + DONE
    response = read(HEAD + b"content-length: %d\r\n\r\n" % len(body), body[:30], body[30:])
    assert response.over and not response.closes
    assert response.verdict() == "" and response.deltas == [3.0]


def test_a_body_that_ends_with_the_connection() -> None:
    """No length at all: HTTP/1.0 servers stream so."""
    body = event("a") + finished() + USAGE % 1 + DONE
    response = read(b"HTTP/1.0 200 OK\r\n\r\n", body, hangs_up=True)
    assert response.over and response.closes
    assert response.verdict() == ""


def test_what_an_interim_answer_says_is_passed_over() -> None:
    """100 Continue comes before the answer."""
    assert read(b"HTTP/1.1 100 Continue\r\n\r\n", stream("a")).verdict() == ""


def test_line_ends_of_windows_and_comments() -> None:
    """Event streams may have both; a keep-alive comment is nothing."""
    body = (b": ping\n\n" + event("a") + finished() + USAGE % 1 + DONE).replace(b"\n", b"\r\n")
    response = read(CHUNKED, chunk(body), b"0\r\n\r\n")
    assert response.verdict() == "" and response.deltas == [2.0]


@pytest.mark.parametrize(
    ("reads", "fault"),
    [
        ([b""], "the server hung up before it answered"),
        ([CHUNKED, chunk(event("a"))], "the stream was cut after 1 deltas"),
        ([CHUNKED, chunk(event("a")), b"2f\r\ndata: {"], "the stream was cut after 1 deltas"),
        ([b"SSH-2.0-OpenSSH_9.2\r\n"], "this is not HTTP: SSH-2.0-OpenSSH_9.2"),
        ([CHUNKED, b"xyz\r\n"], "a chunk has no size: xyz"),
        (a_stream(b"data: {nonsense\n\n"), "an event that cannot be read: {nonsense"),
        (a_stream(b"<html>busy</html>\n\n"), "this is no event stream: <html>busy</html>"),
        (a_stream(b'data: {"error":{"message":"out of memory"}}\n\n', DONE), "the stream reports an error"),
        (a_stream(finished(), USAGE % 0, DONE), "no token came"),
        (a_stream(event("a"), finished(), DONE), "the stream brought no usage"),
        (a_stream(event("a"), USAGE % 1), "the stream ended before the answer was finished"),
        ([b'HTTP/1.1 429 Busy\r\ncontent-length: 8\r\n\r\n{"e": 1}'], 'HTTP 429: {"e": 1}'),
    ],
)
def test_each_lie_is_a_fault_with_its_words(reads: Sequence[bytes], fault: str) -> None:
    """None of them is an exception, and none of them a figure."""
    assert read(*reads, hangs_up=True).verdict().startswith(fault)
