"""What `prepare` looks at: a checkpoint and a machine, as a test says."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from fakes.facts import machine, model
from holddown.base.evidence import Fact, Unknown
from holddown.facts.machine import Disk, MachineFacts, ProcessFacts
from holddown.facts.model import Inspection


@dataclass
class FakeCheckpoints:
    """Port `Checkpoints`: the same one at every path."""

    inspection: Inspection = field(default_factory=lambda: Inspection(model(), ()))

    def inspect(self, path: str) -> Inspection:
        return self.inspection


@dataclass
class FakeGround:
    """Port `Host`: a machine with much room. held: port -> who listens there."""

    machine: MachineFacts = field(default_factory=machine)
    held: dict[int, str] = field(default_factory=dict)

    def facts(self, paths: Sequence[str] = ()) -> MachineFacts:
        return self.machine

    def processes(self) -> tuple[ProcessFacts, ...]:
        return ()

    def process(self, pid: int) -> ProcessFacts | None:
        return None

    def disk(self, path: str) -> Disk:
        return Disk(path, "/", "ext4", 10**12, 10**12)

    def port_holder(self, host: str, port: int) -> str | None:
        return self.held.get(port)

    def gpu_loads(self, indices: Sequence[int]) -> tuple[int | None, ...]:
        return (None,) * len(indices)

    def energy_joules(self, gpus: Sequence[int]) -> Fact[float]:
        return Unknown("a fake")

    def oom_kills(self) -> int:
        return 0
