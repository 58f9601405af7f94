"""What happens to a deployment, for the table of its states."""

from dataclasses import dataclass

from holddown.launch.phases import Phase


@dataclass(frozen=True, slots=True)
class Exit:
    """How an engine ended. code: its exit status, or minus the signal; None when it was not our child to wait for."""

    code: int | None

    @property
    def text(self) -> str:
        if self.code is None:
            return "ended with a status that nobody saw"  # who takes over is not its parent
        if self.code < 0:
            return f"was killed by signal {-self.code}"
        return f"exited with status {self.code}"


@dataclass(frozen=True, slots=True)
class Moved:
    """The engine did something: a log line, memory growth, disk reads, CPU time."""

    phase: Phase | None = None


@dataclass(frozen=True, slots=True)
class HealthAnswered:
    """silence: what is missing where it is not well, for a person."""

    ok: bool
    silence: str = ""


@dataclass(frozen=True, slots=True)
class VerificationEnded:
    """failed: names of the checks that failed. alive: /health still answered after them."""

    failed: tuple[str, ...]
    alive: bool = True


@dataclass(frozen=True, slots=True)
class MeasurementEnded:
    """alive: /health still answered after it."""

    alive: bool = True


@dataclass(frozen=True, slots=True)
class EngineEnded:
    exit: Exit


@dataclass(frozen=True, slots=True)
class EngineGone:
    """No process of the engine's session is left. hopeless: another start would fail as this one did."""

    hopeless: bool = False


@dataclass(frozen=True, slots=True)
class EngineStarted:
    """Once more."""


@dataclass(frozen=True, slots=True)
class StartHindered:
    """Nothing was started: somebody else has its port or its memory, say."""

    why: str


@dataclass(frozen=True, slots=True)
class StopAsked:
    by: str


@dataclass(frozen=True, slots=True)
class Hopeless:
    """It moves, and has said nothing for so much longer than it ever took that nothing is to be expected of it."""

    why: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed."""


Event = (
    Moved
    | HealthAnswered
    | VerificationEnded
    | MeasurementEnded
    | EngineEnded
    | EngineGone
    | EngineStarted
    | StartHindered
    | StopAsked
    | Hopeless
    | Tick
)
