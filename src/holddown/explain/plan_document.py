"""A plan as the JSON document of `plan --json`: short names that scripts can rely on, plain numbers or null."""

from dataclasses import dataclass

from holddown.base.evidence import Known, Unknown
from holddown.base.finding import Finding
from holddown.launch.spec import LaunchSpec
from holddown.plan.estimate import Estimate, Share
from holddown.plan.memory import MemoryBudget
from holddown.plan.parallelism import Parallelism
from holddown.plan.plan import Alternative, NoPlan, Plan, Rejected


@dataclass(frozen=True, slots=True)
class EnginePart:
    name: str
    version: str
    because: str


@dataclass(frozen=True, slots=True)
class SplitPart:
    """Sizes; 1 where a dimension is not used."""

    tp: int
    pp: int
    dp: int
    ep: int
    dcp: int


@dataclass(frozen=True, slots=True)
class SettingPart:
    """flag: as on the command line, or a variable's name in capitals."""

    flag: str
    value: str
    because: str
    source: str
    alternative: str


@dataclass(frozen=True, slots=True)
class DevicePart:
    """One GPU's memory in bytes. capacity: what the engine is told it may use of device_bytes."""

    gpu: int
    device_bytes: int
    capacity_bytes: int
    weights_bytes: int
    weights_by_component: dict[str, int]
    kv_cache_bytes: int
    activation_bytes: int
    graph_bytes: int
    communication_bytes: int
    runtime_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """Of the fullest GPU, then of each. Tokens are those that its KV cache holds; null where that is not known."""

    weights_bytes: int
    weights_by_component: dict[str, int]
    kv_cache_dtype: str
    kv_bytes_per_token: int | None
    kv_cache_bytes: int
    kv_cache_tokens: int | None
    kv_cache_tokens_low: int | None
    kv_cache_tokens_high: int | None
    sequences: int | None
    activation_bytes: int
    graph_bytes: int
    communication_bytes: int
    runtime_bytes: int
    capacity_bytes: int
    device_bytes: int
    free_bytes: int
    per_gpu: tuple[DevicePart, ...]


@dataclass(frozen=True, slots=True)
class SpeedPart:
    """At the workload. dominated_by: shares of a decode step, largest first."""

    single_stream_tok_s: Estimate
    throughput_tok_s: Estimate
    tpot_ms: Estimate
    ttft_ms: Estimate
    dominated_by: tuple[Share, ...]


@dataclass(frozen=True, slots=True)
class WorkloadPart:
    name: str
    input_tokens: int
    output_tokens: int
    concurrency: int
    rate: float


@dataclass(frozen=True, slots=True)
class OtherPart:
    """Another way to run it. what: what stands against it, empty for an alternative. code: of that, dotted."""

    candidate: str
    parallelism: SplitPart | None
    replicas: int
    code: str
    what: str
    weights_bytes: int | None
    context_length: int | None
    kv_cache_tokens: int | None
    single_stream_tok_s: float | None
    throughput_tok_s: float | None


@dataclass(frozen=True, slots=True)
class PlanPart:
    """unknown: field -> why, for each null. env_because: variable -> why it is set."""

    engine: EnginePart
    model: str
    gpus: tuple[int, ...]
    parallelism: SplitPart
    parallelism_because: str
    context_length: int | None
    settings: tuple[SettingPart, ...]
    env: dict[str, str]
    env_because: dict[str, str]
    argv: tuple[str, ...]
    memory: MemoryPart
    workload: WorkloadPart
    speed: SpeedPart | None
    findings: tuple[Finding, ...]
    alternatives: tuple[OtherPart, ...]
    unknown: dict[str, str]


@dataclass(frozen=True, slots=True)
class PlanDocument:
    """plan: null when there is none; then why_not and do say why, and what would do."""

    plan: PlanPart | None
    why_not: str
    do: str
    rejected: tuple[OtherPart, ...]


def plan_document(plan: Plan | NoPlan, spec: LaunchSpec | None = None) -> PlanDocument:
    """spec: the exact command of a plan."""
    rejected = tuple(_rejected(each) for each in plan.rejected)
    if isinstance(plan, NoPlan):
        return PlanDocument(None, plan.what, plan.do, rejected)
    return PlanDocument(_plan(plan, spec), "", "", rejected)


def _plan(plan: Plan, spec: LaunchSpec | None) -> PlanPart:
    name, _, version = plan.engine.partition("@")
    env = spec.env if spec else ()
    context = plan.setting("max-model-len")
    return PlanPart(
        engine=EnginePart(name, version, plan.engine_because),
        model=plan.model_path,
        gpus=plan.gpus,
        parallelism=_split(plan.parallelism),
        parallelism_because=plan.parallelism_because,
        context_length=int(context.value) if context and context.value.isdecimal() else None,
        settings=tuple(
            SettingPart(
                each.name if each.name.isupper() else f"--{each.name}",
                each.value,
                each.because,
                str(each.source),
                each.alternative,
            )
            for each in plan.settings
        ),
        env={each.name: each.value for each in env},
        env_because={each.name: each.because for each in env},
        argv=spec.argv if spec else (),
        memory=_memory(plan),
        workload=WorkloadPart(
            plan.workload.name,
            plan.workload.input_tokens,
            plan.workload.output_tokens,
            plan.workload.concurrency,
            plan.workload.rate,
        ),
        speed=_speed(plan),
        findings=plan.findings,
        alternatives=tuple(_alternative(each) for each in plan.alternatives),
        unknown=_unknown(plan),
    )


def _split(split: Parallelism) -> SplitPart:
    return SplitPart(
        split.tensor_parallel_size,
        split.pipeline_parallel_size,
        split.data_parallel_size,
        split.expert_parallel_size,
        split.decode_context_parallel_size,
    )


def _components(budget: MemoryBudget) -> dict[str, int]:
    return {each.component: each.size_bytes for each in budget.weights}


def _memory(plan: Plan) -> MemoryPart:
    fullest, kv = plan.budget, plan.kv_cache
    known = kv is not None and kv.tokens > 0
    per_token = kv.bytes_per_token if kv else None
    return MemoryPart(
        weights_bytes=fullest.weights_bytes,
        weights_by_component=_components(fullest),
        kv_cache_dtype=kv.dtype if kv else "",
        kv_bytes_per_token=per_token.value if isinstance(per_token, Known) else None,
        kv_cache_bytes=fullest.kv_cache_bytes,
        kv_cache_tokens=kv.tokens if kv and known else None,
        kv_cache_tokens_low=kv.tokens_low if kv and known else None,
        kv_cache_tokens_high=kv.tokens_high if kv and known else None,
        sequences=kv.sequences if kv and known else None,
        activation_bytes=fullest.activation_bytes,
        graph_bytes=fullest.graph_bytes,
        communication_bytes=fullest.communication_bytes,
        runtime_bytes=fullest.runtime_bytes,
        capacity_bytes=fullest.capacity_bytes,
        device_bytes=fullest.device_bytes,
        free_bytes=fullest.free_bytes,
        per_gpu=tuple(_device(gpu, budget) for gpu, budget in zip(plan.gpus, plan.per_gpu, strict=False)),
    )


def _device(gpu: int, budget: MemoryBudget) -> DevicePart:
    return DevicePart(
        gpu=gpu,
        device_bytes=budget.device_bytes,
        capacity_bytes=budget.capacity_bytes,
        weights_bytes=budget.weights_bytes,
        weights_by_component=_components(budget),
        kv_cache_bytes=budget.kv_cache_bytes,
        activation_bytes=budget.activation_bytes,
        graph_bytes=budget.graph_bytes,
        communication_bytes=budget.communication_bytes,
        runtime_bytes=budget.runtime_bytes,
        free_bytes=budget.free_bytes,
    )


def _speed(plan: Plan) -> SpeedPart | None:
    if not isinstance(plan.speed, Known):
        return None
    speed = plan.speed.value
    return SpeedPart(
        speed.single_stream_tok_s, speed.throughput_tok_s, speed.tpot_ms, speed.ttft_ms, speed.dominated_by
    )


def _unknown(plan: Plan) -> dict[str, str]:
    facts = {"speed": plan.speed}
    unknown = {name: fact.why for name, fact in facts.items() if isinstance(fact, Unknown)}
    if plan.kv_cache is not None and isinstance(plan.kv_cache.bytes_per_token, Unknown):
        unknown["memory.kv_bytes_per_token"] = plan.kv_cache.bytes_per_token.why
    return unknown


def _rejected(each: Rejected) -> OtherPart:
    figures = each.figures
    return OtherPart(
        candidate=each.candidate,
        parallelism=_split(each.parallelism) if each.parallelism else None,
        replicas=1,
        code=each.code,
        what=each.why,
        weights_bytes=figures.weights_bytes if figures else None,
        context_length=figures.context if figures else None,
        kv_cache_tokens=figures.kv_cache_tokens if figures else None,
        single_stream_tok_s=figures.single_stream_tok_s if figures else None,
        throughput_tok_s=figures.throughput_tok_s if figures else None,
    )


def _alternative(each: Alternative) -> OtherPart:
    figures = each.figures
    return OtherPart(
        candidate=each.text,
        parallelism=_split(each.parallelism),
        replicas=each.replicas,
        code="",
        what="",
        weights_bytes=figures.weights_bytes,
        context_length=figures.context,
        kv_cache_tokens=figures.kv_cache_tokens,
        single_stream_tok_s=figures.single_stream_tok_s,
        throughput_tok_s=figures.throughput_tok_s,
    )
