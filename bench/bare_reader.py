"""The floor under any client that reads each token when it comes: epoll, recv and a clock, and no byte is looked at
once an answer has begun. For bench/client.py; speaks to scheduled_server.py alone.

    python bench/bare_reader.py --port 8123 --streams 500 --requests 1000 --output-tokens 256
"""

import argparse
import json
import select
import socket
import statistics
import sys
import time
from itertools import pairwise

_END = b"data: [DONE]\n\n\r\n0\r\n\r\n"
_READ_BYTES = 65536


def request(output_tokens: int) -> bytes:
    body = json.dumps({
        "model": "m", "messages": [{"role": "user", "content": "Hi."}], "max_tokens": output_tokens, "stream": True,
        "stream_options": {"include_usage": True},
    }).encode()  # fmt: skip
    return b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


def read_all(port: int, streams: int, requests: int, output_tokens: int) -> tuple[list[float], list[float]]:
    """Milliseconds to each first token, and between the reads that followed it."""
    asked, clock, epoll = request(output_tokens), time.monotonic, select.epoll()
    open_: dict[int, tuple[socket.socket, list[float]]] = {}
    ttfts: list[float] = []
    pauses: list[float] = []
    left = requests
    for _ in range(min(streams, requests)):
        connection = socket.create_connection(("127.0.0.1", port))
        open_[connection.fileno()] = (connection, [])
        epoll.register(connection.fileno(), select.EPOLLIN)
    for connection, times in open_.values():
        times.append(clock())
        connection.send(asked)
        left -= 1
    while open_:
        for fd, _ in epoll.poll():
            connection, times = open_[fd]
            data = connection.recv(_READ_BYTES)
            now = clock()
            if len(times) > 1 or b'"content":" ' in data:
                times.append(now)
            if not data.endswith(_END):
                continue
            ttfts.append((times[1] - times[0]) * 1000)
            # the last read may be of the end alone
            pauses += [(later - earlier) * 1000 for earlier, later in pairwise(times[1 : output_tokens + 1])]
            if left > 0:
                left -= 1
                open_[fd] = (connection, [clock()])
                connection.send(asked)
            else:
                epoll.unregister(fd)
                open_.pop(fd)[0].close()
    return ttfts, pauses


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("port", "streams", "requests", "output-tokens"):
        words.add_argument(f"--{name}", type=int, required=True)
    given = words.parse_args()
    ttfts, pauses = read_all(given.port, given.streams, given.requests, given.output_tokens)
    both = {name: statistics.quantiles(of, n=20, method="inclusive") for name, of in (("ttft", ttfts), ("itl", pauses))}
    sys.stdout.write(json.dumps({name: [found[9], found[18]] for name, found in both.items()}) + "\n")


if __name__ == "__main__":
    main()
