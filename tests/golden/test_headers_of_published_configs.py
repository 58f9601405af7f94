"""Every published config: the tensors that its checkpoint has, read as headers, against its shapes."""

import itertools
from collections.abc import Iterable, Iterator
from math import prod
from pathlib import Path

import pytest

from holddown.base.evidence import Known
from holddown.facts.header_groups import header_groups
from holddown.facts.hf_config import CONFIG, QUANT_CONFIG, read_config
from holddown.facts.parameters import active_parameters, draft_parameters, total_parameters
from holddown.facts.safetensors import DTYPE_BITS, TensorKind
from holddown.facts.shapes import TensorRow, shapes, tensor_rows
from holddown.facts.weight_groups import WeightGroup

MODELS = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "models"
FOLDERS = sorted(path.parent for path in MODELS.glob("*/config.json")) if MODELS.is_dir() else []


def kinds(rows: Iterable[TensorRow]) -> Iterator[TensorKind]:
    """As a header's reader gives them: one for each tensor, those of a layer's experts together."""
    for row in rows:
        elements = prod(row.shape)
        size = elements * DTYPE_BITS[row.dtype] // 8
        head, experts, tail = row.name.partition(".experts.*")
        spans = row.spans[: head.count("*")] if experts else row.spans
        count = len(row.spans[len(spans)]) if experts else 1
        for numbers in itertools.product(*spans):
            name = head
            for number in numbers:
                name = name.replace("*", str(number), 1)
            yield TensorKind(f"{name}{experts}{tail}", row.dtype, row.shape, count, elements, size)


def sums(groups: Iterable[WeightGroup]) -> dict[tuple[str, str, str], tuple[int, int]]:
    found: dict[tuple[str, str, str], tuple[int, int]] = {}
    for group in groups:
        key = (group.component, group.split, group.format)
        parameters, size = found.get(key, (0, 0))
        found[key] = (parameters + group.parameters, size + group.size_bytes)
    return found


@pytest.mark.skipif(not FOLDERS, reason="the published configs are not beside this repository")
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_headers_and_config_agree(folder: Path) -> None:
    """Parameters, active parameters, draft layers, and bytes by component, split and format are the same both ways."""
    text = (folder / CONFIG).read_text("utf-8")
    quant = (folder / QUANT_CONFIG).read_text("utf-8") if (folder / QUANT_CONFIG).exists() else None
    expected, facts = shapes(text, quant), read_config(text, quant)
    found = header_groups(kinds(tensor_rows(text, quant)), facts.storage, facts.draft_layers)
    assert isinstance(expected.weights, Known)
    assert sums(found.groups) == sums(expected.weights.value)
    total = total_parameters(found.groups, found.unknown, "")
    active = active_parameters(found.groups, facts.moe, found.unknown)
    assert isinstance(total, Known) and isinstance(expected.parameters, Known)
    assert isinstance(active, Known) and isinstance(expected.active_parameters, Known)
    assert (total.value, active.value) == (expected.parameters.value, expected.active_parameters.value)
    drafted = (found.draft_layers, draft_parameters(found.groups))
    assert drafted == (expected.draft_layers, expected.draft_parameters)
