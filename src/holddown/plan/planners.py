"""One planner per kind of engine: how a build of it would run a checkpoint. A new engine is a row in PLANNERS."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from holddown.base.finding import Finding
from holddown.facts.machine import Gpu
from holddown.facts.model import CheckpointFormat, ModelFacts
from holddown.plan.build import Build
from holddown.plan.fit import Fit
from holddown.plan.llamacpp import llamacpp_build
from holddown.plan.plan import Rejected, Setting
from holddown.plan.sglang import sglang_build
from holddown.plan.site import Site
from holddown.plan.wishes import Candidate, Wishes
from holddown.tables.load import engine_table


class Planner(Protocol):
    """One build asked about one checkpoint on one site."""

    def on_cpu(self) -> Fit | tuple[Rejected, ...]: ...

    def on_gpus(self, gpus: tuple[Gpu, ...]) -> Fit | tuple[Rejected, ...]:
        """The best way to use some of them, or what stands against each."""

    def settings(self, fit: Fit) -> tuple[Setting, ...]:
        """Every setting that follows from the fit, the user's in place of ours."""

    def findings(self, settings: Sequence[Setting], fit: Fit) -> tuple[Finding, ...]:
        """What the user's settings contradict, and what else is worth knowing before the launch."""


@dataclass(frozen=True, slots=True)
class Kind:
    """home: the format that engines of this kind were made for."""

    planner: Callable[[ModelFacts, Site, Candidate, Wishes], Planner]
    home: CheckpointFormat


PLANNERS: dict[str, Kind] = {
    "vllm": Kind(Build, CheckpointFormat.SAFETENSORS),
    "sglang": Kind(sglang_build, CheckpointFormat.SAFETENSORS),
    "llamacpp": Kind(llamacpp_build, CheckpointFormat.GGUF),
}
"""In the order in which they are preferred where several run a checkpoint equally well."""


def planner(model: ModelFacts, site: Site, candidate: Candidate, wishes: Wishes) -> Planner:
    """Raises: KeyError for a kind that no registry entry of ours can have."""
    return PLANNERS[candidate.engine.kind].planner(model, site, candidate, wishes)


def preference(kind: str, format: CheckpointFormat) -> tuple[bool, int]:
    """Larger is preferred: an engine whose own format this is comes first, then the order of PLANNERS."""
    return PLANNERS[kind].home is format, -list(PLANNERS).index(kind)


def recipe_for(format: CheckpointFormat) -> str:
    """What to install for a checkpoint of this format where no engine is here."""
    kind = next(kind for kind, each in PLANNERS.items() if each.home is format)
    return engine_table(kind).recipes[0].name
