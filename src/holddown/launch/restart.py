"""Whether an engine that failed is started again, after which pause, and when no more."""

from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum

FAILURES = 3
"""So many in a row, and it stays down."""
SERVED_S = 600.0
"""Released for so long at a stretch, what failed before counts no more. Not three failures in ten minutes of the clock:
a model of 540 GB takes ten minutes to load, and its failures would never come together."""
LONGEST_PAUSE_S = 300.0


class Restart(StrEnum):
    """A deployment's policy. It holds once it was released: a first start that fails is told to who asked for it."""

    NEVER = "never"
    ON_FAILURE = "on-failure"


def pause_s(first_s: float, before: int) -> float:
    """5, 10, 20 s and so on, at most five minutes. before: how many pauses there were already."""
    return float(min(first_s * 2 ** min(before, 20), LONGEST_PAUSE_S))


# --- the starts of one deployment write one log ----------------------------------------------------------------------

MARK = "--- holddown: "


def mark(name: str, number: int, at: float) -> str:
    """The line that stands between the log of one start and of the next. number: of the start, from 1."""
    return f"{MARK}start {number} of {name}, {datetime.fromtimestamp(at, UTC).strftime('%Y-%m-%d %H:%M:%S UTC')} ---"


def of_last_start(lines: Sequence[str]) -> Sequence[str]:
    """What the engine that was started last has written of these."""
    marks = [number for number, line in enumerate(lines, 1) if line.startswith(MARK)]
    return lines[marks[-1] :] if marks else lines
