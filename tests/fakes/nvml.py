"""A stand-in for the `pynvml` module: two GPUs, what they answer, and on cue no driver."""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace


class FakeNvmlError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"NVML error {value}")
        self.value = value


@dataclass
class FakeCard:
    """lanes: bus ids where its NVLinks end, `switch` for one into the fabric. used: pid -> bytes or None."""

    bus: str
    total: int = 80 * 1024**3
    free: int = 80 * 1024**3
    lanes: tuple[str, ...] = ()
    used: dict[int, int | None] = field(default_factory=dict)
    lost: bool = False
    mig: bool = False
    load: int = 0


class FakeNvml:
    NVMLError = FakeNvmlError
    NVML_ERROR_LIBRARY_NOT_FOUND = 12
    NVML_ERROR_DRIVER_NOT_LOADED = 9
    NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18
    NVML_ERROR_NO_PERMISSION = 4
    NVML_NVLINK_MAX_LINKS = 18
    NVML_NVLINK_DEVICE_TYPE_SWITCH = 2

    def __init__(self, cards: tuple[FakeCard, ...] = (), init_error: int = 0, level: int = 50) -> None:
        self.cards = cards
        self.init_error = init_error
        self.level = level
        self.up = False

    def _refuse(self, *_: object) -> None:
        raise FakeNvmlError(3)

    def nvmlInit(self) -> None:  # noqa: N802 - the library's own names, here and below
        if self.init_error:
            raise FakeNvmlError(self.init_error)
        self.up = True

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.up = False

    def __getattr__(self, name: str) -> Callable[..., object]:
        answers: dict[str, Callable[..., object]] = {
            "nvmlSystemGetDriverVersion": lambda: b"570.86",
            "nvmlDeviceGetCount": lambda: len(self.cards),
            "nvmlDeviceGetHandleByIndex": lambda index: self.cards[index],
            "nvmlDeviceGetTotalEnergyConsumption": lambda card: self._refuse() if card.lost else 1_500_000,
            "nvmlDeviceGetMemoryInfo": self._memory,
            "nvmlDeviceGetUtilizationRates": self._rates,
            "nvmlDeviceGetCudaComputeCapability": lambda card: (9, 0),
            "nvmlDeviceGetUUID": lambda card: "GPU-" + card.bus,
            "nvmlDeviceGetName": lambda card: "NVIDIA H200",
            "nvmlDeviceGetMaxPcieLinkGeneration": lambda card: 5,
            "nvmlDeviceGetCurrPcieLinkWidth": lambda card: 8,
            "nvmlDeviceGetMaxPcieLinkWidth": lambda card: 16,
            "nvmlDeviceGetMigMode": lambda card: (int(card.mig), int(card.mig)),
            "nvmlDeviceGetComputeRunningProcesses": lambda card: [
                SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in card.used.items()
            ],
            "nvmlDeviceGetGraphicsRunningProcesses": self._refuse,
            "nvmlDeviceGetPciInfo": lambda card: SimpleNamespace(busId=card.bus),
            "nvmlDeviceGetNvLinkState": self._lane_state,
            "nvmlDeviceGetNvLinkRemotePciInfo": lambda card, lane: SimpleNamespace(busId=card.lanes[lane]),
            "nvmlDeviceGetNvLinkRemoteDeviceType": lambda card, lane: 2 if card.lanes[lane] == "switch" else 0,
            "nvmlDeviceGetTopologyCommonAncestor": lambda one, other: self.level,
        }
        return answers[name]

    def _memory(self, card: FakeCard) -> object:
        if card.lost:
            raise FakeNvmlError(15)
        return SimpleNamespace(total=card.total, free=card.free)

    def _rates(self, card: FakeCard) -> object:
        if card.lost:
            raise FakeNvmlError(15)
        return SimpleNamespace(gpu=card.load, memory=0)

    def _lane_state(self, card: FakeCard, lane: int) -> int:
        if lane >= len(card.lanes):
            raise FakeNvmlError(2)
        return 1
