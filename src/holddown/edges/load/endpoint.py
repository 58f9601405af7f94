"""Where requests go, and the bytes of one."""

import json
import socket
import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

from holddown.measure.drive import Drive, Shot

_CONNECT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """address: of the one of the host's addresses that takes connections. context: None for plain HTTP."""

    family: socket.AddressFamily
    address: tuple[object, ...]
    name: str
    context: ssl.SSLContext | None
    head: bytes
    path: str


def endpoint(base_url: str, api_key: str, *, chat: bool) -> Endpoint:
    """Raises: OSError where none of its addresses takes a connection."""
    parts = urlsplit(base_url)
    secure = parts.scheme == "https"
    name = parts.hostname or ""
    with socket.create_connection((name, parts.port or (443 if secure else 80)), _CONNECT_SECONDS) as tried:
        family, address = tried.family, tried.getpeername()
    path = f"{parts.path.rstrip('/')}/v1/{'chat/completions' if chat else 'completions'}"
    fields = [
        f"POST {path} HTTP/1.1",
        f"Host: {parts.netloc.rpartition('@')[2]}",
        "Accept: text/event-stream",
        "Content-Type: application/json",
        *([f"Authorization: Bearer {api_key}"] if api_key else []),
        "Content-Length: ",
    ]
    context = ssl.create_default_context() if secure else None
    return Endpoint(family, address, name, context, "\r\n".join(fields).encode(), path)


def request_bytes(to: Endpoint, drive: Drive, shot: Shot) -> bytes:
    text = drive.text(shot)
    body: dict[str, object] = {"model": drive.model, "max_tokens": shot.output_tokens, "temperature": 0}
    if drive.ignore_eos:
        body["ignore_eos"] = True
    body |= {"stream": True, "stream_options": {"include_usage": True}}
    if drive.language.chat:
        body["messages"] = [{"role": "user", "content": text}]
    else:
        body["prompt"] = text
    data = json.dumps(body, separators=(",", ":")).encode()
    return b"%s%d\r\n\r\n%s" % (to.head, len(data), data)
