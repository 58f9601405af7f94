"""One adapter per engine: Plan -> argv and environment, log line -> phase. A new engine is a row in ADAPTERS."""

from typing import Protocol

from holddown.base.finding import Finding
from holddown.facts.engine import Engine, EngineFacts
from holddown.launch.engines import llamacpp, sglang, vllm
from holddown.launch.phases import PhaseSeen
from holddown.launch.spec import Binding, LaunchSpec
from holddown.plan.plan import Plan


class Adapter(Protocol):
    """What a module of this folder gives."""

    def command(self, plan: Plan, engine: Engine, facts: EngineFacts, binding: Binding) -> LaunchSpec: ...

    def unknown_flags(self, plan: Plan, facts: EngineFacts) -> tuple[Finding, ...]: ...

    def owned(self, name: str) -> str: ...

    def phase(self, line: str) -> PhaseSeen | None: ...


ADAPTERS: dict[str, Adapter] = {"vllm": vllm, "sglang": sglang, "llamacpp": llamacpp}


def adapter(kind: str) -> Adapter:
    """Raises: KeyError for a kind that no registry entry of ours can have."""
    return ADAPTERS[kind]
