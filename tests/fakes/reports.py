"""Deployments with runs, as a report or a comparison is made of: on two GPUs, released, verified and measured."""

from collections.abc import Sequence
from dataclasses import replace
from math import sin

from fakes.facts import model
from fakes.records import a_birth, a_plan
from fakes.runs import a_subject
from holddown.base.evidence import Unknown, from_file, from_probe
from holddown.base.finding import Finding, Severity
from holddown.base.units import GIB
from holddown.explain.report.told import Told
from holddown.facts.attention import FullAttention
from holddown.facts.engine_report import EngineReport
from holddown.facts.model import ModelFacts
from holddown.facts.weight_groups import Component, Split, WeightGroup
from holddown.launch.lifecycle import State
from holddown.launch.phases import Phase as StartPhase
from holddown.measure.metrics import Measurement
from holddown.measure.run import Arrival, ClientSide, Closed, EngineSide, Figure, Phase, Trace
from holddown.measure.stats import percentile
from holddown.plan.memory import MemoryBudget
from holddown.plan.parallelism import Parallelism
from holddown.plan.plan import KvCache, Plan
from holddown.plan.rig import Hardware
from holddown.remember.record import Birth, Deployment, PhaseTime, Status
from holddown.remember.run import BenchRun, VerifyRun
from holddown.verify.verdict import Outcome, Verdict

_UNTOLD = Unknown("a fake")


def a_gpu_plan() -> Plan:
    """Of two H200 with a prediction's ground."""
    budget = MemoryBudget(
        126 * GIB, 7 * GIB, 100 * GIB, 2 * GIB, 3 * GIB, 1 * GIB, device_bytes=140 * GIB, beyond_bytes=2 * GIB
    )
    return replace(
        a_plan(),
        gpus=(0, 1),
        parallelism=Parallelism(tensor_parallel_size=2),
        parallelism_because="it is faster than one",
        budget=budget,
        per_gpu=(budget, budget),
        hardware=Hardware("H200 SXM", "nvlink4", "vllm"),
        kv_cache=KvCache("bfloat16", 2, from_file(131072, "config.json"), 800_000, 700_000, 820_000, 20),
        context=32768,
    )


def a_predictable_model() -> ModelFacts:
    dense = WeightGroup("layers.*.mlp.up_proj", Component.DENSE_MLP, Split.COLUMN, "bf16", 32, 7 * 10**9, 14 * 10**9)
    attention = from_file((FullAttention(32, 32, 8, 128, 128),), "config.json")
    return replace(model(), weights=(dense,), attention=attention)


def a_gpu_birth(id: str = "0123abcd", name: str = "m", created_at: float = 10_000.0, plan: Plan | None = None) -> Birth:
    return replace(
        a_birth(id, name, plan=plan or a_gpu_plan(), created_at=created_at),
        model=a_predictable_model(),
    )


def a_status(state: State = State.RELEASED) -> Status:
    return Status(
        state,
        since=10_100.0,
        phases=(PhaseTime(StartPhase.SERVER, 95.0),),
        verdicts=(
            Verdict("coherence", Outcome.PASSED, "3 of 3 answers sound"),
            Verdict("streaming", Outcome.SKIPPED, "--skip-check"),
        ),
        measurements=(
            Measurement("ttft", 20.0, "ms", 50, 3, 1, 64, 128),
            Measurement("output_throughput", 200.0, "tok/s", 0, 3, 1, 64, 128),
            Measurement("output_throughput", 1200.0, "tok/s", 0, 8, 8, 64, 128),
        ),
        report=EngineReport(attention=("FLASH_ATTN",), config=(("cache_config.kv_cache_size_tokens", "790000"),)),
    )


def a_deployment(id: str = "0123abcd", name: str = "m", state: State = State.RELEASED) -> Deployment:
    return Deployment(a_gpu_birth(id, name), a_status(state))


def a_failed_start(id: str = "0123abcc") -> Deployment:
    """Of which the next one learned."""
    cause = Finding(
        code="engine.out-of-memory",
        severity=Severity.BLOCK,
        subject="engine",
        what="CUDA ran out of memory while it captured graphs",
        seen="line 7: OutOfMemoryError",
        do="--set gpu-memory-utilization=0.88",
    )
    edits = (("gpu-memory-utilization", "0.88"),)
    birth = a_gpu_birth(id, created_at=9_000.0)
    return Deployment(birth, Status(State.FAILED, 9_900.0, why=cause.what, cause=cause, edits=edits))


def a_load(
    arrival: Arrival, n: int = 24, token_ms: float = 10.0, ttft_ms: float = 100.0, shift: int = 0, limited: str = ""
) -> Phase:
    """n requests of 64 tokens whose times lie around those given, by a tenth, each a little different; another `shift`
    gives other ones. No chance is in it."""
    users = arrival.concurrency if isinstance(arrival, Closed) else 4
    ends = [0.0] * users
    traces = []
    for number in range(n):
        user = ends.index(min(ends))
        first = ends[user] + ttft_ms / 1000 * (1 + 0.1 * sin(12.9898 * (number + 1) + shift))
        last = first + 63 * token_ms / 1000 * (1 + 0.1 * sin(78.233 * (number + 1) + shift))
        traces.append(Trace(ends[user], ends[user], first, last, 512, 64, 64))
        ends[user] = last
    pauses = tuple(token_ms * (0.8 + 0.004 * step) for step in range(101))
    seconds = max(ends)
    return Phase(
        arrival=arrival,
        began_at=10_500.0,
        seconds=seconds,
        traces=tuple(traces),
        itl_quantiles_ms=pauses,
        itl_count=63 * n,
        figures=_figures(traces, pauses, seconds),
        engine=EngineSide(from_probe(float(users), "m"), _UNTOLD, from_probe(0.4, "m"), _UNTOLD, _UNTOLD, _UNTOLD),
        client=ClientSide(1, 0.02, 0.1, 0.2, limited),
        energy_joules=_UNTOLD,
    )


def _figures(traces: Sequence[Trace], pauses: Sequence[float], seconds: float) -> tuple[Figure, ...]:
    firsts = [1000 * ((each.first_s or 0.0) - each.due_s) for each in traces]
    tokens = [1000 * (each.ended_s - (each.first_s or 0.0)) / 63 for each in traces]
    whole = [1000 * (each.ended_s - each.due_s) for each in traces]
    series = {"ttft": firsts, "tpot": tokens, "e2e": whole, "itl": pauses}
    found = [
        Figure(metric, at := percentile(values, rank), "ms", rank, len(values), 0.98 * at, 1.02 * at)
        for metric, values in series.items()
        for rank in (50, 95)
    ]
    rate = 64 * len(traces) / seconds
    return (*found, Figure("output_throughput", rate, "tok/s", 0, len(traces), 0.95 * rate, 1.05 * rate))


def a_sweep(id: str = "be0c0001", deployment: str = "0123abcd", loads: Sequence[Phase] = ()) -> BenchRun:
    phases = tuple(loads) or tuple(a_load(Closed(users), token_ms=5.0 + users) for users in (1, 4, 16))
    return BenchRun(id, 10_600.0, a_subject(deployment), "chat", 0, phases)


def a_verification() -> VerifyRun:
    leak = Finding("tools.leak", Severity.WARN, "tools", "a tool call came as text", "<tool_call>", "another parser")
    verdicts = (
        Verdict("coherence", Outcome.PASSED, "sound"),
        Verdict("tools", Outcome.FAILED, "14 of 16 calls are valid", (leak,)),
    )
    return VerifyRun("ce000001", 10_550.0, a_subject(), verdicts)


def told(
    deployment: Deployment | None = None,
    *,
    starts: tuple[Deployment, ...] = (),
    bench: BenchRun | None = None,
    verify: VerifyRun | None = None,
) -> Told:
    this = deployment or a_deployment()
    return Told(this, (*starts, this), bench, verify, at=11_000.0, version="0.1.0")
