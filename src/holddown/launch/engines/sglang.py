"""SGLang: a plan becomes its command, a log line becomes a phase."""

import re
from collections.abc import Iterator

from holddown.base.finding import Finding
from holddown.facts.config_types import SWITCH
from holddown.facts.engine import Engine, EngineFacts
from holddown.launch.environment import UNBUFFERED, python_environment
from holddown.launch.flags import is_variable, owned_by_holddown, refused
from holddown.launch.phases import PhaseSeen, phase_in
from holddown.launch.spec import Binding, EnvVar, LaunchSpec, secret_in_file
from holddown.plan.plan import Plan, Setting

_KEY_FILE = "api-key.yaml"
# `[2026-05-04 10:00:00 TP0] message`, with milliseconds where asked for; uvicorn's and tqdm's lines have none of it
_PREFIX = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?[^\]]*\] ")


def command(plan: Plan, engine: Engine, facts: EngineFacts, binding: Binding) -> LaunchSpec:
    """The exact command that runs `plan`.

    The server is started as a module, which every release has; `sglang serve` came later. A key stands in a file that
    `--config` names: SGLang reads none from the environment, and a command line is readable by every user.
    Source: SGLang 0.5.8 srt/server_args_config_parser.py, 0.5.23 srt/utils/server_args_config_parser.py.
    """
    argv = [
        *(engine.python, "-m", "sglang.launch_server"),
        *("--model-path", plan.model_path, "--served-model-name", plan.served_model_name),
        *("--host", binding.host, "--port", str(binding.port), "--enable-metrics"),
    ]
    if binding.api_key_file:
        argv += ["--config", _KEY_FILE]
    asked = [setting for setting in plan.settings if is_variable(setting.name)]
    for setting in plan.settings:
        argv += [] if is_variable(setting.name) else _argument(setting, facts)
    asked_env = tuple(EnvVar(each.name, each.value, each.because) for each in asked)
    env = [each for each in _environment(plan, engine) if each.name not in {asked.name for asked in asked_env}]
    secrets = (secret_in_file("api-key", binding.api_key_file, _KEY_FILE),) if binding.api_key_file else ()
    return LaunchSpec(tuple(argv), (*env, *asked_env), secrets, binding.host, binding.port)


def unknown_flags(plan: Plan, facts: EngineFacts) -> tuple[Finding, ...]:
    """Settings that this build refuses: names that its parser does not have, and values that it does not list."""
    return tuple(finding for setting in plan.settings for finding in _refused(setting, facts))


def owned(name: str) -> str:
    """What to use in place of a setting that holddown itself gives to the engine; empty for every other."""
    return owned_by_holddown("sglang", name)


def phase(line: str) -> PhaseSeen | None:
    """What one log line says about where the start is; None for a line that says nothing about it."""
    return phase_in("sglang", _PREFIX.sub("", line.strip("\r\n ")))


def _argument(setting: Setting, facts: EngineFacts) -> list[str]:
    """`true` -> `--flag`; `false` -> `--no-flag` where there is a twin, else nothing; words of a list one by one."""
    flag = facts.flag(setting.name)
    if setting.value in ("true", "false") and (flag is None or "true" in flag.choices):
        if setting.value == "true":
            return [f"--{setting.name}"]
        return [] if flag is None or flag.choices == SWITCH else [f"--no-{setting.name}"]
    several = flag is not None and flag.several
    return [f"--{setting.name}", *(setting.value.split() if several else [setting.value])]


def _environment(plan: Plan, engine: Engine) -> Iterator[EnvVar]:
    yield from python_environment(plan, engine)
    yield UNBUFFERED


def _refused(setting: Setting, facts: EngineFacts) -> Iterator[Finding]:
    if is_variable(setting.name):
        return
    yield from refused(setting, facts.flag(setting.name) or facts.flag(setting.name.removeprefix("no-")), facts)
