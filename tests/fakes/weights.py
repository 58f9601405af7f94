"""Sums over weight groups, for comparing."""

from collections.abc import Iterable

from holddown.facts.weight_groups import Component, WeightGroup


def bytes_by_component(groups: Iterable[WeightGroup]) -> dict[Component, int]:
    """Stored bytes of each component that there is, in the order of `Component`."""
    sums: dict[Component, int] = {}
    for group in groups:
        sums[group.component] = sums.get(group.component, 0) + group.size_bytes
    return {component: sums[component] for component in Component if component in sums}
