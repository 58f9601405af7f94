"""llama.cpp's server: a plan becomes its command, a log line becomes a phase."""

from collections.abc import Iterator

from holddown.base.finding import Finding
from holddown.facts.engine import Engine, EngineFacts, Flag, Takes
from holddown.launch.flags import is_variable, owned_by_holddown, refused
from holddown.launch.phases import PhaseSeen, phase_in
from holddown.launch.spec import Binding, EnvVar, LaunchSpec, SecretEnv
from holddown.plan.plan import Plan, Setting

_SAID_OTHERWISE = {
    "true": "on",
    "enabled": "on",
    "1": "on",
    "false": "off",
    "disabled": "off",
    "0": "off",
    "-1": "auto",
}
"""Source: llama.cpp b11434 common/arg.cpp is_truthy, is_falsey, is_autoy."""


def command(plan: Plan, engine: Engine, facts: EngineFacts, binding: Binding) -> LaunchSpec:
    """The exact command that runs `plan`."""
    argv = [
        *(engine.program or "llama-server", "--model", plan.model_path, "--alias", plan.served_model_name),
        *("--host", binding.host, "--port", str(binding.port)),
    ]
    asked = [EnvVar(each.name, each.value, each.because) for each in plan.settings if is_variable(each.name)]
    for setting in plan.settings:
        argv += [] if is_variable(setting.name) else _argument(setting, facts)
    own = [each for each in _environment(plan) if each.name not in {variable.name for variable in asked}]
    secrets = (SecretEnv("LLAMA_API_KEY", binding.api_key_file),) if binding.api_key_file else ()
    return LaunchSpec(tuple(argv), (*own, *asked), secrets, binding.host, binding.port)


def unknown_flags(plan: Plan, facts: EngineFacts) -> tuple[Finding, ...]:
    """Settings that this build refuses: names that its parser does not have, and values that it does not list."""
    return tuple(finding for setting in plan.settings for finding in _refused(setting, facts))


def owned(name: str) -> str:
    """What to use in place of a setting that holddown itself gives to the engine; empty for every other."""
    return owned_by_holddown("llamacpp", name)


def phase(line: str) -> PhaseSeen | None:
    """What one log line says about where the start is; None for a line that says nothing about it."""
    return phase_in("llamacpp", line)


def _argument(setting: Setting, facts: EngineFacts) -> list[str]:
    """A switch stands alone; `false` is its negative form where it has one, and else nothing."""
    flag = facts.flag(setting.name)
    is_switch = setting.value in ("true", "false") if flag is None else flag.takes is Takes.NOTHING
    if not is_switch:
        return [_dashed(setting.name, flag), setting.value]
    if setting.value == "true":
        return [_dashed(setting.name, flag)]
    negative = facts.flag(f"no-{flag.name.lstrip('-')}") if flag else None
    return [negative.name] if negative else []


def _dashed(name: str, flag: Flag | None) -> str:
    """`ctx-size` -> `--ctx-size`, `c` -> `-c`: `fit` is both, and stays long."""
    bare = name.lstrip("-")
    names = (flag.name, *flag.aliases) if flag else ()
    return f"-{bare}" if f"-{bare}" in names and f"--{bare}" not in names else f"--{bare}"


def _environment(plan: Plan) -> Iterator[EnvVar]:
    if plan.gpus:
        yield EnvVar("CUDA_DEVICE_ORDER", "PCI_BUS_ID", "so that GPU indices mean the same as in nvidia-smi")
        yield EnvVar("CUDA_VISIBLE_DEVICES", ",".join(str(gpu) for gpu in plan.gpus), "the GPUs of the plan, no others")


def _refused(setting: Setting, facts: EngineFacts) -> Iterator[Finding]:
    if is_variable(setting.name):
        return
    flag = facts.flag(setting.name)
    if flag is None or _SAID_OTHERWISE.get(setting.value, "") not in flag.choices:
        yield from refused(setting, flag, facts)
