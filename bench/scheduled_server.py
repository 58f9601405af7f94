"""A server that computes nothing and emits tokens on a known schedule, each stamped with the monotonic clock as it is
sent: what a load client says of it can be checked. Standard library only, one thread, HTTP/1.1 with keep-alive.

    python bench/scheduled_server.py --port 8123 --ttft-ms 50 --itl-ms 20

A token is a word. GET /stamps gives `[[request read, [token sent, ...]], ...]` of the answers since the last such call,
in seconds of the monotonic clock. --at-once N: as many tokens in one chunk. --hurry: as fast as the client reads.
"""

import argparse
import json
import select
import socket
import sys
import time
from collections import deque
from dataclasses import dataclass, field

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
_READ_EVERY_S = 0.0001
_LONG_BYTES = 65536


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _event(choices: str, usage: str = "") -> bytes:
    head = '{"id":"chatcmpl-8c3e0f5d2b7a4c1e9f60","object":"chat.completion.chunk","created":1790000000,"model":"m",'
    return f'data: {head}"choices":[{choices}]{usage}}}\n\n'.encode()


def _token(text: str, chat: bool) -> bytes:
    said = json.dumps(text)
    part = f'"delta":{{"content":{said}}}' if chat else f'"text":{said}'
    return _event(f'{{"index":0,{part},"logprobs":null,"finish_reason":null,"token_ids":null}}')


_ROLE = _event('{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}')


@dataclass(slots=True, eq=False)
class Answer:
    """One answer under way. read_at: when its request was read. due: when its next chunk is to be sent."""

    connection: "Connection"
    chat: bool
    tokens: int
    prompt_tokens: int
    usage: bool
    read_at: float
    due: float
    sent: list[float] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Connection:
    socket: socket.socket
    waiting: bytes = b""
    open: bool = True


class Server:
    def __init__(self, port: int, ttft_s: float, itl_s: float, at_once: int, hurry: bool) -> None:
        self.ttft_s, self.itl_s, self.at_once, self.hurry = ttft_s, itl_s, at_once, hurry
        self.listener = socket.create_server(("127.0.0.1", port), backlog=2048)
        self.listener.setblocking(False)
        self.port = self.listener.getsockname()[1]
        self.epoll = select.epoll()
        self.epoll.register(self.listener.fileno(), select.EPOLLIN)
        self.connections: dict[int, Connection] = {}
        # both in the order of their due times, since the delays are the same for all
        self.first: deque[Answer] = deque()
        self.later: deque[Answer] = deque()
        self.stamps: list[tuple[float, list[float]]] = []
        self.pieces = {chat: _chunk(_token(" word" * at_once, chat)) for chat in (True, False)}

    def run(self) -> None:
        read_at = 0.0
        while True:
            now = time.monotonic()
            if now - read_at >= _READ_EVERY_S:
                read_at = now
                self.read(self.epoll.poll(0))
            due = min((queue[0].due for queue in (self.first, self.later) if queue), default=now + 0.1)
            if due <= now:
                self.emit(self.first, now)
                self.emit(self.later, now)
                continue
            if select.select([self.epoll.fileno()], (), (), min(due - now, 0.1))[0]:
                self.read(self.epoll.poll(0))

    def read(self, events: list[tuple[int, int]]) -> None:
        taken = []
        for fd, _ in events:
            if fd == self.listener.fileno():
                self.accept()
                continue
            connection = self.connections[fd]
            try:
                data = connection.socket.recv(1 << 20)
            except OSError:
                data = b""
            taken.append((connection, data, time.monotonic()))
        for connection, data, at in taken:
            if data:
                connection.waiting += data
                self.take(connection, at)
            else:
                self.close(connection)

    def accept(self) -> None:
        while True:
            try:
                accepted, _ = self.listener.accept()
            except BlockingIOError:
                return
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections[accepted.fileno()] = Connection(accepted)
            self.epoll.register(accepted.fileno(), select.EPOLLIN)

    def close(self, connection: Connection) -> None:
        connection.open = False
        self.connections.pop(connection.socket.fileno(), None)
        connection.socket.close()

    def send(self, connection: Connection, data: bytes) -> None:
        if not connection.open:
            return
        # a token never waits for its reader; what is long does
        waits = self.hurry or len(data) > _LONG_BYTES
        try:
            if waits:
                connection.socket.setblocking(True)
            connection.socket.sendall(data)
            if waits:
                connection.socket.setblocking(False)
        except OSError:
            self.close(connection)

    def take(self, connection: Connection, at: float) -> None:
        head, blank, rest = connection.waiting.partition(b"\r\n\r\n")
        if not blank:
            return
        lines = head.decode("latin-1").split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        length = int(fields.get("content-length", "0"))
        if len(rest) < length:
            return
        connection.waiting = rest[length:]
        path = lines[0].split(" ")[1]
        if path in ("/v1/chat/completions", "/v1/completions"):
            self.begin(connection, json.loads(rest[:length]), "chat" in path, at)
            return
        body = json.dumps(self.told(path, rest[:length])).encode()
        head_text = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        self.send(connection, head_text.encode() + body)

    def told(self, path: str, body: bytes) -> object:
        if path == "/v1/models":
            card = {"id": "m", "object": "model", "owned_by": "vllm", "max_model_len": 1 << 20}
            return {"object": "list", "data": [card]}
        if path == "/stamps":
            stamps, self.stamps = self.stamps, []
            return stamps
        if path == "/tokenize":
            return {"count": _words(json.loads(body)), "max_model_len": 1 << 20}
        return {"version": "0.32.0"}

    def begin(self, connection: Connection, body: dict, chat: bool, at: float) -> None:
        asked = int(body.get("max_completion_tokens") or body.get("max_tokens") or 16)
        usage = bool((body.get("stream_options") or {}).get("include_usage"))
        answer = Answer(connection, chat, asked, _words(body), usage, at, at + self.ttft_s)
        if self.hurry:
            pieces = [_HEAD, *[self.pieces[chat]] * (asked // self.at_once), self.ending(answer)]
            self.send(connection, b"".join(pieces))
            return
        if not body.get("stream"):
            text = " word" * asked
            said = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
            whole = {"choices": [{"index": 0, "finish_reason": "length", **said}], "usage": self.counts(answer)}
            raw = json.dumps(whole).encode()
            self.send(connection, b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(raw), raw))
            return
        self.send(connection, _HEAD)
        self.first.append(answer)

    def emit(self, queue: "deque[Answer]", now: float) -> None:
        while queue and queue[0].due <= now:
            answer = queue.popleft()
            piece = self.pieces[answer.chat]
            if not answer.sent and answer.chat:
                piece = _chunk(_ROLE) + piece
            answer.sent += [time.monotonic()] * min(self.at_once, answer.tokens - len(answer.sent))
            if len(answer.sent) >= answer.tokens:
                self.send(answer.connection, piece + self.ending(answer))
                self.stamps.append((answer.read_at, answer.sent))
            else:
                self.send(answer.connection, piece)
                answer.due += self.itl_s if len(answer.sent) > self.at_once else now - answer.due + self.itl_s
                if answer.connection.open:
                    self.later.append(answer)

    def counts(self, answer: Answer) -> dict[str, int]:
        return {
            "prompt_tokens": answer.prompt_tokens,
            "completion_tokens": answer.tokens,
            "total_tokens": answer.prompt_tokens + answer.tokens,
        }

    def ending(self, answer: Answer) -> bytes:
        part = '"delta":{"content":""}' if answer.chat else '"text":""'
        pieces = [_chunk(_event(f'{{"index":0,{part},"logprobs":null,"finish_reason":"length"}}'))]
        if answer.usage:
            pieces.append(_chunk(_event("", f',"usage":{json.dumps(self.counts(answer))}')))
        return b"".join([*pieces, _chunk(b"data: [DONE]\n\n"), b"0\r\n\r\n"])


def _words(body: dict) -> int:
    """As many tokens as words, and five for the chat's frame."""
    if "messages" in body:
        return 5 + sum(len(str(message.get("content", "")).split()) for message in body["messages"])
    prompt = body.get("prompt", "")
    return len(prompt.split()) if isinstance(prompt, str) else len(prompt)


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--port", type=int, default=0)
    words.add_argument("--ttft-ms", type=float, default=50)
    words.add_argument("--itl-ms", type=float, default=20)
    words.add_argument("--at-once", type=int, default=1)
    words.add_argument("--hurry", action="store_true")
    given = words.parse_args()
    server = Server(given.port, given.ttft_ms / 1000, given.itl_ms / 1000, given.at_once, given.hurry)
    sys.stdout.write(f"{server.port}\n")
    sys.stdout.flush()
    server.run()


if __name__ == "__main__":
    main()
