"""Pictures."""

import zlib
from base64 import b64decode

import pytest

from fakes.claims import ABLE, SMALL, STRANGER, played
from fakes.client import FakeClient, answer
from holddown.facts.answers import Ask, Refusal, Reply
from holddown.verify.claims import Claims
from holddown.verify.images import images, picture
from holddown.verify.verdict import Outcome


def pixels(url: str) -> bytes:
    data = b64decode(url.removeprefix("data:image/png;base64,"))
    at = data.index(b"IDAT")
    return zlib.decompress(data[at + 4 : -16])


def seeing(ask: Ask) -> Reply:
    red, _, blue = pixels(ask.messages[0].image)[1:4]
    return answer("Red" if red else "BLUE." if blue else "It is green.")


def test_a_picture_is_a_png_of_one_colour() -> None:
    """64 rows of 64 pixels, each row with its filter byte."""
    assert pixels(picture(b"\x01\x02\x03")) == (b"\x00" + b"\x01\x02\x03" * 64) * 64


@pytest.mark.parametrize(
    ("says", "claims", "outcome"),
    [
        (seeing, ABLE, Outcome.PASSED),
        (lambda ask: answer("Red."), ABLE, Outcome.FAILED),
        (lambda ask: answer("Red."), STRANGER, Outcome.FAILED),
        (lambda ask: answer("Red."), SMALL, Outcome.INCONCLUSIVE),
        (lambda ask: Refusal(400, "not multimodal"), STRANGER, Outcome.NOT_APPLICABLE),
        (lambda ask: Refusal(400, "not multimodal"), ABLE, Outcome.FAILED),
        (lambda ask: Refusal(0, "connection reset"), STRANGER, Outcome.FAILED),
    ],
)
def test_three_colours_are_told_apart(says: object, claims: Claims, outcome: Outcome) -> None:
    """Refused they are a fault only where the model takes them."""
    assert played(images(claims), FakeClient(says)).outcome is outcome  # type: ignore[arg-type]
