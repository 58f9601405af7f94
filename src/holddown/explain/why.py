"""Why a deployment runs as it does: the plan with every because, and the exact command."""

import shlex
from collections.abc import Iterable

from holddown.base.units import size_text
from holddown.launch.spec import LaunchSpec
from holddown.plan.plan import NoPlan, Plan, Rejected, Setting


def plan_text(plan: Plan, spec: LaunchSpec) -> str:
    """The whole plan: engine, split, memory, each setting with its because, what was rejected, the command."""
    budget = plan.budget
    where = f"GPU {','.join(map(str, plan.gpus))}" if plan.gpus else "CPU"
    split = plan.parallelism
    kinds = (("pipeline", split.pipeline_parallel_size), ("data", split.data_parallel_size))
    further = "".join(f", {kind} parallel {size}" for kind, size in kinds if size > 1)
    lines = [
        f"engine    {plan.engine}: {plan.engine_because}",
        f"on        {where}, tensor parallel {split.tensor_parallel_size}{further}",
        f"memory    {size_text(budget.weights_bytes)} weights + {size_text(budget.kv_cache_bytes)} KV cache + "
        f"{size_text(budget.other_bytes)} engine, of {size_text(budget.capacity_bytes)}"
        + (" per GPU" if plan.gpus else " free RAM"),
        f"address   {spec.base_url}/v1" + (", with an API key" if spec.secrets else ""),
        "settings",
        *(f"  {line}" for setting in plan.settings for line in setting_lines(setting)),
    ]
    if spec.env:
        lines += ["environment", *(f"  {each.name}={each.value}\n      because {each.because}" for each in spec.env)]
    if plan.rejected:
        lines += ["not taken", *(f"  {line}" for line in rejected_lines(plan.rejected))]
    return "\n".join([*lines, "command", f"  {command_text(spec)}"])


def setting_lines(setting: Setting) -> list[str]:
    """The flag, its because with its source, and what else could be said."""
    lines = [f"--{setting.name} {setting.value}", f"    because {setting.because}", f"    from    {setting.source}"]
    if setting.alternative:
        lines.append(f"    else    {setting.alternative}")
    return lines


def rejected_lines(rejected: Iterable[Rejected]) -> list[str]:
    return [f"{each.candidate}: {each.why}" for each in rejected]


def no_plan_text(no: NoPlan) -> str:
    lines = [f"no plan: {no.what}", *(f"  {line}" for line in rejected_lines(no.rejected))]
    return "\n".join([*lines, f"  do:   {no.do}"])


def command_text(spec: LaunchSpec) -> str:
    """What could be pasted into a shell. A secret is named, never shown."""
    secrets = [f'{secret.name}="$(cat {shlex.quote(secret.path)})"' for secret in spec.secrets]
    variables = [f"{each.name}={shlex.quote(each.value)}" for each in spec.env]
    return " ".join([*secrets, *variables, shlex.join(spec.argv)])
