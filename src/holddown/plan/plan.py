"""The words of a plan. Deployment terms are vLLM's; each engine's adapter translates them into its own flags."""

from dataclasses import dataclass

from holddown.base.evidence import Source
from holddown.base.finding import Finding
from holddown.plan.parallelism import Parallelism


@dataclass(frozen=True, slots=True)
class Setting:
    """One decision. name: vLLM's option name without dashes (`max-model-len`), or the engine's own where vLLM has none.

    value: as on a command line; `true` / `false` for switches. because: one sentence. alternative: what else
    could be said, empty where there is none. A user's setting has source.kind USER.
    """

    name: str
    value: str
    because: str
    source: Source
    alternative: str = ""


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """Per device (GPU, or the machine's RAM on a CPU build), in bytes."""

    capacity_bytes: int
    weights_bytes: int
    kv_cache_bytes: int
    other_bytes: int

    @property
    def free_bytes(self) -> int:
        return self.capacity_bytes - self.weights_bytes - self.kv_cache_bytes - self.other_bytes


@dataclass(frozen=True, slots=True)
class Rejected:
    """A candidate that was not taken (an engine build, a tensor parallel size), and the limit that bound it."""

    candidate: str
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What will run. engine: its ref, `name@version`. gpus: indices, empty on a CPU build.

    load_bytes: what must be read from disk before the first token; deadlines and estimates rest on it.
    """

    model_path: str
    model_digest: str
    served_model_name: str
    engine: str
    engine_kind: str
    engine_because: str
    gpus: tuple[int, ...]
    parallelism: Parallelism
    settings: tuple[Setting, ...]
    budget: MemoryBudget
    load_bytes: int
    findings: tuple[Finding, ...]
    rejected: tuple[Rejected, ...]

    def setting(self, name: str) -> Setting | None:
        return next((setting for setting in self.settings if setting.name == name), None)


@dataclass(frozen=True, slots=True)
class NoPlan:
    """Nothing that is registered here can run it; `rejected` has each candidate with the limit that bound it."""

    what: str
    rejected: tuple[Rejected, ...]
    do: str
