"""What an able model says: it calls tools, fits schemas, reads long prompts, sees colours, thinks. And lies about each.

Where `FAKE_LIES=by-name`, a model that is called by a lie's name tells that lie, and one called `thinks` reasons.
"""

import base64
import json
import re
import struct
import zlib
from dataclasses import dataclass
from typing import Any

LIES = (
    "usage-off-by-one",
    "seed-ignored",
    "n-ignored",
    "logprobs-shifted",
    "schema-ignored",
    "tool-as-text",
    "broken-arguments",
    "tool-choice-ignored",
    "merged-calls",
    "tool-deltas-differ",
    "crowd-mixes",
    "reasoning-in-content",
    "thinking-given-out",
    "budget-ignored",
    "budget-no-answer",
    "budget-leaks",
    "blind",
    "no-prefix-cache",
    "cuts-silently",
    "needle-lost",
    "degenerates",
    "cancel-holds",
    "500-on-malformed",
    "dies-at-malformed",
    "thinks-otherwise",
)
THINKING = (
    "thinks",
    "reasoning-in-content",
    "thinking-given-out",
    "budget-ignored",
    "budget-no-answer",
    "budget-leaks",
)
_CITY = re.compile(r"\b(?!What|Use|Call)([A-Z][a-z]+)\b")
_SECRET = re.compile(r"secret number of the green door is (\d+)")
_BLOCK = 16


@dataclass(frozen=True, slots=True)
class Said:
    """calls: (name, arguments as JSON text). reasoning and text as given out; None for the text is a model's own."""

    text: str | None = None
    reasoning: str = ""
    calls: tuple[tuple[str, str], ...] = ()


def said(body: dict[str, Any], prompt: str, lie: str) -> Said:
    """To a chat."""
    turns = body.get("messages") or [{}]
    last = turns[-1]
    asked = last.get("content")
    if body.get("tools") and last.get("role") == "user":
        called = _called(body, str(asked), lie)
        if called is not None:
            return called
    if last.get("role") == "tool":
        return Said(f"It is {json.loads(asked)['temperature']} degrees there now.")
    if "response_format" in body and lie != "schema-ignored":
        return Said(json.dumps(_fitting(body["response_format"]["json_schema"]["schema"])))
    if isinstance(asked, list):
        return Said("Red." if lie == "blind" else _colour(asked))
    if "secret number of the green door?" in prompt:
        return Said(_found(prompt, lie))
    if lie in THINKING and "9.8" in prompt:
        return _thought(lie, body.get("thinking_token_budget"))
    return Said()


def _called(body: dict[str, Any], asked: str, lie: str) -> Said | None:
    choice = body.get("tool_choice") or "auto"
    names = [tool["function"]["name"] for tool in body["tools"]]
    if lie == "tool-choice-ignored" and choice != "auto":
        choice = "none" if choice == "required" else "required"
    if choice == "none":
        return None
    if isinstance(choice, dict):
        name = choice["function"]["name"]
    elif choice == "required" or "weather" in asked:
        name = names[0]
    else:
        return None
    cities = _CITY.findall(asked.replace("Say hello", "")) or ["Paris"]
    if lie == "crowd-mixes" and cities[0] not in ("Paris", "Tokyo", "Cairo"):
        cities = ["Elsewhere"]
    several = len(cities) > 1 and "each" in asked
    arguments = [_arguments(name, city) for city in (cities if several else cities[:1])]
    if lie == "tool-as-text" and choice == "auto":
        return Said(
            "\n".join(f'<tool_call>\n{{"name": "{name}", "arguments": {one}}}\n</tool_call>' for one in arguments)
        )
    if lie == "broken-arguments" and choice == "auto":
        arguments = [one[:-9] for one in arguments]
    if lie == "merged-calls":
        arguments = ["".join(arguments)]
    return Said("", calls=tuple((name, one) for one in arguments))


def _arguments(name: str, city: str) -> str:
    return json.dumps({"city": city, "unit": "celsius"} if name == "get_weather" else {"city": city})


def _fitting(schema: dict[str, Any]) -> object:
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            return {name: _fitting(each) for name, each in schema["properties"].items()}
        case "integer":
            return schema.get("minimum", 1)
        case "boolean":
            return True
        case _:
            return "word"


def _colour(parts: list[dict[str, Any]]) -> str:
    """Of the first pixel of a PNG."""
    url = next(part["image_url"]["url"] for part in parts if part["type"] == "image_url")
    data = base64.b64decode(url.partition("base64,")[2])
    at = data.index(b"IDAT")
    pixels = zlib.decompress(data[at + 4 : at + 4 + struct.unpack(">I", data[at - 4 : at])[0]])
    red, green, blue = pixels[1:4]
    return "Red." if red > max(green, blue) else "Blue." if blue > green else "Green."


def _found(prompt: str, lie: str) -> str:
    read = prompt if lie != "needle-lost" or len(prompt) < 2000 else prompt[:600] + prompt[-600:]
    found = _SECRET.search(read)
    return f"The secret number is {found[1]}." if found else "The text does not say it."


def _thought(lie: str, budget: int | None) -> Said:
    thought = (
        "Compare the parts after the point: eight tenths are more than eleven hundredths, and so 9.8 is larger. " * 6
    )
    answer = "9.8 is larger than 9.11."
    if lie == "reasoning-in-content":
        return Said(f"<think>{thought}</think> {answer}")
    if budget is None or lie == "budget-ignored":
        return Said(answer, thought)
    pieces = re.findall(r"\S+\s+", thought)
    kept, rest = "".join(pieces[:budget]), "".join(pieces[budget:])
    if lie == "budget-leaks":
        answer = f"{rest}</think> {answer}"
    return Said("" if lie == "budget-no-answer" else answer, kept)


def shared_blocks(prompt: list[str], earlier: list[list[str]]) -> int:
    """How many of its tokens a cache of whole blocks has."""
    best = 0
    for other in earlier:
        same = next(
            (i for i, (a, b) in enumerate(zip(prompt, other, strict=False)) if a != b), min(len(prompt), len(other))
        )
        best = max(best, same)
    return best // _BLOCK * _BLOCK
