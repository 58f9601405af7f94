"""What a running server says of itself, whoever started it."""

from dataclasses import dataclass

from holddown.base.evidence import Fact


@dataclass(frozen=True, slots=True)
class Served:
    """models: names that it answers to, in its order. engine: as `Engine.kind`. max_model_len: tokens of context."""

    models: tuple[str, ...]
    engine: Fact[str]
    version: Fact[str]
    max_model_len: Fact[int]


@dataclass(frozen=True, slots=True)
class Subject:
    """The server that a run asked. name: as the user named it, a deployment of ours or a URL. deployment: id of ours,
    empty for anybody else's. checkpoint: digest of what it serves, where that is known. machine: its GPUs or CPU."""

    name: str
    base_url: str
    model: str
    deployment: str
    engine: Fact[str]
    version: Fact[str]
    checkpoint: Fact[str]
    machine: Fact[str]

    @property
    def key(self) -> str:
        """What its runs are found by."""
        return self.deployment or self.base_url
