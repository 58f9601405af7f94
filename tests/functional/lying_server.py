"""A server whose models each tell one lie about a stream, by their names; one that is called `honest` tells none.

Raw sockets: an HTTP library would not let it lie.
"""

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable

from fakes.load import CHUNKED, DONE, HEAD, USAGE, chunk, event, finished

Send = Callable[[bytes], None]
TOKENS = 4


def _honest(send: Send, usage: bytes = USAGE % TOKENS) -> None:
    send(CHUNKED)
    for number in range(TOKENS):
        time.sleep(0.005)
        send(chunk(event(f" w{number}")))
    _end(send, usage)


def _end(send: Send, usage: bytes = USAGE % TOKENS) -> None:
    send(b"".join(map(chunk, (finished(), usage, DONE))) + b"0\r\n\r\n")


def _two_tokens(send: Send) -> None:
    """Each chunk has an event whose text is two tokens, as speculative decoding gives it."""
    send(CHUNKED)
    for number in range(0, TOKENS, 2):
        time.sleep(0.02)
        send(chunk(event(f" w{number} w{number + 1}")))
    _end(send)


def _cut(send: Send) -> None:
    send(CHUNKED + chunk(event(" a")) + chunk(event(" b"))[:20])
    raise ConnectionResetError


def _stall(send: Send) -> None:
    send(CHUNKED + chunk(event(" a")))
    time.sleep(5)


def _slow_head(send: Send) -> None:
    """Its head comes byte by byte, and late; it is an honest stream all the same."""
    for number in range(0, len(CHUNKED), 8):
        time.sleep(0.01)
        send(CHUNKED[number : number + 8])
    for number in range(TOKENS):
        send(chunk(event(f" w{number}")))
    _end(send)


def _error_event(send: Send) -> None:
    send(CHUNKED + chunk(event(" a")))
    send(chunk(b'data: {"error":{"message":"CUDA out of memory","code":500}}\n\n') + chunk(DONE) + b"0\r\n\r\n")


def _hangs_up(send: Send) -> None:
    """Closes a connection once it has answered on it, and does not say so before."""
    _honest(send)
    raise ConnectionResetError


def _to_the_end(send: Send) -> None:
    send(HEAD + b"connection: close\r\n\r\n" + b"".join(event(f" w{number}") for number in range(TOKENS)))
    send(finished() + USAGE % TOKENS + DONE)
    raise ConnectionResetError


def _with_length(send: Send) -> None:
    body = b"".join(event(f" w{number}") for number in range(TOKENS)) + finished() + USAGE % TOKENS + DONE
    send(HEAD + b"content-length: %d\r\n\r\n" % len(body))
    for at in range(0, len(body), 50):
        send(body[at : at + 50])


def _refusal(send: Send) -> None:
    body = b'{"error":{"message":"the queue is full"}}'
    send(b"HTTP/1.1 503 Busy\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))


LIES: dict[str, Callable[[Send], None]] = {
    "honest": _honest,
    "two-tokens-a-chunk": _two_tokens,
    "cut": _cut,
    "stall": _stall,
    "slow-head": _slow_head,
    "error-event": _error_event,
    "hangs-up": _hangs_up,
    "to-the-end": _to_the_end,
    "with-length": _with_length,
    "refusal": _refusal,
    "no-usage": lambda send: _honest(send, usage=b": nothing\n\n"),
    "usage-off-by-one": lambda send: _honest(send, usage=USAGE % (TOKENS + 1)),
    "garbage": lambda send: send(b"\x16\x03\x01\x00 what do you want?\r\n\r\n"),
}


class LyingServer:
    """On loopback. context: for HTTPS. connections: how many were accepted."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._context = context
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http{'s' if self._context else ''}://localhost:{self.port}"

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is not None:
                connection = self._context.wrap_socket(connection, server_side=True)
            with connection, connection.makefile("rb") as asked:
                while line := asked.readline():
                    length = 0
                    while (field := asked.readline().strip()) != b"":
                        name, _, value = field.partition(b":")
                        length = int(value) if name.lower() == b"content-length" else length
                    self._answer(connection.sendall, line.split()[1].decode(), asked.read(length))
        except OSError:
            return

    def _answer(self, send: Send, path: str, body: bytes) -> None:
        if path == "/v1/models":
            _json(send, {"data": [{"id": name, "object": "model", "owned_by": "me"} for name in LIES]})
            return
        asked = json.loads(body) if body else {}
        if path == "/v1/chat/completions" and asked.get("stream"):
            LIES[asked["model"]](send)
        elif path == "/v1/chat/completions":
            words = len(asked["messages"][0]["content"].split())
            choice = {"message": {"content": "w"}, "finish_reason": "length"}
            _json(send, {"choices": [choice], "usage": {"prompt_tokens": words + 6, "completion_tokens": 1}})
        else:
            send(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")


def _json(send: Send, value: object) -> None:
    body = json.dumps(value).encode()
    send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
