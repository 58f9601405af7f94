"""A machine that is only named: `8x RTX PRO 6000 Server`, from the tables."""

import re

from holddown.base.errors import UsageError
from holddown.base.evidence import Known, Source, SourceKind, Unknown
from holddown.facts.machine import Cpu, Gpu, GpuLink, MachineFacts, Memory
from holddown.tables.gpu import FabricRow, GpuRow
from holddown.tables.load import gpu_row

_COUNTED = re.compile(r"\s*(?:(?P<count>\d{1,3})\s*[x×*]\s*)?(?P<name>.*\S)\s*", re.IGNORECASE)
_MOST_GPUS = 64


def named_gpus(text: str) -> tuple[int, GpuRow]:
    """`8x H200 SXM` -> 8 and its row; a name alone is one GPU. Raises: UsageError with near names."""
    match = _COUNTED.fullmatch(text)
    count = int(match["count"] or 1) if match else 0
    if match is None or not 1 <= count <= _MOST_GPUS:
        what = f"{text!r} is no count of GPUs and their name"
        raise UsageError(what, code="usage.gpus", do=f"--gpus '8x H200 SXM', 1 to {_MOST_GPUS} of them")
    return count, gpu_row(match["name"])


def named_machine(count: int, row: GpuRow, fabric: FabricRow) -> MachineFacts:
    """As if it stood here, idle. What no table can know of it is Unknown, or 0 where a size must be given."""
    source = Source(SourceKind.TABLE, f"tables/gpus: {row.name}")
    why = f"{count} x {row.name} were named, not a machine"
    kind = _link_kind(fabric)
    gpus = tuple(
        Gpu(
            index=index,
            uuid="",
            name=row.name,
            total_bytes=row.memory_bytes,
            free_bytes=row.memory_bytes,
            compute_capability=Known(row.compute_capability, source),
            pcie=Known(row.pcie.removeprefix("PCIe "), source),
            links=tuple(GpuLink(peer, kind) for peer in range(count) if peer != index),
            processes=(),
        )
        for index in range(count)
    )
    return MachineFacts(
        schema_version=1,
        captured_at=0.0,
        hostname=f"{count}x {row.name}",
        boot_id="",
        user="",
        kernel="",
        cpu=Cpu("", 0, Unknown(why), 0.0, why, ()),
        memory=Memory(0, 0, 0, 0, why),
        disks=(),
        shm=Unknown(why),
        open_files_soft=-1,
        open_files_hard=-1,
        driver=Unknown(why),
        gpus=gpus,
        gpus_because=f"{why}; GPUs and fabric ({fabric.name}) are rows of the tables",
    )


def _link_kind(fabric: FabricRow) -> str:
    """As `nvidia-smi topo -m` would say it."""
    if fabric.name.startswith("nvlink"):
        return "NV"
    return "PIX" if fabric.name.endswith("switch") else "SYS"
