"""Each family's tensors from its config.json, against what transformers builds, and against itself in header form."""

import json
from collections import Counter
from math import prod
from pathlib import Path
from typing import Any

import pytest

from fakes.headers import rows_of
from fakes.weights import bytes_by_component
from holddown.base.evidence import Known
from holddown.facts.header_groups import header_groups
from holddown.facts.naming import as_draft, draft_layers, is_scale, place, role, tensor_name
from holddown.facts.quantization import read_quantization
from holddown.facts.safetensors import TensorKind
from holddown.facts.shapes import Shapes, TensorRow, shapes
from holddown.facts.stored import StoredTensor
from holddown.facts.weight_groups import Component

_CAPTURES = Path(__file__).parents[1] / "captures"
_CONFIGS = {path.stem: json.loads(path.read_text()) for path in sorted((_CAPTURES / "configs").glob("*.json"))}
_BUILT = {path.stem: json.loads(path.read_text()) for path in sorted((_CAPTURES / "shapes").glob("*.json"))}

# Parameters as publishers or the hub count them; each family whose tensors transformers does not build is here.
_PUBLISHED = {
    "nemotron-super-49b": 49_867_145_216,
    "kimi-k3": 2_780_000_000_000,
    "step-3.5-flash": 196_810_000_000,
}


def computed(name: str) -> Shapes:
    record = _CONFIGS[name]
    quant = record.get("quant")
    return shapes(json.dumps(record["config"]), None if quant is None else json.dumps(quant))


def value(fact: object) -> Any:
    assert isinstance(fact, Known), fact
    return fact.value


def parameters_by_component(name: str) -> dict[Component, int]:
    counted: Counter[Component] = Counter()
    for group in value(computed(name).weights):
        if group.component is not Component.MTP:
            counted[group.component] += group.parameters
    return dict(counted)


def test_there_is_a_capture_of_each() -> None:
    """Every config is checked by one of the two; else the next tests would pass on nothing."""
    assert len(_CONFIGS) >= 35
    assert set(_CONFIGS) == set(_BUILT) | set(_PUBLISHED)


@pytest.mark.parametrize("name", _BUILT)
def test_what_transformers_builds(name: str) -> None:
    """Parameters of each component, to the last one, as transformers makes them from the same config.json."""
    theirs: Counter[Component] = Counter()
    for tensor, (_, elements) in _BUILT[name]["tensors"].items():
        if not tensor.endswith("tid2eid"):  # a table of expert numbers, which transformers keeps as a buffer
            theirs[place(tensor_name(tensor).module).component] += elements
    assert parameters_by_component(name) == dict(theirs)
    assert value(computed(name).parameters) == sum(theirs.values())


@pytest.mark.parametrize(("name", "published"), _PUBLISHED.items())
def test_what_publishers_say(name: str, published: int) -> None:
    """Families of another's code come within the rounding of the published number."""
    assert value(computed(name).parameters) == pytest.approx(published, rel=1e-3)


@pytest.mark.parametrize("name", _CONFIGS)
def test_names_are_read_back(name: str) -> None:
    """The headers of such a checkpoint, told apart by name alone, give the same bytes of each component."""
    record = _CONFIGS[name]
    drafts = set(draft_layers(record["config"]))
    sums: Counter[Component] = Counter()
    for row in rows_of(record["config"], record.get("quant")):
        first = next(row.names())
        told = tensor_name(first)
        assert row.name in (f"{told.module}.{told.part}", f"{told.module}_{told.part}", told.module)
        in_layers = told.module.partition("*")[0].endswith("layers.")
        found = as_draft(role(told.module)) if in_layers and told.numbers[0] in drafts else place(told.module)
        sums[found.component] += row.count * StoredTensor("", row.dtype, row.shape).size_bytes
    weights = value(computed(name).weights)
    assert dict(sums) == bytes_by_component(weights)
    assert Component.OTHER not in sums or sums[Component.OTHER] < 0.001 * sum(sums.values())


@pytest.mark.parametrize("name", _CONFIGS)
def test_headers_and_config_agree(name: str) -> None:
    """Weight groups out of the headers of such a checkpoint are those out of its config.json, each field the same."""
    record = _CONFIGS[name]
    quant = record.get("quant")
    storage = read_quantization(record["config"], None if quant is None else json.dumps(quant))
    kinds = [kind for row in rows_of(record["config"], quant) for kind in _kinds(row)]
    read = header_groups(kinds, storage, draft_layers(record["config"]))
    assert read.unknown == ""
    assert set(read.groups) == set(value(computed(name).weights))


def _kinds(row: TensorRow) -> list[TensorKind]:
    """As the reader of headers has them: one for each layer, its experts together."""
    elements, size = prod(row.shape), StoredTensor("", row.dtype, row.shape).size_bytes
    layers = row.spans[0] if row.spans else (0,)
    each = row.count // len(layers)
    return [
        TensorKind(row.name.replace("*", str(layer), 1), row.dtype, row.shape, each, elements, size) for layer in layers
    ]


@pytest.mark.parametrize("name", _CONFIGS)
def test_scales_are_told_from_weights(name: str) -> None:
    """What is no scale and no packed weight adds up to the parameters that were trained."""
    record = _CONFIGS[name]
    shown = computed(name)
    packed = {"weight_packed": 8, "qweight": 8, "blocks": 2}
    counted = 0
    for row in rows_of(record["config"], record.get("quant")):
        part = tensor_name(next(row.names())).part
        if is_scale(part) or row.name.endswith("tid2eid"):
            continue
        each = 2 if row.dtype in ("U8", "I8") else packed.get(part, 1)
        counted += row.count * prod(row.shape) * each
    assert counted == value(shown.parameters) + shown.draft_parameters


@pytest.mark.parametrize(
    ("name", "gigabytes"),
    [
        ("deepseek-v3", 688.6),
        ("kimi-k2.5", 595.1),
        ("minimax-m2.5", 230.0),
        ("gpt-oss-20b", 13.76),
        ("mixtral-8x7b", 93.4),
    ],
)
def test_published_sizes_on_disk(name: str, gigabytes: float) -> None:
    """Stored bytes with scales, drafts and vision tower, as the hub shows them."""
    assert sum(group.size_bytes for group in value(computed(name).weights)) / 1e9 == pytest.approx(gigabytes, rel=2e-3)


@pytest.mark.parametrize(
    ("name", "billions"),
    [("deepseek-v3", 36.6), ("gpt-oss-20b", 3.6), ("mixtral-8x7b", 12.7), ("kimi-k2.5", 31.7), ("qwen3-0.6b", 0.596)],
)
def test_active_parameters(name: str, billions: float) -> None:
    """Chosen experts and the head count; the embedding's look-up does not, unless it is the head too."""
    assert value(computed(name).active_parameters) / 1e9 == pytest.approx(billions, rel=0.01)


def test_draft_layers_are_counted_beside() -> None:
    """DeepSeek V3's 14 B of MTP, copies of embedding and head among them; Step 3.5's three are dense."""
    assert computed("deepseek-v3").draft_layers == 1
    assert computed("deepseek-v3").draft_parameters / 1e9 == pytest.approx(13.5, rel=0.01)
    assert computed("step-3.5-flash").draft_layers == 3
    assert computed("step-3.5-flash").draft_parameters / 1e9 == pytest.approx(2.4, rel=0.02)
