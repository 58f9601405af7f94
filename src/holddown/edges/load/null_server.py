"""`python -m holddown.edges.load.null_server`: answers every request with one canned stream, an event a
millisecond. What the load client needs for it is its own. It says its port, and ends when its stdin is closed."""

import selectors
import socket
import sys

_TOKENS = 256
_PAUSE_S = 0.001
"""So that the client finds one event a read, as it does where tokens are computed."""


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _event(choices: bytes, usage: bytes = b"null") -> bytes:
    head = b'{"id":"chatcmpl-0","object":"chat.completion.chunk","created":1,"model":"m",'
    return _chunk(b'data: %s"choices":[%s],"usage":%s}\n\n' % (head, choices, usage))


_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_TOKEN = _event(b'{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}')
_LAST = _event(b'{"index":0,"delta":{},"finish_reason":"length"}') + _event(
    b"", b'{"prompt_tokens":16,"completion_tokens":%d}' % _TOKENS
)
_END = _LAST + _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    left: dict[socket.socket, int] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        selector.register(sys.stdin, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select(_PAUSE_S if left else None):
                if key.fileobj is sys.stdin:
                    return
                if key.fileobj is listener:
                    accepted, _ = listener.accept()
                    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    selector.register(accepted, selectors.EVENT_READ)
                elif isinstance(key.fileobj, socket.socket):
                    _take(selector, key.fileobj, left)
            for connection in list(left):
                _send(connection, left)


def _take(selector: selectors.BaseSelector, connection: socket.socket, left: dict[socket.socket, int]) -> None:
    """A request, of which no more is looked at than that it ends: bodies of a calibration are one packet."""
    try:
        data = connection.recv(65536)
    except OSError:
        data = b""
    if not data:
        left.pop(connection, None)
        selector.unregister(connection)
        connection.close()
    elif data.endswith(b"}"):
        left[connection] = _TOKENS


def _send(connection: socket.socket, left: dict[socket.socket, int]) -> None:
    count = left[connection]
    try:
        connection.sendall((_HEAD if count == _TOKENS else b"") + _TOKEN + (_END if count == 1 else b""))
    except OSError:
        count = 1
    left[connection] = count - 1
    if count == 1:
        del left[connection]


if __name__ == "__main__":
    main()
