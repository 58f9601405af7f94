"""Whether a value is what an option takes, by the types of the engine's own parser."""

import json
import re

from holddown.facts.engine import Flag, Takes

_SIZE = re.compile(r"-?\d+(?:\.\d+)?[kmgtKMGT]?i?[bB]?|auto", re.IGNORECASE)
"""Source: vLLM 0.32.0 utils/argparse_utils.py human_readable_int_or_auto; SGLang takes the like."""
_NOTHING = ("None", "none")


def fits(flag: Flag, text: str) -> bool:
    """Also where nothing is known of what it takes."""
    if flag.choices:
        # a function of the engine's own reads it: vLLM's `--moe-backend Flashinfer-Cutlass`
        alike = text.lower().replace("-", "_") if flag.takes is Takes.UNKNOWN else text
        return text in flag.choices or alike in flag.choices
    if text in _NOTHING:
        return True
    match flag.takes:
        case Takes.INTEGER:
            return _parsed(int, text)
        case Takes.SIZE:
            return _SIZE.fullmatch(text) is not None
        case Takes.NUMBER:
            return _parsed(float, text)
        case Takes.JSON:
            return _parsed(json.loads, text)
        case Takes.NOTHING | Takes.TEXT | Takes.UNKNOWN:
            return True


def wanted_text(flag: Flag) -> str:
    """What it takes, for a person."""
    if flag.choices:
        return f"one of {', '.join(flag.choices[:8])}"
    match flag.takes:
        case Takes.INTEGER:
            return "a whole number"
        case Takes.SIZE:
            return "a whole number, `8k` or `auto`"
        case Takes.NUMBER:
            return "a number"
        case Takes.JSON:
            return "JSON"
        case Takes.NOTHING:
            return "nothing"
        case Takes.TEXT | Takes.UNKNOWN:
            return "a text"


def _parsed(parse: object, text: str) -> bool:
    assert callable(parse)
    try:
        parse(text)
    except (ValueError, RecursionError):
        return False
    return True
