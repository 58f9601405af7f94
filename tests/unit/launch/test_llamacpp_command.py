"""A plan becomes the command of llama.cpp's server."""

import pytest

from holddown.base.evidence import Source, SourceKind, Unknown, from_probe
from holddown.facts.engine import Engine, EngineFacts, Flag, Takes
from holddown.launch.engines.llamacpp import command, owned, unknown_flags
from holddown.launch.spec import Binding, LaunchSpec, SecretEnv
from holddown.plan.memory import MemoryBudget
from holddown.plan.parallelism import Parallelism
from holddown.plan.plan import Plan, Setting

FLAGS = (
    Flag("--ctx-size", takes=Takes.INTEGER, aliases=("-c",)),
    Flag("--kv-unified", ("true", "false"), Takes.NOTHING),
    Flag("--no-kv-unified", ("true",), Takes.NOTHING),
    Flag("--fit", ("on", "off"), Takes.TEXT, aliases=("-fit",)),
    Flag("--metrics", ("true",), Takes.NOTHING),
    Flag("--flash-attn", ("on", "off", "auto"), Takes.TEXT, aliases=("-fa",)),
    Flag("--gpu-layers", takes=Takes.UNKNOWN, aliases=("-ngl", "--n-gpu-layers")),
)
ENGINE = Engine("llamacpp", "b11434", "llamacpp", "", "", True, 0.0, program="/opt/llama-server")
FACTS = EngineFacts(
    version="b11434",
    kind="llamacpp",
    python="",
    pythonpath="",
    package_dir="/opt",
    fingerprint="f",
    device=from_probe("cpu", "fake"),
    torch_version=Unknown("none"),
    import_error="",
    flags=FLAGS,
    architectures=("llama",),
)
START = ["/opt/llama-server", "--model", "/m.gguf", "--alias", "chat", "--host", "127.0.0.1", "--port", "8000"]


def a_plan(*settings: tuple[str, str], gpus: tuple[int, ...] = ()) -> Plan:
    return Plan(
        model_path="/m.gguf",
        model_digest="d",
        served_model_name="chat",
        engine=ENGINE.ref,
        engine_kind="llamacpp",
        engine_because="the only one",
        gpus=gpus,
        parallelism=Parallelism(),
        settings=tuple(
            Setting(name, value, "you set it", Source(SourceKind.USER, f"--set {name}={value}"))
            for name, value in settings
        ),
        budget=MemoryBudget(1, 0, 0, 0),
        load_bytes=0,
        findings=(),
        rejected=(),
    )


def launched(plan: Plan, binding: Binding | None = None) -> LaunchSpec:
    return command(plan, ENGINE, FACTS, binding or Binding())


def test_the_server_is_started_on_the_file_under_the_deployments_name() -> None:
    """Nothing else where nothing else is set."""
    spec = launched(a_plan())

    assert list(spec.argv) == START
    assert spec.env == ()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("ctx-size", "4096", ["--ctx-size", "4096"]),
        ("c", "4096", ["-c", "4096"]),
        ("fit", "off", ["--fit", "off"]),
        ("n-gpu-layers", "all", ["--n-gpu-layers", "all"]),
        ("kv-unified", "true", ["--kv-unified"]),
        ("kv-unified", "false", ["--no-kv-unified"]),
        ("metrics", "true", ["--metrics"]),
        ("metrics", "false", []),
        ("flash-attn", "true", ["--flash-attn", "true"]),
    ],
)
def test_a_setting_becomes_its_option(name: str, value: str, words: list[str]) -> None:
    """A switch stands alone, and off is its negative form where it has one."""
    assert list(launched(a_plan((name, value))).argv) == START + words


def test_the_key_is_given_as_a_variable_out_of_its_file() -> None:
    """Not on the command line, where every user of the machine would read it."""
    spec = launched(a_plan(), Binding(api_key_file="/key"))

    assert spec.secrets == (SecretEnv("LLAMA_API_KEY", "/key"),)
    assert "--api-key" not in spec.argv


def test_it_sees_the_gpus_of_the_plan_and_no_others() -> None:
    """In the order of nvidia-smi."""
    env = {each.name: each.value for each in launched(a_plan(gpus=(2, 3))).env}

    assert env == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "2,3"}


def test_a_variable_of_the_user_is_passed_on() -> None:
    """By its name in capitals."""
    spec = launched(a_plan(("GGML_CUDA_FORCE_MMQ", "1")))

    assert [(each.name, each.value) for each in spec.env] == [("GGML_CUDA_FORCE_MMQ", "1")]
    assert unknown_flags(a_plan(("GGML_CUDA_FORCE_MMQ", "1")), FACTS) == ()


def test_an_option_of_another_engine_is_named_with_ours() -> None:
    """vLLM's word for the context."""
    (finding,) = unknown_flags(a_plan(("max-model-len", "4096")), FACTS)

    assert finding.blocks
    assert "ctx-size" in finding.do


def test_a_misspelt_option_is_refused_with_the_one_that_is_near() -> None:
    """Before the server says so."""
    (finding,) = unknown_flags(a_plan(("ctx-sice", "4096")), FACTS)

    assert (finding.code, finding.do) == ("flag.unknown", "--set ctx-size=4096")


def test_a_value_that_is_no_choice_is_refused() -> None:
    """Words that the server takes for one of them are choices too."""
    assert unknown_flags(a_plan(("flash-attn", "enabled"), ("kv-unified", "false")), FACTS) == ()
    assert [each.code for each in unknown_flags(a_plan(("flash-attn", "maybe")), FACTS)] == ["flag.choice"]


def test_what_holddown_sets_is_no_setting() -> None:
    """Model, name, address and key; by the short name too."""
    assert owned("--model") and owned("m") and owned("port") and owned("api-key")
    assert not owned("ctx-size")
