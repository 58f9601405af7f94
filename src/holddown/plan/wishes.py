"""What the user asked for, and the builds it can be asked of."""

from dataclasses import dataclass

from holddown.facts.engine import Engine, EngineFacts
from holddown.facts.workload import CHAT, Workload


@dataclass(frozen=True, slots=True)
class Consent:
    """To running the checkpoint's own Python code. because: how it was given, empty where it was not. changed: files
    that differ from those it was once given for."""

    because: str = ""
    changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Wishes:
    """served_model_name: what clients will call it. engine: `NAME` or `NAME@VERSION`, empty for any.

    gpus: indices the user named, None for any that is free. settings: `--set`, in order, names without dashes.
    workload: what will be asked of it; decides between plans that fit.
    """

    served_model_name: str
    engine: str = ""
    gpus: tuple[int, ...] | None = None
    settings: tuple[tuple[str, str], ...] = ()
    workload: Workload = CHAT
    consent: Consent = Consent()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A registered build with what it says of itself."""

    engine: Engine
    facts: EngineFacts


def wished(wishes: Wishes, name: str) -> str:
    """The value of `--set NAME=VALUE`, the last one where it was given twice; empty when it was not given."""
    return dict(wishes.settings).get(name, "")


def wished_number(wishes: Wishes, name: str) -> int:
    """`--set NAME=N`, 0 when it was not given or is no number (vLLM also takes `8k` and `auto`)."""
    text = wished(wishes, name)
    return int(text) if text.isdecimal() else 0
