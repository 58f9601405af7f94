"""The doors between the pure core and the world. Real ones: `edges/`, chosen in `wiring.py`; fakes: `tests/fakes/`."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from holddown.facts.answers import Ask, Reply
from holddown.facts.engine import Engine, EngineFacts
from holddown.facts.machine import Disk, MachineFacts, ProcessFacts
from holddown.facts.model import Inspection

Progress = Callable[[str], None]
"""Takes one line about what a long step is doing."""


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch: for records."""

    def monotonic(self) -> float:
        """Seconds that never jump: for durations."""

    def sleep(self, seconds: float) -> None: ...


class Host(Protocol):
    """This machine. Every call asks anew."""

    def facts(self, paths: Sequence[str] = ()) -> MachineFacts:
        """paths: whose file systems belong among the disks. Raises: MachineError."""

    def processes(self) -> tuple[ProcessFacts, ...]: ...

    def process(self, pid: int) -> ProcessFacts | None: ...

    def disk(self, path: str) -> Disk: ...

    def port_holder(self, host: str, port: int) -> str | None:
        """Who listens where a bind to (host, port) would fail, as text for a person; None when it is free."""

    def path_exists(self, path: str) -> bool: ...


class Checkpoints(Protocol):
    def inspect(self, path: str) -> Inspection:
        """Reads headers only. Raises: CheckpointError when there is no checkpoint to speak of."""


class Engines(Protocol):
    """The registered engine environments."""

    def all(self) -> tuple[Engine, ...]:
        """Newest version last within a name."""

    def install(self, name: str, version: str | None, progress: Progress) -> Engine:
        """A venv of its own. Idempotent: an environment that is complete is returned as it is. Raises: EngineError."""

    def add(self, name: str | None, python: str, pythonpath: str) -> Engine:
        """Registers an environment that exists. Raises: EngineError when no engine is found in it."""

    def remove(self, ref: str) -> Engine:
        """Forgets it; deletes the folder only of an environment that holddown made. Raises: EngineError."""


class EngineProbe(Protocol):
    def facts(self, engine: Engine, progress: Progress) -> EngineFacts:
        """Asks the installation, or the cache when its fingerprint is unchanged. Raises: EngineError."""


class Client(Protocol):
    """An OpenAI-compatible endpoint. Failures of the endpoint are values (`Refusal`)."""

    def healthy(self) -> bool:
        """GET /health answered 200."""

    def ask(self, ask: Ask) -> Reply: ...

    def stream(self, ask: Ask) -> Reply:
        """The same as a stream, with the arrival time of every delta, and `usage` asked for."""

    def prompt_tokens(self, ask: Ask) -> int | None:
        """How many tokens the engine's own tokenizer makes of this prompt; None where it has no such endpoint."""


class Lines(Protocol):
    """A log that grows and rotates."""

    def new(self) -> Iterator[str]:
        """Complete lines since the last call, without their line ends; `\\r` redraws count as lines."""
