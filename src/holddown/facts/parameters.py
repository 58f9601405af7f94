"""How many parameters a model has, and how many take part in one token's forward pass, from its weight groups."""

from collections.abc import Iterable

from holddown.base.evidence import Fact, Unknown, derived
from holddown.facts.model import Moe
from holddown.facts.weight_groups import Component, Split, WeightGroup

# A token looks one row up in these, and an image is no token.
_NOT_PER_TOKEN = frozenset({Component.EMBEDDINGS, Component.VISION, Component.MTP})


def total_parameters(groups: Iterable[WeightGroup], unknown: str, where: str) -> Fact[int]:
    """Of all but the draft layers. unknown: why it cannot be said; empty where it can."""
    if unknown:
        return Unknown(unknown)
    return derived(sum(group.parameters for group in groups if group.component is not Component.MTP), where)


def draft_parameters(groups: Iterable[WeightGroup]) -> int:
    return sum(group.parameters for group in groups if group.component is Component.MTP)


def active_parameters(groups: Iterable[WeightGroup], moe: Moe | None, unknown: str) -> Fact[int]:
    """Those that one token of text passes through: the chosen experts only; the output head, but no embedding look-up.

    Where the head is the embedding itself (tied), it counts once. unknown: as for `total_parameters`.
    """
    groups = tuple(groups)
    if unknown:
        return Unknown(unknown)
    routed = sum(group.parameters for group in groups if group.component is Component.ROUTED_EXPERTS)
    if routed and moe is None:
        return Unknown("there are routed experts, and the config does not say in a way we know how many are chosen")
    others = sum(
        group.parameters
        for group in groups
        if group.component not in _NOT_PER_TOKEN and group.component is not Component.ROUTED_EXPERTS
    )
    tied = 0 if any(group.component is Component.HEAD for group in groups) else _input_embedding(groups)
    chosen = routed * moe.num_experts_per_tok // moe.num_experts if moe else 0
    words = "all but embeddings" + (", as the head they count" if tied else "")
    if moe:
        words += f", {moe.num_experts_per_tok} of {moe.num_experts} routed experts"
    return derived(others + tied + chosen, words)


def _input_embedding(groups: Iterable[WeightGroup]) -> int:
    """The table that serves as the head too; not Gemma's tables for each layer."""
    return sum(
        group.parameters
        for group in groups
        if group.component is Component.EMBEDDINGS and group.split is Split.VOCAB and "per_layer" not in group.module
    )
