"""A directory without weights: facts from config.json's shapes; and whether those agree with weights that are there."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from holddown.base.evidence import Known
from holddown.base.finding import Finding, Severity
from holddown.base.units import count_text
from holddown.facts.hf_config import CONFIG
from holddown.facts.json_object import json_object
from holddown.facts.model import ModelFacts
from holddown.facts.shapes import Shapes, module_place, modules
from holddown.facts.weight_groups import Component, WeightGroup

_TOLERANCE = 0.01


def with_shapes(model: ModelFacts, found: Shapes) -> ModelFacts:
    """The facts with weights as config.json has them, in place of weights that are not there."""
    groups = found.weights.value if isinstance(found.weights, Known) else ()
    return replace(
        model,
        from_shapes=True,
        weights=groups,
        weights_bytes=sum(group.size_bytes for group in groups),
        parameters=found.parameters,
        active_parameters=found.active_parameters,
        draft_layers=found.draft_layers,
        draft_parameters=found.draft_parameters,
    )


def no_weights(path: str, found: Shapes) -> Finding:
    """Worth knowing to who plans; a launch must not go on from it."""
    what = f"there are no weights in {path}: every figure is computed from the shapes in {CONFIG}"
    do = "hf download REPO --local-dir DIR"
    return Finding("weights.none", Severity.NOTE, path, what, "; ".join(found.notes), do)


def disagreement(config_text: str, groups: Iterable[WeightGroup]) -> tuple[Finding, ...]:
    """Where the shapes that config.json gives sum to something else than the tensors, by component.

    A config that is not understood says nothing here: the tensors are what counts.
    """
    there: dict[Component, int] = {}
    for group in groups:
        there[group.component] = there.get(group.component, 0) + group.parameters
    try:
        wanted = _by_component(json_object(config_text))
    except ValueError:
        return ()
    total, expected = sum(there.values()), sum(wanted.values())
    if abs(total - expected) <= _TOLERANCE * max(total, expected):
        return ()
    off = [
        f"{component} {count_text(there.get(component, 0))} against {count_text(wanted.get(component, 0))}"
        for component in Component
        if abs(there.get(component, 0) - wanted.get(component, 0)) > _TOLERANCE * max(total, expected) / 10
    ]
    what = f"the tensors hold {count_text(total)} parameters, the shapes in {CONFIG} make {count_text(expected)}"
    return (Finding("weights.disagree", Severity.WARN, CONFIG, what, f"tensors against {CONFIG}: {', '.join(off)}"),)


def _by_component(config: Mapping[str, Any]) -> dict[Component, int]:
    sums: dict[Component, int] = {}
    for module in modules(config):
        component = module_place(module).component
        sums[component] = sums.get(component, 0) + module.count * module.parameters
    return sums
