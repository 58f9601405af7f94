"""All configs of the shared set against the columns that an independent calculation gave; where ours differs, why."""

from pathlib import Path
from typing import Any

import pytest

from holddown.base.evidence import Known
from holddown.facts.shapes import Shapes, shapes

_MODELS = Path(__file__).parents[3] / "shared" / "data" / "models"


_TIED = "a tied embedding is the head too, and counts once among the active"
_MTP = "the checkpoint holds its MTP layer, in BF16: the other calculation leaves it out for this family"
_DEEP = "the vision tower's deep-stack mergers, as transformers builds it"
_V4 = "all experts are FP4 or NVFP4 as the config's lists say, those of the MTP layer among them"
_LISTS = "each layer is stored as its own row of the quantisation lists says, not as the first one's"
_STEP = "the MTP layers come after `moe_layers_enum` ends, so they are dense: 2.4 B, not 14 B"

# (model, column) -> why ours is right. Columns: total, active, disk.
_RIGHT: dict[tuple[str, str], str] = {
    **{(name, "active"): _TIED for name in ("Qwen3-0.6B", "Qwen3-VL-2B-Instruct", "gemma-3-27b-it", "gemma-4-26B-A4B")},
    ("Gemma-4-26B-A4B-NVFP4", "active"): _TIED,
    ("Qwen3-VL-2B-Instruct", "total"): _DEEP,
    ("Qwen3-VL-32B-Thinking", "disk"): _DEEP,
    ("gemma-4-26B-A4B", "disk"): "the vision tower's table of positions: 25.8 B as transformers builds it",
    ("MiMo-V2-Flash", "active"): "values are 128 wide and keys 192: 308.8 B as transformers builds it",
    **{
        (f"NVIDIA-Nemotron-3-{name}", "disk"): _MTP
        for name in (
            "Super-120B-A12B-FP8", "Super-120B-A12B-NVFP4", "Ultra-550B-A55B-BF16", "Ultra-550B-A55B-FP8",
            "Ultra-550B-A55B-NVFP4",
        )
    },
    ("NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4", "disk"): _MTP,
    ("NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4", "disk"): _LISTS,
    ("Qwen3-Next-80B-A3B-Instruct", "disk"): "the checkpoint holds an MTP layer that its config has no key for",
    **{(f"DeepSeek-V4-{name}", "disk"): _V4 for name in ("Flash", "Flash-NVFP4", "Pro", "Pro-NVFP4")},
    ("MiniMax-M3-NVFP4", "disk"): _LISTS,
    ("Qwen3.6-27B-NVFP4", "disk"): _LISTS,
    ("Qwen3.6-35B-A3B-NVFP4", "disk"): _LISTS,
    **{(f"Step-{name}-Flash", "disk"): _STEP for name in ("3.5", "3.7")},
    **{
        ("Llama-3_3-Nemotron-Super-49B-v1", column): "each layer has a width of its own: 49.87 B as published"
        for column in ("total", "active", "disk")
    },
}  # fmt: skip


def _rows() -> dict[str, dict[str, str]]:
    if not (_MODELS / "SOURCES.md").is_file():
        return {}
    rows = {}
    for line in (_MODELS / "SOURCES.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 12 and (_MODELS / cells[1] / "config.json").is_file():
            rows[cells[1]] = {"total": cells[4], "active": cells[5], "disk": cells[7]}
    return rows


_COLUMNS = _rows()
pytestmark = pytest.mark.skipif(not _COLUMNS, reason="../shared/data/models is not here")


def computed(name: str) -> Shapes:
    quant = _MODELS / name / "hf_quant_config.json"
    text = quant.read_text() if quant.is_file() else None
    return shapes((_MODELS / name / "config.json").read_text(), text)


def value(fact: object) -> Any:
    assert isinstance(fact, Known), fact
    return fact.value


def agrees(ours: float, shown: str) -> bool:
    """Within 1 %, or within the last digit that the column shows."""
    digit = 0.1 if "." in shown else 1.0
    return abs(ours - float(shown)) <= max(0.01 * float(shown), 0.501 * digit)


@pytest.mark.parametrize("name", _COLUMNS or ["none"])
def test_within_one_percent(name: str) -> None:
    """Total, active and disk of each config, or a sentence why ours is right; no sentence without a difference."""
    found = computed(name)
    ours = {
        "total": value(found.parameters) / 1e9,
        "active": value(found.active_parameters) / 1e9,
        "disk": sum(group.size_bytes for group in value(found.weights)) / 1e9,
    }
    differing = {column for column, shown in _COLUMNS[name].items() if not agrees(ours[column], shown)}
    assert differing == {column for model, column in _RIGHT if model == name}, (ours, _COLUMNS[name])


def test_every_config_is_compared() -> None:
    """The table names each of the 88 folders, so none is passed over."""
    assert set(_COLUMNS) == {path.parent.name for path in _MODELS.glob("*/config.json")}
    assert {name for name, _ in _RIGHT} <= set(_COLUMNS)
