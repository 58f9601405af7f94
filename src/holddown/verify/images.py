"""Pictures, where the model takes them."""

import base64
import struct
import zlib

from holddown.facts.answers import Ask, Message, Refusal
from holddown.verify.claims import Claims
from holddown.verify.script import Script, ask_all
from holddown.verify.verdicts import TEMPLATE, failed, not_applicable, passed, refusal_text, reply_text

_SIDE = 64
_COLOURS = {"red": b"\xff\x00\x00", "blue": b"\x00\x00\xff", "green": b"\x00\xa0\x00"}
_TOKENS = 256
_QUESTION = "Which colour is this picture: red, green or blue? Answer with one word."


def picture(colour: bytes) -> str:
    """A PNG of one colour, as a `data:` URL. Source: https://www.w3.org/TR/png-3/ 11.2, 11.3."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", _SIDE, _SIDE, 8, 2, 0, 0, 0)
    rows = (b"\x00" + colour * _SIDE) * _SIDE
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(png).decode()


def images(claims: Claims) -> Script:
    """A red, a blue and a green picture are told apart."""
    replies = yield from ask_all(
        tuple(
            Ask(claims.model, _TOKENS, messages=(Message("user", _QUESTION, image=picture(colour)),))
            for colour in _COLOURS.values()
        )
    )
    refusal = next((reply for reply in replies if isinstance(reply, Refusal)), None)
    if refusal is not None and claims.images is None and refusal.status:
        return not_applicable("images", f"pictures are not taken: {refusal_text(refusal)}")
    missed = [
        f"{name}: {reply_text(reply)}"
        for name, reply in zip(_COLOURS, replies, strict=True)
        if isinstance(reply, Refusal) or name not in reply.text.lower()
    ]
    if not missed:
        return passed("images", "red, blue and green told apart", _QUESTION)
    return claims.unless_small(
        failed(
            "images",
            code="images.unseen",
            what="the model does not see what is in a picture",
            seen="; ".join(missed),
            do="see in the engine's log whether the picture's tokens reach the model; compare the chat template",
            asked=_QUESTION,
            cause=TEMPLATE,
        )
    )
