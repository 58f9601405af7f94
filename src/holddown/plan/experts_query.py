"""What a model's routed experts ask of an engine's MoE kernels."""

from holddown.base.evidence import Fact, Known, Unknown, derived, known_or
from holddown.facts.asked import MoeQuery
from holddown.facts.model import ModelFacts
from holddown.facts.weight_groups import Component
from holddown.plan.parallelism import Parallelism
from holddown.tables.load import families_of


def moe_query(model: ModelFacts, compute_capability: str, split: Parallelism, backend: str = "") -> Fact[MoeQuery]:
    """Unknown where the model has no experts, or what the kernels would be asked about them is not known.

    backend: what the user wants of `--moe-backend`; empty for nothing. Of a family that the table of families does not
    have, experts are taken to be gated by SiLU, and their routing for one that no kernel is made for.
    """
    moe, hidden = model.moe, model.hidden_size
    if moe is None:
        return Unknown("it has no experts")
    if isinstance(hidden, Unknown):
        return hidden
    formats = {group.format for group in model.weights if group.component is Component.ROUTED_EXPERTS}
    if len(formats) != 1:
        return Unknown(f"its experts are stored as {' and '.join(sorted(formats)) or 'is not known'}")
    whole = split.expert_parallel_size > 1
    if not whole and moe.moe_intermediate_size % (split.tensor_parallel_size * split.data_parallel_size):
        return Unknown(f"experts {moe.moe_intermediate_size} wide cannot be divided as {split.text}")
    routing, activation = routing_of(model)
    query = MoeQuery(
        compute_capability=compute_capability,
        model_type=known_or(model.model_type, ""),
        method=known_or(model.quantization, "none"),
        format=formats.pop(),
        group_size=max(0, model.group_size),
        experts=moe.num_experts,
        experts_per_token=moe.num_experts_per_tok,
        hidden_size=hidden.value,
        intermediate_size=moe.moe_intermediate_size,
        tensor_parallel_size=split.tensor_parallel_size,
        data_parallel_size=split.data_parallel_size,
        expert_parallel=whole,
        activation=activation or "silu",
        routing=routing or "Unspecified",
        backend=backend.lower().replace("-", "_") or "auto",
    )
    return derived(query, "experts of config.json")


def routing_of(model: ModelFacts) -> tuple[str, str]:
    """(routing, activation) of the table's row; empty where there is none."""
    architectures: tuple[str, ...] = model.architectures.value if isinstance(model.architectures, Known) else ()
    rows = families_of(architectures, known_or(model.model_type, ""))
    return next(((row.expert_routing, row.expert_activation) for row in rows if row.expert_routing), ("", ""))
