"""GPUs through NVML, against a stand-in for its library."""

import pytest

from fakes.nvml import FakeCard, FakeNvml
from holddown.base.evidence import Known, Unknown, known_or
from holddown.edges.hosts.nvml import energy_joules, read_gpus, read_loads


@pytest.mark.parametrize(
    ("error", "because"),
    [
        (12, "no NVIDIA driver library"),
        (9, "kernel driver is not loaded"),
        (18, "updated and the machine not rebooted"),
        (4, "may not ask"),
        (999, "NVML error 999"),
    ],
)
def test_no_driver_is_an_answer(error: int, because: str) -> None:
    """Whatever keeps NVML from starting is the reason why there are no GPUs."""
    found = read_gpus(lambda pid: None, FakeNvml(init_error=error))
    assert found.gpus == ()
    assert because in found.because
    assert isinstance(found.driver, Unknown)


def test_a_gpu_is_read() -> None:
    """Memory, capability, link to the host with a lost width, driver: as NVML says."""
    nvml = FakeNvml((FakeCard("0000:01", free=7),))
    found = read_gpus(lambda pid: None, nvml)
    (gpu,) = found.gpus
    assert (gpu.index, gpu.name, gpu.free_bytes) == (0, "NVIDIA H200", 7)
    assert isinstance(gpu.compute_capability, Known)
    assert gpu.compute_capability.value == "9.0"
    assert isinstance(gpu.pcie, Known)
    assert gpu.pcie.value == "Gen5 x8 of x16"
    assert isinstance(found.driver, Known)
    assert found.driver.value == "570.86"
    assert not nvml.up


@pytest.mark.parametrize(
    ("one", "other", "level", "kind"),
    [
        (("b", "b", "b", "b"), ("a",) * 4, 50, "NV4"),
        (("switch",) * 18, ("switch",) * 18, 50, "NV18"),
        (("switch",) * 18, ("switch",) * 17, 50, "NV17"),
        (("switch",), (), 50, "SYS"),
        (("c",), ("c",), 20, "PXB"),
        ((), (), 30, "PHB"),
        ((), (), 10, "PIX"),
        ((), (), 40, "NODE"),
    ],
)
def test_links(one: tuple[str, ...], other: tuple[str, ...], level: int, kind: str) -> None:
    """NVLinks to the peer count, or those of both into the switch; without any the way over PCIe is named."""
    found = read_gpus(lambda pid: None, FakeNvml((FakeCard("a", lanes=one), FakeCard("b", lanes=other)), level=level))
    assert [(link.peer, link.kind) for link in found.gpus[0].links] == [(1, kind)]


def test_holders_whom_nobody_can_see_stay_holders() -> None:
    """A pid of another container and a size that the driver withholds are unknown, not dropped."""
    found = read_gpus(lambda pid: None, FakeNvml((FakeCard("a", used={77: None, 5: 1024}),)))
    first, second = found.gpus[0].processes
    assert (first.pid, second.pid) == (5, 77)
    assert isinstance(first.used_bytes, Known)
    assert isinstance(second.used_bytes, Unknown)
    assert isinstance(second.process, Unknown)


def test_a_lost_gpu_does_not_hide_the_others() -> None:
    """One GPU that fell off the bus is said so; the rest is shown; MIG is noted."""
    found = read_gpus(lambda pid: None, FakeNvml((FakeCard("a", lost=True), FakeCard("b", mig=True))))
    assert [gpu.index for gpu in found.gpus] == [1]
    assert "GPU 0 does not answer" in found.because
    assert "GPU 1 is split by MIG" in found.because


def test_how_busy_a_gpu_is_is_told_where_nvml_tells_it() -> None:
    """None for a GPU that is lost, and for all where there is no driver; NVML is down again afterwards."""
    nvml = FakeNvml((FakeCard("a", load=100), FakeCard("b", lost=True), FakeCard("c")))
    assert read_loads((0, 1, 2), nvml) == (100, None, 0) and not nvml.up
    assert read_loads((0, 1), FakeNvml(init_error=12)) == (None, None)
    assert read_loads((), FakeNvml(init_error=12)) == ()


def test_energy_is_the_sum_of_the_gpus_in_use() -> None:
    """From mJ; Unknown where one of them does not tell, and where there is no driver."""
    two = FakeNvml((FakeCard("0000:01"), FakeCard("0000:02")))
    assert known_or(energy_joules([0, 1], two), 0.0) == 3000.0
    assert not two.up
    assert isinstance(energy_joules([0, 1], FakeNvml((FakeCard("0000:01"), FakeCard("0000:02", lost=True)))), Unknown)
    assert isinstance(energy_joules([0], FakeNvml(init_error=12)), Unknown)
