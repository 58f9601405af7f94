"""A plan as a person reads it: what was decided, against what else, where memory goes, how fast, and the command."""

import shlex
from collections.abc import Iterable, Iterator, Sequence

from holddown.base.evidence import Known
from holddown.base.units import count_text, size_text
from holddown.explain.drawing import columns, stacked, wrapped
from holddown.launch.spec import EnvVar, LaunchSpec, SecretEnv
from holddown.plan.estimate import Estimate
from holddown.plan.memory import MemoryBudget
from holddown.plan.plan import Figures, NoPlan, Plan, Rejected, Setting

_BAR = 72
_GLUE = "\u00a0"
"""Holds a legend's fill, name and size together where its line is broken."""
_RIGHT = frozenset({1, 2, 3, 4, 5})


def plan_text(plan: Plan, spec: LaunchSpec) -> str:
    """The whole plan: engine, split, memory, speed, candidates, each setting with its because, the command."""
    blocks = [
        _head(plan, spec),
        _memory(plan),
        _candidates(plan),
        ["settings", *(line for setting in plan.settings for line in setting_lines(setting, indent=2))],
    ]
    of_settings = {setting.name for setting in plan.settings}
    env = [each for each in spec.env if each.name not in of_settings]
    if env:
        blocks.append(["environment", *(line for each in env for line in _variable(each))])
    blocks.append(["command", f"  {command_text(spec)}"])
    return "\n".join(line for block in blocks for line in block)


def _variable(each: EnvVar) -> list[str]:
    return [f"  {each.name}={each.value}", *wrapped("because ", each.because, 6)]


def _head(plan: Plan, spec: LaunchSpec) -> list[str]:
    where = f"{plan.parallelism.text} on GPU {','.join(map(str, plan.gpus))}" if plan.gpus else "the CPU"
    why = f": {plan.parallelism_because}" if plan.parallelism_because else ""
    return [
        *wrapped("engine    ", f"{plan.engine}: {plan.engine_because}"),
        *wrapped("on        ", where + why),
        f"address   {spec.base_url}/v1" + (", with an API key" if spec.secrets else ""),
        *_kernels(plan),
        *_speed(plan),
    ]


def _kernels(plan: Plan) -> Iterator[str]:
    """Which backends run attention and experts, and who says so where that is the build itself."""
    said = f" ({plan.selector})" if plan.selector else ""
    if plan.attention_backends:
        yield f"attention {', '.join(plan.attention_backends)}{said}"
    if plan.experts_backend:
        yield f"experts   {plan.experts_backend}{said}"


def _speed(plan: Plan) -> Iterator[str]:
    if not isinstance(plan.speed, Known):
        yield from wrapped("speed     ", f"not predicted: {plan.speed.why}")
        return
    speed, load = plan.speed.value, plan.workload
    yield (
        f"speed     one user {_band(speed.single_stream_tok_s)} tok/s; "
        f"{load.users_text} {_band(speed.throughput_tok_s)} tok/s"
    )
    yield (
        f"          {load.name}: {load.input_tokens} tokens in, {load.output_tokens} out; first token after "
        f"{_band(speed.ttft_ms)} ms"
    )
    shares = ", ".join(f"{share.fraction:.0%} {share.name.replace('_', ' ')}" for share in speed.dominated_by[:4])
    yield f"          a decode step is {shares}"


def _band(estimate: Estimate) -> str:
    return f"{_figure(estimate.value)} ({_figure(estimate.low)} to {_figure(estimate.high)})"


def _figure(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def _memory(plan: Plan) -> Iterator[str]:
    budget, kv = plan.budget, plan.kv_cache
    per = "per GPU" if plan.gpus else "of free RAM"
    within = budget.other_bytes - budget.beyond_bytes
    yield (
        f"memory    {size_text(budget.weights_bytes)} weights + {size_text(budget.kv_cache_bytes)} KV cache"
        f"{f' + {size_text(within)} engine' if within else ''}, of {size_text(budget.capacity_bytes)} {per}"
    )
    if budget.beyond_bytes:
        beyond = "CUDA context and graphs" if budget.beyond_bytes > budget.runtime_bytes else "CUDA context"
        beyond = beyond if within else "activations, CUDA context and graphs"
        yield f"          and {size_text(budget.beyond_bytes)} beside that share, for the engine's {beyond}"
    if kv is not None and kv.tokens:
        yield (
            f"          the KV cache ({kv.dtype}) holds {count_text(kv.tokens)} tokens"
            + (f" ({count_text(kv.tokens_low)} to {count_text(kv.tokens_high)})" if kv.tokens_low < kv.tokens else "")
        )
    yield from _bars(plan)


def _bars(plan: Plan) -> Iterator[str]:
    """A bar for each GPU that differs from the one before it, and one legend."""
    shown = devices(plan)
    for name, budget in shown:
        text, fills = stacked(memory_parts(budget), budget.device_bytes, _BAR)
        yield f"  GPU {name:<5} |{text}| {size_text(budget.device_bytes)}"
        if (name, budget) == shown[-1]:
            named = zip(fills, memory_parts(budget), strict=True)
            legend = (f"{fill} {label} {size_text(size)}".replace(" ", _GLUE) for fill, (label, size) in named)
            yield from (line.replace(_GLUE, " ") for line in wrapped("", "  ".join(legend), 12))


def devices(plan: Plan) -> list[tuple[str, MemoryBudget]]:
    """`0-3` and what one of them holds; GPUs that are alike and beside each other are one. None on a CPU."""
    shown: list[tuple[str, MemoryBudget]] = []
    for gpu, budget in zip(plan.gpus, plan.per_gpu, strict=False):
        if shown and shown[-1][1] == budget:
            shown[-1] = (f"{shown[-1][0].split('-')[0]}-{gpu}", budget)
        else:
            shown.append((f"{gpu}", budget))
    return shown


def memory_parts(budget: MemoryBudget) -> list[tuple[str, int]]:
    """What takes memory, by name, in the order in which it is drawn."""
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
        rows = list(_rows(plan, fitting))
        yield from (f"  {line}" for line in columns([_HEADER, *rows[:_ROWS]], _RIGHT))
        if len(rows) > _ROWS:
            yield f"  and {len(rows) - _ROWS} more that fit (--json has them)"
    limits = [each for each in plan.rejected if not each.figures]
    if limits:
        yield "not taken"
        yield from rejected_lines(limits, indent=2)


_HEADER = ("SPLIT", "GPUS", "WEIGHTS", "KV TOKENS", "1 USER", "ALL USERS", "")
_ROWS = 9


def _rows(plan: Plan, fitting: list[Rejected]) -> Iterator[tuple[str, ...]]:
    guesses = plan.setting("speculative-config") is not None
    text = plan.parallelism.text + (" + MTP" if guesses else "")
    yield _row(text, plan.parallelism.world_size, _own(plan), "taken")
    for other in plan.alternatives:
        gpus = other.replicas * other.parallelism.world_size
        note = _note(plan, other.figures) or "another way"
        stages = other.parallelism.pipeline_parallel_size > 1
        yield _row(other.text, gpus, other.figures, f"{note}, never compared with a run" if stages else note)
    offered = {other.text for other in plan.alternatives}
    for each in fitting:
        if each.candidate not in offered and each.figures and each.parallelism:
            yield _row(each.candidate, each.parallelism.world_size, each.figures, _note(plan, each.figures))


def _note(plan: Plan, figures: Figures) -> str:
    """What it has less of, or more, than the plan."""
    own = _own(plan)
    if figures.context and own.context and figures.context < own.context:
        return f"context {figures.context}"
    if figures.throughput_tok_s and own.throughput_tok_s:
        return f"{figures.throughput_tok_s / own.throughput_tok_s:.2f} x"
    return ""


def _own(plan: Plan) -> Figures:
    speed = plan.speed.value if isinstance(plan.speed, Known) else None
    return Figures(
        max((budget.weights_bytes for budget in plan.per_gpu), default=plan.budget.weights_bytes),
        plan.context,
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


def setting_lines(setting: Setting, indent: int = 0) -> list[str]:
    """The flag, its because with its source, and what else could be said."""
    is_variable = setting.name.isupper()
    flag = f"{setting.name}={setting.value}" if is_variable else f"--{setting.name} {setting.value}"
    lines = [" " * indent + flag, *wrapped("because ", setting.because, indent + 4)]
    lines += wrapped("from    ", str(setting.source), indent + 4)
    return lines + (wrapped("else    ", setting.alternative, indent + 4) if setting.alternative else [])


def rejected_lines(rejected: Iterable[Rejected], indent: int = 0) -> list[str]:
    """One entry for each limit, with all the candidates that it bound."""
    names: dict[str, list[str]] = {}
    for each in rejected:
        names.setdefault(each.why, []).append(each.candidate)
    return [line for why, bound in names.items() for line in wrapped("", f"{', '.join(bound)}: {why}", indent)]


def no_plan_text(no: NoPlan) -> str:
    lines = [*wrapped("", f"no plan: {no.what}"), *rejected_lines(no.rejected, indent=2)]
    labels = ["do:   ", *(["      "] * no.do.count("\n"))]
    remedies = zip(labels, no.do.splitlines(), strict=True)
    return "\n".join([*lines, *(line for label, text in remedies for line in wrapped(label, text, 2))])


def command_text(spec: LaunchSpec, between: str = " ") -> str:
    """What could be pasted into a shell. A secret is named, never shown. between: options, each with its value."""
    secrets = [f"{secret.name}={_read(secret)}" for secret in spec.secrets if not secret.file]
    files = [
        f"(umask 077; echo {secret.name}: {_read(secret)} > {secret.file}) &&" for secret in spec.secrets if secret.file
    ]
    variables = [f"{each.name}={shlex.quote(each.value)}" for each in spec.env]
    return between.join([*files, *secrets, *variables, *_options(spec.argv)])


def _options(argv: Sequence[str]) -> list[str]:
    """The program with its first words, then each option with its values, quoted for a shell."""
    groups: list[list[str]] = [[]]
    for word in argv:
        if word.startswith("--"):
            groups.append([])
        groups[-1].append(word)
    return [shlex.join(group) for group in groups if group]


def _read(secret: SecretEnv) -> str:
    return f'"$(cat {shlex.quote(secret.path)})"'
