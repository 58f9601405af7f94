"""A plan becomes SGLang's command."""

from dataclasses import replace

from fakes.engine import an_engine, engine_facts
from holddown.base.evidence import Source, SourceKind
from holddown.base.finding import Severity
from holddown.facts.engine import Engine, EngineFacts, Flag, Takes
from holddown.launch.engines.sglang import command, owned, unknown_flags
from holddown.launch.spec import Binding, LaunchSpec, secret_in_file
from holddown.plan.memory import MemoryBudget
from holddown.plan.parallelism import Parallelism
from holddown.plan.plan import Plan, Setting

FLAGS = (
    Flag("--tensor-parallel-size", takes=Takes.INTEGER, aliases=("--tp-size",)),
    Flag("--context-length", takes=Takes.INTEGER),
    Flag("--kv-cache-dtype", ("auto", "bf16", "fp8_e4m3")),
    Flag("--disable-shared-experts-fusion", ("true",), Takes.NOTHING),
    Flag("--enable-tf32-matmul", ("true", "false"), Takes.NOTHING),
    Flag("--prefixes", takes=Takes.TEXT, several=True),
)
FACTS: EngineFacts = replace(engine_facts("cuda", "0.5.23", FLAGS), kind="sglang")
ENGINE: Engine = replace(an_engine("sglang", "0.5.23"), kind="sglang")
START = [
    *("/envs/sglang-0.5.23/bin/python", "-m", "sglang.launch_server"),
    *("--model-path", "/m", "--served-model-name", "chat", "--host", "127.0.0.1", "--port", "8000", "--enable-metrics"),
]


def wish(name: str, value: str) -> Setting:
    return Setting(name, value, "you set it", Source(SourceKind.USER, f"--set {name}={value}"))


def a_plan(*settings: Setting, gpus: tuple[int, ...] = ()) -> Plan:
    return Plan(
        model_path="/m",
        model_digest="d",
        served_model_name="chat",
        engine="sglang@0.5.23",
        engine_kind="sglang",
        engine_because="the only one",
        gpus=gpus,
        parallelism=Parallelism(),
        settings=settings,
        budget=MemoryBudget(1, 0, 0, 0),
        load_bytes=0,
        findings=(),
        rejected=(),
    )


def launched(*settings: Setting, gpus: tuple[int, ...] = (), binding: Binding | None = None) -> LaunchSpec:
    return command(a_plan(*settings, gpus=gpus), ENGINE, FACTS, binding or Binding())


def test_the_server_is_a_module_with_metrics() -> None:
    """Which every release has; without --enable-metrics there is no /metrics."""
    assert list(launched().argv) == START


def test_settings_become_options() -> None:
    """Switches without a value, lists word by word, names as they are, variables into the environment."""
    spec = launched(
        wish("tp-size", "8"),
        wish("disable-shared-experts-fusion", "true"),
        wish("enable-tf32-matmul", "false"),
        wish("prefixes", "/health /metrics"),
        wish("SGLANG_LOG_MS", "1"),
    )

    assert list(spec.argv[len(START) :]) == [
        *("--tp-size", "8", "--disable-shared-experts-fusion", "--no-enable-tf32-matmul"),
        *("--prefixes", "/health", "/metrics"),
    ]
    assert ("SGLANG_LOG_MS", "1") in [(each.name, each.value) for each in spec.env]


def test_a_switch_without_a_twin_is_turned_off_by_leaving_it_out() -> None:
    """There is no `--no-` form of it."""
    assert list(launched(wish("disable-shared-experts-fusion", "false")).argv) == START


def test_the_key_comes_through_a_file_that_the_command_names() -> None:
    """SGLang reads none from the environment."""
    spec = launched(binding=Binding(api_key_file="/run/key"))

    assert list(spec.argv[-2:]) == ["--config", "api-key.yaml"]
    assert spec.secrets == (secret_in_file("api-key", "/run/key", "api-key.yaml"),)


def test_the_plans_gpus_are_the_only_ones_seen() -> None:
    """By their order in nvidia-smi."""
    env = {each.name: each.value for each in launched(gpus=(0, 3)).env}

    assert (env["CUDA_VISIBLE_DEVICES"], env["CUDA_DEVICE_ORDER"]) == ("0,3", "PCI_BUS_ID")


def test_what_the_build_does_not_take_is_said_before_the_launch() -> None:
    """A name of vLLM's, one that is gone, a value that is none of the choices; an alias is known."""
    plan = a_plan(
        wish("max-model-len", "8192"), wish("nsa-decode-backend", "fa3"), wish("kv-cache-dtype", "fp8"),
        wish("tp-size", "2"),
    )  # fmt: skip
    found = unknown_flags(plan, FACTS)

    assert [(each.code, each.subject, each.severity) for each in found] == [
        ("flag.unknown", "max-model-len", Severity.BLOCK),
        ("flag.unknown", "nsa-decode-backend", Severity.BLOCK),
        ("flag.choice", "kv-cache-dtype", Severity.BLOCK),
    ]
    assert [each.do for each in found[:2]] == ["use context-length", "use dsa-decode-backend"]


def test_what_holddown_gives_itself_is_no_setting() -> None:
    """By each of its names."""
    assert all(owned(name) for name in ("model-path", "model", "host", "port", "api-key", "config", "enable-metrics"))
    assert owned("context-length") == ""
