"""What the user asked for, and the builds it can be asked of."""

from dataclasses import dataclass

from holddown.facts.engine import Engine, EngineFacts


@dataclass(frozen=True, slots=True)
class Wishes:
    """served_model_name: what clients will call it. engine: `NAME` or `NAME@VERSION`, empty for any.

    gpus: indices the user named, None for any that is free. settings: `--set`, in order, names without dashes.
    """

    served_model_name: str
    engine: str = ""
    gpus: tuple[int, ...] | None = None
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A registered build with what it says of itself."""

    engine: Engine
    facts: EngineFacts
