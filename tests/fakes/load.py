"""A load client that answers each phase as a test says, and streams as bytes."""

from collections.abc import Callable
from dataclasses import dataclass, field

from holddown.base.evidence import Fact, from_probe
from holddown.measure.drive import Drive, Driven, Pulse
from holddown.measure.pauses import Pauses
from holddown.measure.run import ClientSide, Trace

IDLE_CLIENT = ClientSide(1, 0.05, 0.1, 0.1)


def a_trace(due_s: float = 0.0, ttft_s: float = 0.1, token_s: float = 0.02, tokens: int = 11, fault: str = "") -> Trace:
    """One request: first token after `ttft_s`, the others each `token_s`."""
    first = None if fault else due_s + ttft_s
    ended = due_s + ttft_s + (tokens - 1) * token_s
    return Trace(due_s, due_s, first, ended, 64, 0 if fault else tokens, 0 if fault else tokens, fault, first)


def steadily(drive: Drive) -> Driven:
    """Every user is served alike: 10 requests one after the other, 0.3 s each."""
    users = drive.users or 1
    count = drive.requests // users if drive.requests else 10
    traces = tuple(a_trace(number * 0.3) for _ in range(users) for number in range(count))
    return Driven(traces, count * 0.3, Pauses(100 * users, ((20.0,) * 10,) * 10), IDLE_CLIENT)


@dataclass
class FakeLoad:
    """Port `LoadClient`. says: what comes of a phase."""

    says: Callable[[Drive], Driven] = steadily
    driven: list[Drive] = field(default_factory=list)
    calibrated: float = 100_000.0

    def cores(self) -> int:
        return 4

    def capacity(self) -> Fact[float]:
        return from_probe(self.calibrated, "a fake")

    def drive(self, drive: Drive, pulse: Callable[[Pulse], None]) -> Driven:
        self.driven.append(drive)
        pulse(Pulse(1.0, 1, 1, 0, 10, 0.1))
        return self.says(drive)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":%d}}\n\n'
DONE = b"data: [DONE]\n\n"


def event(text: str, key: str = "content") -> bytes:
    said = text.replace("\\", "\\\\").replace('"', '\\"').encode()
    return b'data: {"id":"c-1","choices":[{"index":0,"delta":{"%s":"%s"},"finish_reason":null}]}\n\n' % (
        key.encode(),
        said,
    )


def finished() -> bytes:
    return b'data: {"id":"c-1","choices":[{"index":0,"delta":{},"finish_reason":"length"}]}\n\n'


def stream(*texts: str) -> bytes:
    """A whole chunked answer, one chunk per event."""
    events = [*(event(text) for text in texts), finished(), USAGE % len(texts), DONE]
    return CHUNKED + b"".join(map(chunk, events)) + b"0\r\n\r\n"
