"""GPUs through NVML, the library that `nvidia-smi` asks too. Its absence is an answer, never an exception."""

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from holddown.base.evidence import Fact, Unknown, from_probe
from holddown.facts.machine import Gpu, GpuLink, GpuProcess, ProcessFacts

ProcessOf = Callable[[int], ProcessFacts | None]

# nvmlGpuTopologyLevel_t -> the words of `nvidia-smi topo -m`. Source: nvml.h; INTERNAL is two GPUs of one board.
_LEVELS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}


@dataclass(frozen=True, slots=True)
class Gpus:
    """because: why there are none, or what of them is not shown; empty when there is nothing to say."""

    driver: Fact[str]
    gpus: tuple[Gpu, ...]
    because: str


def read_gpus(process_of: ProcessOf, library: Any = None) -> Gpus:
    """library: the `pynvml` module or what stands for it in tests."""
    with _session(library) as nvml:
        if isinstance(nvml, Unknown):
            return _none(nvml.why)
        try:
            return _Reader(nvml, process_of).read()
        except nvml.NVMLError as error:
            return _none(f"NVML: {error}")


def read_loads(indices: Sequence[int], library: Any = None) -> tuple[int | None, ...]:
    """Of each GPU the percentage of its last sample, of up to a second, in which a kernel ran. library: as of
    `read_gpus`. Source: nvml.h, nvmlUtilization_t."""
    if not indices:
        return ()
    with _session(library) as nvml:
        return tuple(None if isinstance(nvml, Unknown) else _load(nvml, index) for index in indices)


def _load(library: Any, index: int) -> int | None:
    try:
        return int(library.nvmlDeviceGetUtilizationRates(library.nvmlDeviceGetHandleByIndex(index)).gpu)
    except library.NVMLError:
        return None


def energy_joules(gpus: Sequence[int], library: Any = None) -> Fact[float]:
    """That these GPUs have used since their driver was loaded, from Volta on.

    Source: nvml.h nvmlDeviceGetTotalEnergyConsumption, in mJ.
    """
    with _session(library) as nvml:
        if isinstance(nvml, Unknown):
            return nvml
        try:
            used_mj = [nvml.nvmlDeviceGetTotalEnergyConsumption(nvml.nvmlDeviceGetHandleByIndex(gpu)) for gpu in gpus]
        except nvml.NVMLError as error:
            return Unknown(f"nvmlDeviceGetTotalEnergyConsumption: {error}")
        return from_probe(sum(used_mj) / 1000, "nvmlDeviceGetTotalEnergyConsumption")


@contextmanager
def _session(library: Any) -> Iterator[Any]:
    """The library, initialised; or `Unknown` with why it cannot be asked."""
    try:
        library = library or importlib.import_module("pynvml")
    except ImportError as error:
        yield Unknown(f"the NVML binding cannot be imported: {error}")
        return
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        yield Unknown(_why_not(library, error))
        return
    try:
        yield library
    finally:
        with suppress(library.NVMLError):
            library.nvmlShutdown()


def _none(why: str) -> Gpus:
    return Gpus(driver=Unknown(why), gpus=(), because=why)


def _why_not(library: Any, error: Any) -> str:
    whys = {
        library.NVML_ERROR_LIBRARY_NOT_FOUND: "no NVIDIA driver library (libnvidia-ml.so.1) on this machine",
        library.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA kernel driver is not loaded",
        library.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "the NVIDIA driver library and the loaded kernel driver are of "
        "different versions: the driver was updated and the machine not rebooted since",
        library.NVML_ERROR_NO_PERMISSION: "this user may not ask the NVIDIA driver",
    }
    return whys.get(error.value, f"NVML does not start: {error}")


class _Reader:
    """One look at every GPU; NVML is up meanwhile."""

    def __init__(self, library: Any, process_of: ProcessOf) -> None:
        self._nvml = library
        self._process_of = process_of

    def read(self) -> Gpus:
        handles: dict[int, Any] = {}
        notes = []
        for index in range(self._nvml.nvmlDeviceGetCount()):
            try:
                handles[index] = self._nvml.nvmlDeviceGetHandleByIndex(index)
            except self._nvml.NVMLError as error:
                notes.append(f"GPU {index} does not answer: {error}")
        gpus = []
        for index, handle in handles.items():
            try:
                gpus.append(self._gpu(index, handles))
            except self._nvml.NVMLError as error:
                notes.append(f"GPU {index} does not answer: {error}")
                continue
            if self._mig(handle):
                notes.append(f"GPU {index} is split by MIG; its slices are not listed one by one")
        if not gpus and not notes:
            notes.append("the NVIDIA driver knows of no GPU")
        driver = self._ask("nvmlSystemGetDriverVersion", self._nvml.nvmlSystemGetDriverVersion, _text)
        return Gpus(driver, tuple(gpus), "; ".join(notes))

    def _ask(self, name: str, call: Callable[..., Any], show: Callable[[Any], str], *args: Any) -> Fact[str]:
        try:
            return from_probe(show(call(*args)), name)
        except self._nvml.NVMLError as error:
            return Unknown(f"{name}: {error}")

    def _gpu(self, index: int, handles: dict[int, Any]) -> Gpu:
        nvml, handle = self._nvml, handles[index]
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        capability = self._ask(
            "nvmlDeviceGetCudaComputeCapability",
            nvml.nvmlDeviceGetCudaComputeCapability,
            lambda pair: f"{pair[0]}.{pair[1]}",
            handle,
        )
        return Gpu(
            index=index,
            uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
            name=_text(nvml.nvmlDeviceGetName(handle)),
            total_bytes=memory.total,
            free_bytes=memory.free,
            compute_capability=capability,
            pcie=self._pcie(handle),
            links=tuple(GpuLink(peer, self._link(handle, handles[peer])) for peer in handles if peer != index),
            processes=self._processes(handle),
        )

    def _pcie(self, handle: Any) -> Fact[str]:
        """The generation at its best, since an idle GPU lowers it to save power; the width as it is, since a lane
        that is lost stays lost."""
        nvml = self._nvml
        try:
            generation = nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle)
            width = nvml.nvmlDeviceGetCurrPcieLinkWidth(handle)
            widest = nvml.nvmlDeviceGetMaxPcieLinkWidth(handle)
        except nvml.NVMLError as error:
            return Unknown(f"nvmlDeviceGetMaxPcieLinkGeneration: {error}")
        short = f" of x{widest}" if width < widest else ""
        return from_probe(f"Gen{generation} x{width}{short}", "NVML, PCIe link")

    def _mig(self, handle: Any) -> bool:
        try:
            current, _ = self._nvml.nvmlDeviceGetMigMode(handle)
        except self._nvml.NVMLError:
            # a GPU that cannot be split
            return False
        return bool(current)

    def _processes(self, handle: Any) -> tuple[GpuProcess, ...]:
        """Graphics processes too: a desktop's memory is as much taken as a server's."""
        nvml = self._nvml
        found: dict[int, int | None] = {}
        for call in (nvml.nvmlDeviceGetComputeRunningProcesses, nvml.nvmlDeviceGetGraphicsRunningProcesses):
            with suppress(nvml.NVMLError):
                for row in call(handle):
                    found.setdefault(row.pid, row.usedGpuMemory)
        return tuple(self._process(pid, used) for pid, used in sorted(found.items()))

    def _process(self, pid: int, used: int | None) -> GpuProcess:
        used_bytes: Fact[int] = Unknown("the driver does not say")
        if used is not None:
            used_bytes = from_probe(used, "NVML, running processes")
        facts = self._process_of(pid)
        process: Fact[ProcessFacts] = Unknown("not visible here: it ended, or runs in another container")
        if facts is not None:
            process = from_probe(facts, f"/proc/{pid}")
        return GpuProcess(pid, used_bytes, process)

    def _link(self, one: Any, other: Any) -> str:
        """Direct NVLinks to that GPU, else links of both into the NVSwitch fabric, else the way over PCIe."""
        direct, switched = self._lanes(one, self._bus(other))
        if direct:
            return f"NV{direct}"
        _, switched_there = self._lanes(other, self._bus(one))
        if switched and switched_there:
            return f"NV{min(switched, switched_there)}"
        try:
            level = self._nvml.nvmlDeviceGetTopologyCommonAncestor(one, other)
        except self._nvml.NVMLError:
            return "unknown"
        return _LEVELS.get(level, f"level {level}")

    def _bus(self, handle: Any) -> str:
        return _text(self._nvml.nvmlDeviceGetPciInfo(handle).busId).lower()

    def _lanes(self, handle: Any, peer_bus: str) -> tuple[int, int]:
        """Active NVLinks of `handle`: (those that end at `peer_bus`, those that end at a switch)."""
        nvml = self._nvml
        direct = switched = 0
        for lane in range(nvml.NVML_NVLINK_MAX_LINKS):
            try:
                if not nvml.nvmlDeviceGetNvLinkState(handle, lane):
                    continue
                if _text(nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, lane).busId).lower() == peer_bus:
                    direct += 1
                elif nvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, lane) == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
                    switched += 1
            except nvml.NVMLError:
                # beyond the last lane of this kind of GPU, or one that cannot say where it ends
                continue
        return direct, switched


def _text(value: str | bytes) -> str:
    """Older bindings give bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value
