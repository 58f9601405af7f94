"""A plan as a person reads it: what was decided, against what else, where memory goes, how fast, and the command."""

import shlex
from collections.abc import Iterable, Iterator

from holddown.base.evidence import Known
from holddown.base.units import count_text, size_text
from holddown.explain.drawing import columns, stacked
from holddown.launch.spec import LaunchSpec
from holddown.plan.estimate import Estimate
from holddown.plan.memory import MemoryBudget
from holddown.plan.plan import Figures, NoPlan, Plan, Rejected, Setting

_BAR = 60
_RIGHT = frozenset({1, 2, 3, 4, 5})


def plan_text(plan: Plan, spec: LaunchSpec) -> str:
    """The whole plan: engine, split, memory, speed, candidates, each setting with its because, the command."""
    blocks = [
        _head(plan, spec),
        _memory(plan),
        _candidates(plan),
        ["settings", *(f"  {line}" for setting in plan.settings for line in setting_lines(setting))],
    ]
    if spec.env:
        env = (f"  {each.name}={each.value}\n      because {each.because}" for each in spec.env)
        blocks.append(["environment", *env])
    blocks.append(["command", f"  {command_text(spec)}"])
    return "\n".join(line for block in blocks for line in block)


def _head(plan: Plan, spec: LaunchSpec) -> list[str]:
    where = f"{plan.parallelism.text} on GPU {','.join(map(str, plan.gpus))}" if plan.gpus else "the CPU"
    why = f": {plan.parallelism_because}" if plan.parallelism_because else ""
    lines = [
        f"engine    {plan.engine}: {plan.engine_because}",
        f"on        {where}{why}",
        f"address   {spec.base_url}/v1" + (", with an API key" if spec.secrets else ""),
    ]
    return [*lines, *_speed(plan)]


def _speed(plan: Plan) -> Iterator[str]:
    if not isinstance(plan.speed, Known):
        yield f"speed     not predicted: {plan.speed.why}"
        return
    speed, load = plan.speed.value, plan.workload
    users = f"{load.concurrency} users" if load.concurrency else "as many users as fit"
    yield (
        f"speed     one user {_band(speed.single_stream_tok_s)} tok/s; {users} {_band(speed.throughput_tok_s)} tok/s "
        f"({load.name}: {load.input_tokens} tokens in, {load.output_tokens} out)"
    )
    shares = ", ".join(f"{share.fraction:.0%} {share.name}" for share in speed.dominated_by[:3])
    yield f"          first token after {_band(speed.ttft_ms)} ms; a decode step is {shares}"


def _band(estimate: Estimate) -> str:
    return f"{_figure(estimate.value)} ({_figure(estimate.low)} to {_figure(estimate.high)})"


def _figure(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def _memory(plan: Plan) -> Iterator[str]:
    budget, kv = plan.budget, plan.kv_cache
    per = "per GPU" if plan.gpus else "of free RAM"
    yield (
        f"memory    {size_text(budget.weights_bytes)} weights + {size_text(budget.kv_cache_bytes)} KV cache + "
        f"{size_text(budget.other_bytes)} engine, of {size_text(budget.capacity_bytes)} {per}"
    )
    if kv is not None and kv.tokens:
        yield (
            f"          the KV cache ({kv.dtype}) holds {count_text(kv.tokens)} tokens "
            f"({count_text(kv.tokens_low)} to {count_text(kv.tokens_high)})"
        )
    yield from _bars(plan)


def _bars(plan: Plan) -> Iterator[str]:
    """A bar for each GPU that differs from the one before it, and one legend."""
    shown: list[tuple[str, MemoryBudget]] = []
    for gpu, budget in zip(plan.gpus, plan.per_gpu, strict=False):
        if shown and shown[-1][1] == budget:
            shown[-1] = (f"{shown[-1][0].split('-')[0]}-{gpu}", budget)
        else:
            shown.append((f"{gpu}", budget))
    for name, budget in shown:
        text, fills = stacked(_parts(budget), budget.device_bytes, _BAR)
        yield f"  GPU {name:<5} |{text}| {size_text(budget.device_bytes)}"
        if (name, budget) == shown[-1]:
            named = zip(fills, _parts(budget), strict=True)
            yield "            " + "  ".join(f"{fill} {label} {size_text(size)}" for fill, (label, size) in named)


def _parts(budget: MemoryBudget) -> list[tuple[str, int]]:
    parts = [
        ("weights", budget.weights_bytes),
        ("KV cache", budget.kv_cache_bytes),
        ("activations", budget.activation_bytes),
        ("graphs", budget.graph_bytes),
        ("context and NCCL", budget.runtime_bytes + budget.communication_bytes),
    ]
    return [(label, size) for label, size in parts if size]


def _candidates(plan: Plan) -> Iterator[str]:
    fitting = [each for each in plan.rejected if each.figures]
    if fitting or plan.alternatives:
        yield "candidates"
        yield from (f"  {line}" for line in columns([_HEADER, *_rows(plan, fitting)], _RIGHT))
    limits = [each for each in plan.rejected if not each.figures]
    if limits:
        yield "not taken"
        yield from (f"  {line}" for line in rejected_lines(limits))


_HEADER = ("SPLIT", "GPUS", "WEIGHTS", "KV TOKENS", "1 USER", "ALL USERS", "")


def _rows(plan: Plan, fitting: list[Rejected]) -> Iterator[tuple[str, ...]]:
    yield _row(plan.parallelism.text, plan.parallelism.world_size, _own(plan), "taken")
    for other in plan.alternatives:
        gpus = other.replicas * other.parallelism.world_size
        yield _row(other.text, gpus, other.figures, "the next best of another kind")
    offered = {other.text for other in plan.alternatives}
    for each in fitting:
        if each.candidate not in offered and each.figures and each.parallelism:
            yield _row(each.candidate, each.parallelism.world_size, each.figures, each.why)


def _own(plan: Plan) -> Figures:
    speed = plan.speed.value if isinstance(plan.speed, Known) else None
    return Figures(
        max((budget.weights_bytes for budget in plan.per_gpu), default=plan.budget.weights_bytes),
        0,
        plan.kv_cache.tokens if plan.kv_cache else 0,
        speed.single_stream_tok_s.value if speed else None,
        speed.throughput_tok_s.value if speed else None,
    )


def _row(split: str, gpus: int, figures: Figures, what: str) -> tuple[str, ...]:
    def speed(value: float | None) -> str:
        return "?" if value is None else _figure(value)

    return (
        split,
        str(gpus),
        size_text(figures.weights_bytes),
        count_text(figures.kv_cache_tokens) if figures.kv_cache_tokens else "?",
        speed(figures.single_stream_tok_s),
        speed(figures.throughput_tok_s),
        what,
    )


def setting_lines(setting: Setting) -> list[str]:
    """The flag, its because with its source, and what else could be said."""
    name = setting.name if setting.name.isupper() else f"--{setting.name}"
    lines = [f"{name} {setting.value}", f"    because {setting.because}", f"    from    {setting.source}"]
    if setting.alternative:
        lines.append(f"    else    {setting.alternative}")
    return lines


def rejected_lines(rejected: Iterable[Rejected]) -> list[str]:
    """One line for each limit, with all the candidates that it bound."""
    names: dict[str, list[str]] = {}
    for each in rejected:
        names.setdefault(each.why, []).append(each.candidate)
    return [f"{', '.join(bound)}: {why}" for why, bound in names.items()]


def no_plan_text(no: NoPlan) -> str:
    lines = [f"no plan: {no.what}", *(f"  {line}" for line in rejected_lines(no.rejected))]
    first, *further = no.do.splitlines()
    return "\n".join([*lines, f"  do:   {first}", *(f"        {line}" for line in further)])


def command_text(spec: LaunchSpec) -> str:
    """What could be pasted into a shell. A secret is named, never shown."""
    secrets = [f'{secret.name}="$(cat {shlex.quote(secret.path)})"' for secret in spec.secrets]
    variables = [f"{each.name}={shlex.quote(each.value)}" for each in spec.env]
    return " ".join([*secrets, *variables, shlex.join(spec.argv)])
