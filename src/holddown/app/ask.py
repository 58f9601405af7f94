"""A plan that the chosen build itself was asked about: planned, asked what the plan rests on, planned again."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from holddown import ports
from holddown.base.evidence import SourceKind, Unknown, known_or
from holddown.base.finding import Finding, Severity
from holddown.facts.asked import Questions
from holddown.facts.model import ModelFacts
from holddown.plan.choose import plan as choose
from holddown.plan.kernels import selector_questions
from holddown.plan.parallelism import Parallelism
from holddown.plan.plan import NoPlan, Plan, Rejected
from holddown.plan.site import Site
from holddown.plan.wishes import Candidate, Wishes, wished

_ROUNDS = 3
"""What a build says may make another build, or another split, the better one; and that one may say no."""
_OF_KERNELS = frozenset({"compat.attention", "compat.experts"})


@dataclass(frozen=True, slots=True)
class AskedPlan:
    """candidates: with what was said. findings: where nobody could be asked."""

    plan: Plan | NoPlan
    candidates: tuple[Candidate, ...]
    findings: tuple[Finding, ...]


def asked_plan(
    model: ModelFacts,
    site: Site,
    candidates: Sequence[Candidate],
    wishes: Wishes,
    broken: Sequence[Rejected],
    selector: ports.EngineSelector,
    say: ports.Progress,
    *,
    by_hand: bool,
) -> AskedPlan:
    """by_hand: the user wants it, so that it is said where there is nothing to ask."""
    known = list(candidates)
    planned = choose(model, site, known, wishes, broken)
    for number in range(_ROUNDS):
        candidate = _to_ask(planned, known)
        questions = _questions(model, site, candidate, wishes, planned) if candidate else Questions(())
        if candidate is None or not questions.queries:
            in_vain = _nothing(planned) if by_hand and number == 0 else ()
            return AskedPlan(planned, tuple(known), in_vain)
        said = selector.ask(candidate.engine, candidate.facts, questions, say)
        if isinstance(said, Unknown):
            return AskedPlan(planned, tuple(known), (_failed(candidate, said),))
        more = replace(candidate.facts, asked=candidate.facts.asked + said.value)
        known[known.index(candidate)] = replace(candidate, facts=more)
        planned = choose(model, site, known, wishes, broken)
    return AskedPlan(planned, tuple(known), ())


def _to_ask(planned: Plan | NoPlan, candidates: Sequence[Candidate]) -> Candidate | None:
    """The chosen build; where there is no plan for want of a kernel, the first that is not for the CPU."""
    if isinstance(planned, Plan):
        return next((each for each in candidates if each.engine.ref == planned.engine and planned.gpus), None)
    wanting = any(each.code in _OF_KERNELS for each in planned.rejected)
    on_gpus = (each for each in candidates if known_or(each.facts.device, "") != "cpu" and not each.engine.recorded)
    return next(on_gpus, None) if wanting else None


def _questions(
    model: ModelFacts, site: Site, candidate: Candidate, wishes: Wishes, planned: Plan | NoPlan
) -> Questions:
    """About every split that was looked at: what is said of one must hold for the next best too."""
    used = planned.gpus if isinstance(planned, Plan) else wishes.gpus or ()
    gpu = next(each for each in site.machine.gpus if not used or each.index == used[0])
    splits = [Parallelism(), *(each.parallelism for each in planned.rejected if each.parallelism)]
    environment: tuple[tuple[str, str], ...] = ()
    if isinstance(planned, Plan):
        splits += [planned.parallelism, *(each.parallelism for each in planned.alternatives)]
        by_user = (each for each in planned.settings if each.source.kind is SourceKind.USER and each.name.isupper())
        environment = tuple((each.name, each.value) for each in by_user)
    capability = known_or(gpu.compute_capability, "")
    queries = selector_questions(model, candidate.facts, capability, splits, wished(wishes, "moe-backend"))
    return Questions(candidate.facts.asked.unknown(queries), environment)


def _nothing(planned: Plan | NoPlan) -> tuple[Finding, ...]:
    if isinstance(planned, NoPlan):
        return ()
    why = "it has nobody who could say" if planned.gpus else "that is asked about GPUs, and this plan is for the CPU"
    what = f"{planned.engine} was not asked which kernels it would take: {why}"
    return (Finding("compat.selector-failed", Severity.NOTE, planned.engine, what, "--ask-engine"),)


def _failed(candidate: Candidate, said: Unknown) -> Finding:
    ref = candidate.engine.ref
    what = f"{ref} could not be asked which kernels it would take; what was read from its source stands"
    return Finding("compat.selector-failed", Severity.NOTE, ref, what, said.why)
