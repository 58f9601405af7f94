"""What the user asked for, and the builds it can be asked of."""

import re
from dataclasses import dataclass, replace

from holddown.facts.engine import Engine, EngineFacts
from holddown.facts.workload import CHAT, Workload


@dataclass(frozen=True, slots=True)
class Consent:
    """To running the checkpoint's own Python code. because: how it was given, empty where it was not. changed: files
    that differ from those it was once given for."""

    because: str = ""
    changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Edit:
    """A setting that a start which failed has taught. because: what it failed of. where: which start that was."""

    name: str
    value: str
    because: str
    where: str


@dataclass(frozen=True, slots=True)
class Wishes:
    """served_model_name: what clients will call it. engine: `NAME` or `NAME@VERSION`, empty for any.

    gpus: indices the user named, None for any that is free. settings: `--set`, in order, names without dashes.
    workload: what will be asked of it; decides between plans that fit. any_architecture: plan also for a build that
    has no code for the model, and say so. edits: whose values stand in settings too.
    """

    served_model_name: str
    engine: str = ""
    gpus: tuple[int, ...] | None = None
    settings: tuple[tuple[str, str], ...] = ()
    workload: Workload = CHAT
    consent: Consent = Consent()
    any_architecture: bool = False
    edits: tuple[Edit, ...] = ()

    def edited(self, edits: tuple[Edit, ...]) -> "Wishes":
        """With these too: the last word on a setting counts."""
        values = tuple((each.name, each.value) for each in edits)
        return replace(self, settings=(*self.settings, *values), edits=(*self.edits, *edits))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A registered build with what it says of itself."""

    engine: Engine
    facts: EngineFacts


def wished(wishes: Wishes, name: str) -> str:
    """The value of `--set NAME=VALUE`, the last one where it was given twice; empty when it was not given."""
    return dict(wishes.settings).get(name, "")


def wished_number(wishes: Wishes, name: str) -> int:
    """`--set NAME=N`, 0 when it was not given or is no number."""
    return number_in(wished(wishes, name)) or 0


def offloaded_bytes(wishes: Wishes) -> int:
    """Of each GPU's weights, kept in RAM: `--set cpu-offload-gb=N`, in GiB as vLLM takes it."""
    return int(float(wished_number(wishes, "cpu-offload-gb")) * 2**30)


_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([kmgtKMGT]?)")
_FACTORS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def number_in(text: str) -> int | None:
    """`131072`, `128K` (of 1024), `128k` (of 1000), `1.5M`; None for what is no number.

    Source: vLLM engine/arg_utils.py human_readable_int.
    """
    match = _NUMBER.fullmatch(text)
    return int(float(match[1]) * _FACTORS[match[2]]) if match else None


def fraction_in(text: str) -> float | None:
    """A share above 0 and not above 1; None for what is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value <= 1 else None
