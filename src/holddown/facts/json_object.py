"""JSON that somebody else wrote: an object, or one sentence about why it is none."""

import json
from typing import Any


def json_object(text: str | bytes) -> dict[str, Any]:
    """The JSON object in `text`. Raises: ValueError saying what is wrong with it, and nothing else on any input."""
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at line {error.lineno} column {error.colno}") from error
    if isinstance(value, dict):
        return value
    raise ValueError(f"it holds a JSON {type(value).__name__}, not an object")
