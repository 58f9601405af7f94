"""What a plan rests on that only the build itself knows for sure: what its selectors are to be asked, and what their
word on the experts' kernel means."""

from collections.abc import Iterable
from dataclasses import dataclass

from holddown.base.evidence import Known, Unknown
from holddown.base.finding import Finding, Severity
from holddown.facts.asked import MoeAnswer, Query
from holddown.facts.engine import EngineFacts
from holddown.facts.model import ModelFacts
from holddown.plan.backend_answers import selector_name
from holddown.plan.compat import attention_queries
from holddown.plan.experts_query import moe_query, routing_of
from holddown.plan.parallelism import Parallelism


def selector_questions(
    model: ModelFacts, facts: EngineFacts, compute_capability: str, splits: Iterable[Parallelism], moe_backend: str = ""
) -> tuple[Query, ...]:
    """Each kind of attention layer with each KV cache dtype, and the experts, in each of these splits; each once. None
    for a build that has nobody to ask.

    moe_backend: what the user wants of `--moe-backend`.
    """
    if isinstance(facts.attention_backends, Unknown):
        return ()  # an engine, or a release, without selectors that declare what they take
    found: list[Query] = []
    for split in dict.fromkeys(splits):
        found += attention_queries(model, facts, compute_capability, split)
        experts = moe_query(model, compute_capability, split, moe_backend)
        if isinstance(experts, Known):
            found.append(experts.value)
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class ExpertsKernel:
    """name: of the backend that would run them; empty where that was not asked or none does. finding: what is to be
    said of it; blocks where none does."""

    name: str = ""
    finding: Finding | None = None


def experts_kernel(
    model: ModelFacts, facts: EngineFacts, compute_capability: str, split: Parallelism, moe_backend: str = ""
) -> ExpertsKernel:
    """As the build's own selector said; nothing where it was not asked."""
    query = moe_query(model, compute_capability, split, moe_backend)
    said = facts.asked.moe_said(query.value) if isinstance(query, Known) else None
    if said is None:
        return ExpertsKernel()
    if isinstance(said, Unknown):
        what = f"which kernel {facts.kind} {facts.version} would run this model's experts with is not known"
        return ExpertsKernel(finding=Finding("compat.experts-unknown", Severity.NOTE, "experts", what, said.why))
    if said.value.chosen:
        return ExpertsKernel(said.value.chosen)
    return ExpertsKernel(finding=_none(said.value, model, facts, compute_capability, split))


def _none(
    said: MoeAnswer, model: ModelFacts, facts: EngineFacts, compute_capability: str, split: Parallelism
) -> Finding:
    """Blocks, but only warns where the model's routing and activation are not known: another may be supported."""
    reasons = ", ".join(f"{each.name} ({each.reason})" for each in said.refused)
    sure = bool(routing_of(model)[0])
    return Finding(
        "compat.experts",
        Severity.BLOCK if sure else Severity.WARN,
        "experts",
        f"no kernel of {facts.kind} {facts.version} runs this model's experts as {split.text} on compute capability "
        f"{compute_capability}: {said.what.rstrip('.')}",
        "; ".join(filter(None, (reasons, f"{selector_name(facts)}: {said.path}"))),
    )
