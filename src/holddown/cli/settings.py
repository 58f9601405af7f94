"""Words that several verbs take: `--set NAME=VALUE` and lists of GPU indices."""

import re
from collections.abc import Iterable

from holddown.base.errors import UsageError


def settings_of(texts: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """`--set` in its order; a name alone is a switch that is turned on. Raises: UsageError."""
    return tuple(_setting(text) for text in texts)


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    name = name.strip().removeprefix("--")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]*", name):
        raise UsageError(f"--set {text} names no setting", code="usage.set", do="--set max-model-len=8192")
    if not name.isupper():
        name = name.replace("_", "-")
    return name, value if equals else "true"


def gpu_indices(text: str) -> tuple[int, ...]:
    """`0,1` -> (0, 1). Raises: UsageError."""
    parts = [part.strip() for part in text.split(",")]
    indices = tuple(int(part) for part in parts if part.isdecimal())
    if len(set(indices)) != len(parts):
        raise UsageError(f"--gpus {text} is no list of GPU indices", code="usage.gpus", do="--gpus 0,1")
    return indices
