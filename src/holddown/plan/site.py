"""Where a model will run."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from holddown.base.evidence import Fact, Unknown
from holddown.facts.machine import MachineFacts
from holddown.plan.calibration import Calibration
from holddown.tables.gpu import FabricRow

_ASK_NVML = Unknown("it is asked of the links between the GPUs")


@dataclass(frozen=True, slots=True)
class Site:
    """claims: GPU index -> the deployment of ours that uses it. fabric: between the GPUs, where the user named it.
    here: it is this machine. calibrations: of what was measured on it."""

    machine: MachineFacts
    claims: Mapping[int, str] = field(default_factory=dict)
    fabric: Fact[FabricRow] = _ASK_NVML
    here: bool = True
    calibrations: tuple[Calibration, ...] = ()
