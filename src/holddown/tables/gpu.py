"""One GPU model per file in `gpus/`, and how GPUs reach each other in `fabrics/`. Every figure names its source."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GpuRow:
    """name: as people say it. aliases: as NVML reports it (`NVIDIA RTX PRO 6000 Blackwell Server Edition`) and others.

    compute_capability: `12.0`, or AMD's `gfx942`. memory_bytes: what NVML reports as total. bandwidth_gbs: DRAM, 10^9
    bytes per second. *_tflops: dense tensor-core peaks, 0 where the hardware has none. link: the fabric between GPUs
    of one box (`nvlink4`), or the PCIe generation (`pcie5`) where there is no link. tdp_w: board power.
    """

    name: str
    aliases: tuple[str, ...]
    vendor: str
    compute_capability: str
    sms: int
    memory_bytes: int
    bandwidth_gbs: float
    bf16_tflops: float
    fp8_tflops: float
    fp4_tflops: float
    int8_tflops: float
    link: str
    pcie: str
    tdp_w: int
    memory_source: str
    compute_source: str
    link_source: str
    notes: str


@dataclass(frozen=True, slots=True)
class AllReduceCurve:
    """gpus: ranks. kib and us: payload per rank in KiB and microseconds of one all-reduce inside a CUDA graph."""

    gpus: int
    kib: tuple[float, ...]
    us: tuple[float, ...]
    source: str


@dataclass(frozen=True, slots=True)
class FabricVariable:
    """An environment variable of NCCL. otherwise: what to do where it turns out wrong."""

    name: str
    value: str
    because: str
    otherwise: str
    source: str


@dataclass(frozen=True, slots=True)
class FabricRow:
    """name: `nvlink4`, `pcie5-dual-socket`, ... title: for people. curves: one per number of GPUs that is known.
    environment: what several ranks over it need."""

    name: str
    title: str
    aliases: tuple[str, ...]
    curves: tuple[AllReduceCurve, ...]
    environment: tuple[FabricVariable, ...] = ()
