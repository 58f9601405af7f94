"""Whose code may run: the user's decision, remembered by what the files hold and not by what they are called."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from holddown.facts.model import CodeFile, ModelFacts
from holddown.plan.wishes import Consent


@dataclass(frozen=True, slots=True)
class TrustedCode:
    """What the user said yes to. path: of the checkpoint then. at: seconds since the epoch."""

    path: str
    files: tuple[CodeFile, ...]
    at: float


def consent(model: ModelFacts, trusted: Iterable[TrustedCode]) -> Consent:
    """What was decided about this checkpoint's code before: the same files anywhere, or others at this path.

    A file that is named and not here has no hash, so nothing can be remembered of it.
    """
    if not model.remote_code or not all(file.sha256 for file in model.remote_code):
        return Consent()
    changed: tuple[str, ...] = ()
    for one in trusted:
        if one.files == model.remote_code:
            day = datetime.fromtimestamp(one.at, UTC).strftime("%Y-%m-%d")
            count = len(one.files)
            return Consent(f"you trusted {'this file' if count == 1 else f'these {count} files'} on {day}: same sha256")
        if one.path == model.path:
            changed = tuple(file.name for file in model.remote_code if file not in one.files)
    return Consent("", changed)
