"""Which of the registered builds runs this checkpoint here, and how."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from packaging.version import Version

from holddown.base.evidence import Known, known_or
from holddown.base.units import size_text
from holddown.facts.engine import version_key
from holddown.facts.machine import Gpu, MachineFacts
from holddown.facts.model import ModelFacts
from holddown.plan.fit import Fit
from holddown.plan.plan import NoPlan, Plan, Rejected
from holddown.plan.planners import planner, preference, recipe_for
from holddown.plan.preflight import BUSY_BYTES, held_bytes, holders_text
from holddown.plan.remedies import remedies
from holddown.plan.settings import without_defaults
from holddown.plan.site import Site
from holddown.plan.wishes import Candidate, Wishes
from holddown.tables.load import to_have


def plan(
    model: ModelFacts, site: Site, candidates: Sequence[Candidate], wishes: Wishes, broken: Sequence[Rejected] = ()
) -> Plan | NoPlan:
    """The best candidate's plan, or why there is none. broken: registered builds that could not even be asked.

    Builds for the GPUs that are here come before builds for the CPU, engines made for the checkpoint's format before
    others, newer versions before older ones.
    """
    ordered = sorted(candidates, key=lambda candidate: _preference(candidate, model), reverse=True)
    outcomes: list[tuple[Candidate, tuple[Rejected, ...]]] = []
    for candidate in ordered:
        outcome = _try(model, site, candidate, wishes)
        if isinstance(outcome, Fit):
            later = [each for other in ordered[len(outcomes) + 1 :] for each in _later(other, candidate)]
            rejected = (*broken, *(each for _, limits in outcomes for each in limits), *later)
            return _plan(model, site, candidate, outcome, wishes, rejected)
        outcomes.append((candidate, outcome))
    return _unknown_to_all(model, site, wishes, outcomes) or _no_plan(model, site, wishes, broken, outcomes)


_Outcomes = Sequence[tuple[Candidate, tuple[Rejected, ...]]]


def _unknown_to_all(model: ModelFacts, site: Site, wishes: Wishes, outcomes: _Outcomes) -> Plan | None:
    """A model of which no release has code is planned from its tensors all the same, with what stands against it: a
    newer release, or a plug-in, may have it."""
    for candidate, limits in outcomes:
        if all(each.code == "compat.architecture" and not each.do for each in limits):
            lenient = replace(wishes, any_architecture=True)
            outcome = _try(model, site, candidate, lenient)
            return _plan(model, site, candidate, outcome, lenient, ()) if isinstance(outcome, Fit) else None
    return None


def _later(candidate: Candidate, chosen: Candidate) -> tuple[Rejected, ...]:
    """A registered build that was not even looked at; of those that are only recorded there are always some."""
    if candidate.engine.recorded:
        return ()
    why = "; this one cannot be imported" if candidate.facts.import_error else ""
    return (Rejected(candidate.engine.ref, f"{chosen.engine.ref} comes first{why}"),)


def _does_not_fit(
    rejected: tuple[Rejected, ...],
    model: ModelFacts,
    site: Site,
    wishes: Wishes,
    candidate: Candidate,
    limits: tuple[Rejected, ...],
) -> NoPlan:
    """The build runs it, and these GPUs do not hold it: what would do."""
    gpus = _usable_gpus(site.machine, wishes, site.claims)
    assert not isinstance(gpus, str)

    def fits(more: tuple[Gpu, ...]) -> str:
        outcome = planner(model, site, candidate, wishes).on_gpus(more)
        return outcome.parallelism.text if isinstance(outcome, Fit) else ""

    widest = max((each.parallelism.world_size for each in limits if each.parallelism), default=1)
    do = "\n".join(remedies(model, site.machine, gpus, -(-model.weights_bytes // widest), fits))
    memory = f"{len(gpus)} x {size_text(gpus[0].total_bytes)} ({gpus[0].name})"
    what = f"{model.name}, {size_text(model.weights_bytes)} of weights, does not go on {memory}"
    return NoPlan(what, rejected, do)


def _preference(candidate: Candidate, model: ModelFacts) -> tuple[bool, bool, bool, tuple[bool, int], Version, float]:
    # one that cannot be imported comes last: where it is all there is, preflight says what is wrong with it
    return (
        not candidate.facts.import_error,
        known_or(candidate.facts.device, "") != "cpu",
        not candidate.engine.recorded,
        preference(candidate.engine.kind, model.format),
        version_key(candidate.engine.version),
        candidate.engine.registered_at,
    )


def _try(model: ModelFacts, site: Site, candidate: Candidate, wishes: Wishes) -> Fit | tuple[Rejected, ...]:
    unfit = _asked_for(candidate, wishes) or build_unfit(candidate, site.machine)
    if unfit:
        return (Rejected(candidate.engine.ref, unfit),)
    if known_or(candidate.facts.device, "") == "cpu":
        if wishes.gpus:
            asked = f"a build for the CPU, and GPUs {_indices(wishes.gpus)} were asked for"
            return (Rejected(candidate.engine.ref, asked),)
        return planner(model, site, candidate, wishes).on_cpu()
    gpus = _usable_gpus(site.machine, wishes, site.claims)
    if isinstance(gpus, str):
        return (Rejected(candidate.engine.ref, gpus),)
    return planner(model, site, candidate, wishes).on_gpus(gpus)


def _asked_for(candidate: Candidate, wishes: Wishes) -> str:
    if wishes.engine in ("", candidate.engine.name, candidate.engine.ref):
        return ""
    return f"--engine {wishes.engine} was asked for"


def build_unfit(candidate: Candidate, machine: MachineFacts) -> str:
    """Why the build cannot run on any device of this machine; empty where it can."""
    device = candidate.facts.device
    if isinstance(device, Known) and device.value == "cuda" and not machine.gpus:
        return f"a build for CUDA, and no GPU is usable here: {machine.gpus_because}"
    if isinstance(device, Known) and device.value == "cuda" and not _is_nvidia(machine.gpus[0]):
        return f"a build for CUDA, and {machine.gpus[0].name} is no GPU for it"
    return ""


def _is_nvidia(gpu: Gpu) -> bool:
    """Compute capabilities are NVIDIA's; AMD's are names such as gfx942."""
    return known_or(gpu.compute_capability, "0").partition(".")[0].isdecimal()


def _usable_gpus(machine: MachineFacts, wishes: Wishes, claims: Mapping[int, str]) -> tuple[Gpu, ...] | str:
    by_index = {gpu.index: gpu for gpu in machine.gpus}
    if wishes.gpus is not None:
        absent = [index for index in wishes.gpus if index not in by_index]
        if absent:
            return f"--gpus names {_indices(absent)}; here are {_indices(by_index)}"
        return tuple(by_index[index] for index in wishes.gpus)
    free = tuple(gpu for gpu in machine.gpus if gpu.index not in claims and held_bytes(gpu) <= BUSY_BYTES)
    if free:
        return free
    used = "; ".join(f"GPU {gpu.index}: {_user_of(gpu, claims)}" for gpu in machine.gpus)
    return f"every GPU is in use ({used}); --gpus N takes one all the same"


def _user_of(gpu: Gpu, claims: Mapping[int, str]) -> str:
    if gpu.index in claims:
        return f"deployment {claims[gpu.index]}"
    return f"{size_text(held_bytes(gpu))} held, {holders_text(gpu)}"


def _indices(indices: object) -> str:
    return ",".join(str(index) for index in indices) if indices else "none"  # type: ignore[attr-defined]


def _plan(
    model: ModelFacts, site: Site, candidate: Candidate, fit: Fit, wishes: Wishes, rejected: tuple[Rejected, ...]
) -> Plan:
    asked = planner(model, site, candidate, wishes)
    settings = without_defaults(asked.settings(fit), candidate.facts)
    device = "GPUs" if fit.gpus else "the CPU"
    because = f"the newest registered build for {device} that runs this checkpoint here (of {len(rejected) + 1})"
    if candidate.engine.recorded:
        bring = to_have(candidate.engine.kind, candidate.engine.version)
        because = f"read from its published package; {bring} brings it here"
    elif wishes.engine:
        because = f"--engine {wishes.engine} asked for it"
    elif not rejected:
        because = "the only registered build"
    return Plan(
        model_path=model.path,
        model_digest=model.digest,
        served_model_name=wishes.served_model_name,
        engine=candidate.engine.ref,
        engine_kind=candidate.engine.kind,
        engine_because=because,
        gpus=fit.gpus,
        parallelism=fit.parallelism,
        settings=settings,
        budget=fit.budget,
        per_gpu=fit.budgets,
        kv_cache=fit.kv_cache,
        parallelism_because=fit.why_parallel,
        speed=fit.speed,
        hardware=fit.hardware,
        attention_backends=fit.attention_backends,
        experts_backend=fit.experts_backend,
        selector=fit.selector,
        workload=wishes.workload,
        alternatives=fit.alternatives,
        load_bytes=model.weights_bytes,
        findings=(*fit.findings, *asked.findings(settings, fit)),
        rejected=rejected + fit.rejected,
        context=fit.context,
    )


def _no_plan(model: ModelFacts, site: Site, wishes: Wishes, broken: Sequence[Rejected], outcomes: _Outcomes) -> NoPlan:
    rejected = (*broken, *(each for _, limits in outcomes for each in limits))
    if not rejected:
        do = f"holddown engine install {recipe_for(model.format)}    or    holddown engine add PYTHON|SERVER"
        return NoPlan("no engine is registered", (), do)
    if wishes.engine and not any(_is_called(each.candidate, wishes.engine) for each in (*broken, *_refs(outcomes))):
        known = ", ".join(each.candidate for each in rejected)
        return NoPlan(f"no engine {wishes.engine} is registered", (), f"--engine one of {known}")
    for candidate, limits in outcomes:
        if any(each.code.startswith("memory.") and each.parallelism for each in limits):
            return _does_not_fit(rejected, model, site, wishes, candidate, limits)
    other = "holddown node shows what there is; another build may know more: holddown engine install, engine add"
    of_build = "\n".join(dict.fromkeys(each.do for each in rejected if each.do))
    reasons = {each.why for each in rejected}
    what = reasons.pop() if len(reasons) == 1 else f"no engine runs {model.name} here"
    return NoPlan(what, rejected, of_build or other)


def _refs(outcomes: _Outcomes) -> tuple[Rejected, ...]:
    return tuple(Rejected(candidate.engine.ref, "") for candidate, _ in outcomes)


def _is_called(ref: str, wished: str) -> bool:
    return wished in (ref, ref.partition("@")[0])
