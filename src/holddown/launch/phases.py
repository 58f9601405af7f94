"""What an engine does between its start and its first answer, in its order."""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from holddown.tables.load import engine_table


class Phase(StrEnum):
    """Not every engine has each: an eager CPU build compiles nothing and captures no graphs."""

    PROCESS = "process"
    CONFIG = "config"
    WEIGHTS = "weights"
    COMPILE = "compile"
    PROFILE = "profile"
    KV_CACHE = "kv-cache"
    GRAPHS = "graphs"
    SERVER = "server"


@dataclass(frozen=True, slots=True)
class PhaseSeen:
    """One log line says that the engine is in `phase`. done of total: shards, graphs; 0 of 0 where it does not count.

    detail: the figures that line gave, as text (`Model loading took 0.25 GiB`), or empty.
    """

    phase: Phase
    done: int = 0
    total: int = 0
    detail: str = ""


def phase_in(kind: str, message: str) -> PhaseSeen | None:
    """What one log message of this kind of engine says about where the start is, by the rows of its table; None for one
    that says nothing about it. message: without the time and the process that stand before it."""
    for found, pattern in _lines(kind):
        if match := pattern.search(message.strip()):
            groups = match.groupdict()
            done, total = int(groups.get("done") or 0), int(groups.get("total") or 0)
            return PhaseSeen(found, done, total, (groups.get("detail") or "").strip())
    return None


@cache
def _lines(kind: str) -> tuple[tuple[Phase, re.Pattern[str]], ...]:
    return tuple((Phase(row.phase), re.compile(row.fragment)) for row in engine_table(kind).phases)
