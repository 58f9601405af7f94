"""The fabric that GPUs have between them."""

import pytest

from holddown.base.errors import UsageError
from holddown.base.evidence import Known, Unknown, from_probe
from holddown.facts.machine import Gpu, GpuLink
from holddown.plan.fabric import fabric_of, named_fabric, usual_fabric
from holddown.tables.load import gpu_row


def gpus(kinds: dict[tuple[int, int], str], capability: str = "12.0", pcie: str = "Gen5 x16") -> list[Gpu]:
    """GPUs with these links; each pair is named once."""
    indices = sorted({index for pair in kinds for index in pair})
    links: dict[int, list[GpuLink]] = {index: [] for index in indices}
    for (one, other), kind in kinds.items():
        links[one].append(GpuLink(other, kind))
        links[other].append(GpuLink(one, kind))
    return [
        Gpu(
            index,
            f"GPU-{index}",
            "a GPU",
            10**11,
            10**11,
            from_probe(capability, "NVML"),
            from_probe(pcie, "NVML"),
            tuple(links[index]),
            (),
        )
        for index in indices
    ]


@pytest.mark.parametrize(
    ("kinds", "name"),
    [
        ({(0, 1): "PIX", (0, 2): "PXB", (1, 2): "PXB"}, "pcie5-switch"),
        ({(0, 1): "PHB", (0, 2): "PHB", (1, 2): "PHB"}, "pcie5-dual-socket"),
        ({(0, 1): "NODE", (0, 2): "SYS", (1, 2): "SYS"}, "pcie5-dual-socket"),
        ({(0, 1): "PIX", (0, 2): "SYS", (1, 2): "SYS"}, "pcie5-dual-socket"),
        ({(0, 1): "NV4", (0, 2): "SYS", (1, 2): "SYS"}, "pcie5-dual-socket"),
    ],
)
def test_the_slowest_link_names_the_fabric(kinds: dict[tuple[int, int], str], name: str) -> None:
    """One pair over the sockets' link makes every collective wait for it."""
    fact = fabric_of(gpus(kinds))

    assert isinstance(fact, Known)
    assert fact.value.name == name


@pytest.mark.parametrize(("capability", "name"), [("8.0", "nvlink3"), ("9.0", "nvlink4"), ("10.0", "nvlink5")])
def test_nvlink_is_of_the_gpus_generation(capability: str, name: str) -> None:
    """NVML tells lanes, not their speed; the compute capability tells the generation."""
    fact = fabric_of(gpus({(0, 1): "NV18"}, capability))

    assert isinstance(fact, Known)
    assert fact.value.name == name


def test_links_to_gpus_outside_the_group_do_not_count() -> None:
    """Two GPUs behind one switch stay so when the others hang on the other socket."""
    every = gpus({(0, 1): "PIX", (0, 2): "SYS", (1, 2): "SYS"})

    fact = fabric_of(every[:2])

    assert isinstance(fact, Known)
    assert fact.value.name == "pcie5-switch"


def test_pcie_4_is_not_taken_for_5() -> None:
    """The generation is asked of the GPU, as is the layout."""
    fact = fabric_of(gpus({(0, 1): "SYS"}, "8.9", "Gen4 x16"))

    assert isinstance(fact, Known)
    assert fact.value.name == "pcie4"


def test_what_cannot_be_told_is_unknown() -> None:
    """One GPU has no fabric, and NVLink of an unknown GPU has no known speed."""
    assert fabric_of(gpus({(0, 1): "PIX"})[:1]) == Unknown("one GPU alone")
    assert isinstance(fabric_of(gpus({(0, 1): "NV2"}, "13.0")), Unknown)


@pytest.mark.parametrize(
    ("asked", "gpu", "name"),
    [
        ("pcie-dual-socket", "RTX PRO 6000 Server", "pcie5-dual-socket"),
        ("pcie-dual-socket", "L40S", "pcie4"),
        ("pcie-switch", "RTX PRO 6000 Server", "pcie5-switch"),
        ("pcie", "RTX 5090", "pcie5-dual-socket"),
        ("PCIe5-Dual-Socket-Tuned", "RTX 5090", "pcie5-dual-socket-tuned"),
        ("nvlink", "H200 SXM", "nvlink4"),
        ("nvlink4", "H100 NVL", "nvlink4"),
    ],
)
def test_a_user_may_leave_the_generation_to_the_gpu(asked: str, gpu: str, name: str) -> None:
    """`--gpus "8x L40S" --fabric pcie-dual-socket` says enough."""
    assert named_fabric(asked, gpu_row(gpu)).name == name


def test_nvlink_between_gpus_that_have_none_is_an_error() -> None:
    """There is no NVLink speed to take for a GPU without the connector."""
    with pytest.raises(UsageError):
        named_fabric("nvlink", gpu_row("RTX PRO 6000 Server"))


@pytest.mark.parametrize(("gpu", "name"), [("B200", "nvlink5"), ("RTX PRO 6000 Server", "pcie5-dual-socket")])
def test_where_nothing_is_said_the_gpu_decides(gpu: str, name: str) -> None:
    """The usual box of a GPU."""
    assert usual_fabric(gpu_row(gpu)).name == name
