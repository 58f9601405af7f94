"""What an engine does between its start and its first answer, in its order."""

from dataclasses import dataclass
from enum import StrEnum


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
