"""Which fabric the GPUs of a machine have between them: asked of NVML, or named by the user."""

import re
from collections.abc import Sequence

from holddown.base.evidence import Fact, Unknown, derived
from holddown.facts.machine import Gpu
from holddown.tables.gpu import FabricRow, GpuRow
from holddown.tables.load import fabric_row

# NVLink generation by compute capability. Source: NVIDIA's GPU architecture papers (A100 3, H100 4, B200 5);
# GA102 boards (8.6) have a bridge of the third generation.
_NVLINK = {"8.0": "nvlink3", "8.6": "nvlink3", "9.0": "nvlink4", "10.0": "nvlink5", "10.3": "nvlink5"}


def pcie_of(pcie: str) -> str:
    """`Gen5 x16` -> `pcie5`. The table knows 4 and 5: a newer generation counts as 5, an older one as 4."""
    generation = re.search(r"\d+", pcie)
    return "pcie5" if generation and int(generation.group()) >= 5 else "pcie4"


def named_fabric(name: str, gpu: GpuRow) -> FabricRow:
    """What a user calls the fabric of boxes of this GPU: `pcie-dual-socket` gets the GPU's generation, `nvlink` too.

    Raises: UsageError with near names.
    """
    family, _, rest = name.casefold().partition("-")
    if family == "pcie":
        return fabric_row("-".join(part for part in (pcie_of(gpu.pcie), rest) if part))
    if family == "nvlink" and not rest and gpu.link.startswith("nvlink"):
        return fabric_row(gpu.link)
    return fabric_row(name)


def usual_fabric(gpu: GpuRow) -> FabricRow:
    """What most boxes of this GPU have: its NVLink, or PCIe through the CPUs with NCCL as it comes."""
    return fabric_row(gpu.link)


def fabric_of(gpus: Sequence[Gpu]) -> Fact[FabricRow]:
    """The slowest kind of link among these GPUs decides: a collective waits for its slowest pair."""
    members = {gpu.index for gpu in gpus}
    kinds = {link.kind for gpu in gpus for link in gpu.links if link.peer in members}
    if not kinds:
        return Unknown("one GPU alone" if len(gpus) == 1 else "no GPU tells its links")
    if all(kind.startswith("NV") for kind in kinds):
        return _nvlink(gpus)
    pcie = next((pcie_of(gpu.pcie.value) for gpu in gpus if not isinstance(gpu.pcie, Unknown)), "pcie4")
    over_pcie = {kind for kind in kinds if not kind.startswith("NV")}
    if over_pcie <= {"PIX", "PXB"}:
        layout = "switch"
    else:
        layout = "dual-socket" if "SYS" in over_pcie else "single-socket"
    seen = ", ".join(sorted(kinds))
    return derived(fabric_row(f"{pcie}-{layout}"), f"links between the GPUs: {seen}")


def _nvlink(gpus: Sequence[Gpu]) -> Fact[FabricRow]:
    capabilities = {gpu.compute_capability.value for gpu in gpus if not isinstance(gpu.compute_capability, Unknown)}
    known = {_NVLINK[capability] for capability in capabilities if capability in _NVLINK}
    if len(known) != 1:
        return Unknown(f"no NVLink generation is known for compute capability {', '.join(sorted(capabilities)) or '?'}")
    return derived(fabric_row(known.pop()), "every pair of the GPUs has NVLink")
