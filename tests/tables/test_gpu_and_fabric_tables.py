"""Our tables about GPUs and what lies between them."""

import itertools

import pytest

from holddown.base.errors import UsageError
from holddown.tables.gpu import FabricRow, GpuRow
from holddown.tables.load import fabric_row, fabric_rows, gpu_row, gpu_rows

GPUS = pytest.mark.parametrize("row", gpu_rows(), ids=lambda row: row.name)
FABRICS = pytest.mark.parametrize("row", fabric_rows(), ids=lambda row: row.name)


@GPUS
def test_every_gpu_row_names_its_sources(row: GpuRow) -> None:
    """Memory and bandwidth, compute, and link each say where they are from."""
    assert row.memory_source.strip()
    assert row.compute_source.strip()
    assert row.link_source.strip()


@GPUS
def test_a_gpu_row_is_of_a_possible_gpu(row: GpuRow) -> None:
    """A figure in the wrong unit (GB for GiB, TB/s for GB/s, sparse FLOPS) leaves these ranges."""
    assert 20e9 < row.memory_bytes < 400e9
    assert 200 < row.bandwidth_gbs < 10_000
    assert 50 <= row.bf16_tflops <= 3000
    assert row.fp8_tflops in (0, pytest.approx(2 * row.bf16_tflops, rel=0.02))
    assert row.fp4_tflops == 0 or row.fp4_tflops > row.fp8_tflops


@GPUS
def test_a_gpu_row_names_a_fabric_that_there_is(row: GpuRow) -> None:
    """The link of a GPU is a row of the fabrics."""
    assert row.link in (fabric_row(row.link).name, *fabric_row(row.link).aliases)


def test_no_two_rows_claim_one_name() -> None:
    """A second row of a name would never be found."""
    for rows in (gpu_rows(), fabric_rows()):
        names = [name.casefold() for row in rows for name in (row.name, *row.aliases)]
        assert sorted(names) == sorted(set(names))


@FABRICS
def test_every_curve_names_its_source_and_rises(row: FabricRow) -> None:
    """A larger payload or one more pair of ranks never takes less time."""
    assert [curve.gpus for curve in row.curves] == sorted({curve.gpus for curve in row.curves})
    for curve in row.curves:
        assert curve.source.strip()
        assert len(curve.kib) == len(curve.us)
        for values in (curve.kib, curve.us):
            assert all(low < high for low, high in itertools.pairwise(values)), (row.name, curve.gpus)


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("H200 SXM", "H200 SXM"),
        ("h200-sxm", "H200 SXM"),
        ("NVIDIA H200", "H200 SXM"),
        ("NVIDIA H200 NVL", "H200 NVL"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000 Blackwell Server"),
        ("RTX PRO 6000 Server", "RTX PRO 6000 Blackwell Server"),
        ("rtx pro6000 server", "RTX PRO 6000 Blackwell Server"),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "RTX PRO 6000 Blackwell Max-Q"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("A100-SXM4-80GB", "A100 80GB SXM"),
        ("RTX 3090", "RTX 3090"),
        ("B200", "B200"),
        ("4090", "RTX 4090"),
    ],
)
def test_a_gpu_is_found_by_what_people_and_nvml_call_it(asked: str, name: str) -> None:
    """By its name, by NVML's, in any spelling, and by words that fit it alone."""
    assert gpu_row(asked).name == name


@pytest.mark.parametrize(
    ("asked", "near"),
    [
        ("H200", ["H200 SXM", "H200 NVL"]),
        ("RTX PRO 6000", ["RTX PRO 6000 Blackwell Server", "RTX PRO 6000 Blackwell Max-Q"]),
        ("A100 80GB", ["A100 80GB PCIe", "A100 80GB SXM"]),
        ("H2O0 SXM", ["H200 SXM"]),
        ("RTX 6090", ["RTX 4090", "RTX 5090"]),
    ],
)
def test_a_name_that_fits_no_gpu_or_several_is_an_error_with_near_names(asked: str, near: list[str]) -> None:
    """Never a default: another GPU's speed would be told."""
    with pytest.raises(UsageError) as caught:
        gpu_row(asked)

    assert all(name in caught.value.seen for name in near)


def test_what_resembles_nothing_lists_all() -> None:
    """Also where no name is near, the words that can be said are shown."""
    with pytest.raises(UsageError) as caught:
        fabric_row("token ring")

    assert "nvlink4" in caught.value.seen
    assert "pcie5-dual-socket" in caught.value.seen
