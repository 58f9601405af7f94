"""Recorded releases: that they load, and that what they say is what is known of each."""

import pytest

from holddown.base.errors import UsageError
from holddown.base.evidence import Known, Unknown
from holddown.facts.attention_backends import AttentionBackend, AttentionBackends
from holddown.facts.engine import EngineFacts
from holddown.tables.load import (
    engine_table,
    recorded_build,
    recorded_engine,
    recorded_engines,
    recorded_versions,
)

VERSIONS = ("0.11.0", "0.16.0", "0.19.1", "0.25.1", "0.32.0", "0.33.0")
EACH = pytest.mark.parametrize("version", VERSIONS)
DECLARED = pytest.mark.parametrize("version", VERSIONS[1:])


def facts(version: str) -> EngineFacts:
    return recorded_engine("vllm", version)[1]


def backends(version: str) -> AttentionBackends:
    found = facts(version).attention_backends
    assert isinstance(found, Known)
    return found.value


def backend(version: str, name: str) -> AttentionBackend:
    found = backends(version).named(name)
    assert found is not None
    return found


def test_the_releases_that_are_recorded() -> None:
    """Oldest first, as engines that are not installed."""
    assert recorded_versions("vllm") == VERSIONS
    assert [engine.ref for engine in recorded_engines() if engine.kind == "vllm"] == [
        f"vllm@{each}" for each in VERSIONS
    ]
    assert all(engine.recorded and not engine.managed for engine in recorded_engines())


def test_a_release_that_is_not_recorded_names_those_that_are() -> None:
    """With the command that installs it."""
    with pytest.raises(UsageError) as caught:
        recorded_engine("vllm", "0.17.0")

    assert "vllm@0.16.0" in caught.value.seen
    assert caught.value.do == "holddown engine install vllm@0.17.0"


@EACH
def test_each_says_where_it_is_from(version: str) -> None:
    """The wheel and its digest; and nothing of the machine that it was read on."""
    build = recorded_build("vllm", version)

    assert build.source.startswith(f"vllm-{version}-")
    assert "sha256" in build.source
    assert (build.facts.version, build.facts.kind) == (version, "vllm")
    assert build.facts.package_dir == build.facts.python == ""
    assert isinstance(build.facts.gpu_memory_utilization, Known)
    assert not build.facts.gpu_memory_utilization.source.where.startswith("/")


@EACH
def test_each_has_what_every_release_has(version: str) -> None:
    """Flags, architectures, parsers, quantisation methods, KV cache dtypes."""
    found = facts(version)

    assert found.knows_flag("--max-model-len")
    assert "LlamaForCausalLM" in found.architectures
    assert isinstance(found.tool_parsers, Known)
    assert isinstance(found.reasoning_parsers, Known)
    assert "hermes" in found.tool_parsers.value
    assert "deepseek_r1" in found.reasoning_parsers.value
    assert {"fp8", "compressed-tensors", "modelopt"} <= set(found.quantization_methods)
    assert {"auto", "bfloat16", "fp8"} <= set(found.kv_cache_dtypes)
    assert isinstance(found.without_pipeline, Known)
    assert "BertModel" in found.without_pipeline.value
    assert "LlamaForCausalLM" not in found.without_pipeline.value


FLAG_LIFE = {
    # flag -> the recorded releases that have it
    "disable-log-requests": ("0.11.0", "0.16.0"),
    "swap-space": ("0.11.0", "0.16.0"),
    "task": ("0.11.0",),
    "attention-backend": VERSIONS[1:],
    "moe-backend": VERSIONS[2:],
    "enable-log-requests": VERSIONS,
}


@pytest.mark.parametrize(("flag", "versions"), FLAG_LIFE.items())
def test_flags_live_and_die(flag: str, versions: tuple[str, ...]) -> None:
    """As release by release was seen."""
    assert tuple(version for version in VERSIONS if facts(version).knows_flag(flag)) == versions


def test_counts_of_flags_and_parsers() -> None:
    """316 flags were counted in 0.32.0's own help, on a build for the CPU; the parsers in each registry."""
    counted = {"0.11.0": (24, 9), "0.16.0": (32, 17), "0.19.1": (34, 19), "0.32.0": (54, 38), "0.33.0": (58, 42)}
    for version, counts in counted.items():
        found = facts(version)
        assert isinstance(found.tool_parsers, Known)
        assert isinstance(found.reasoning_parsers, Known)
        assert (len(found.tool_parsers.value), len(found.reasoning_parsers.value)) == counts
    assert 316 <= len(facts("0.32.0").flags) <= 317


def test_the_share_of_memory_changed() -> None:
    """0.90 up to 0.19.1, 0.92 later."""
    shares = {}
    for version in VERSIONS:
        found = facts(version).gpu_memory_utilization
        assert isinstance(found, Known)
        shares[version] = found.value

    assert shares == {"0.11.0": 0.9, "0.16.0": 0.9, "0.19.1": 0.9, "0.25.1": 0.92, "0.32.0": 0.92, "0.33.0": 0.92}


def test_a_release_that_declares_nothing_is_unknown() -> None:
    """0.11.0 chooses attention backends in code."""
    assert isinstance(facts("0.11.0").attention_backends, Unknown)


MLA = {
    # backend -> release -> (compute capabilities of GPUs by major number, KV cache dtypes)
    "TRITON_MLA": {
        "0.16.0": ({7, 8, 9, 10, 11, 12}, {"auto", "bfloat16"}),
        "0.19.1": ({7, 8, 9, 10, 11, 12}, {"auto", "float16", "bfloat16", "fp8", "fp8_e4m3"}),
        "0.33.0": ({7, 8, 9, 10, 11, 12}, {"auto", "float16", "bfloat16", "fp8", "fp8_e4m3"}),
    },
    "FLASH_ATTN_MLA": {
        "0.16.0": ({9}, {"auto", "bfloat16"}),
        "0.33.0": ({9}, {"auto", "float16", "bfloat16"}),
    },
    "FLASHMLA": {"0.16.0": ({9, 10}, {"auto", "bfloat16", "fp8", "fp8_e4m3"})},
    "CUTLASS_MLA": {"0.16.0": ({10}, {"auto", "bfloat16", "fp8", "fp8_e4m3"})},
    "FLASHINFER_MLA": {"0.33.0": ({10}, {"auto", "float16", "bfloat16", "fp8", "fp8_e4m3"})},
    "TOKENSPEED_MLA": {"0.33.0": ({10}, {"fp8", "fp8_e4m3"})},
    "FLASHMLA_SPARSE": {
        "0.16.0": ({9, 10}, {"auto", "bfloat16", "fp8_ds_mla"}),
        "0.19.1": ({9, 10}, {"auto", "bfloat16", "fp8_ds_mla", "fp8"}),
    },
    "FLASHINFER_MLA_SPARSE_SM120": {"0.33.0": ({12}, {"auto", "fp8", "fp8_e4m3", "fp8_ds_mla"})},
    "FLASHINFER_MLA_SPARSE_SM90": {"0.33.0": ({9}, {"auto", "bfloat16", "fp8", "fp8_e4m3"})},
}


@pytest.mark.parametrize(("name", "version"), [(name, version) for name, rows in MLA.items() for version in rows])
def test_mla_backends_take_what_was_read_by_hand(name: str, version: str) -> None:
    """Capabilities and KV cache dtypes, against a table that people read from the source."""
    majors, dtypes = MLA[name][version]
    found = backend(version, name)

    assert found.is_mla
    assert {int(capability.split(".")[0]) for capability in found.compute_capabilities} == majors
    assert {dtype for row in found.kv for dtype in row.kv_cache_dtypes} == dtypes


def test_requirements_of_mla_backends() -> None:
    """What they want of the model's shapes."""
    (old,) = backend("0.16.0", "FLASHINFER_MLA").requirements
    (new,) = backend("0.33.0", "FLASHINFER_MLA").requirements
    sparse = backend("0.33.0", "FLASHINFER_MLA_SPARSE_SM120").requirements

    assert (old.field, old.values) == ("qk_nope_head_dim", (128,))
    assert (new.field, new.values) == ("qk_nope_head_dim", (64, 128, 192))
    assert ("index_topk", (2048,)) in [(each.field, each.values) for each in sparse]


def test_flashmla_dense_runs_on_hopper_only() -> None:
    """It declares 9 and 10, and refuses 10 in code."""
    (refusal,) = backend("0.33.0", "FLASHMLA").refusals

    assert refusal.compute_capabilities == ("10.0", "10.3")
    assert "Hopper" in refusal.reason


def test_which_mla_backends_are_tried_on_12_0() -> None:
    """In 0.32.0 and later two, one of them for sparse MLA."""
    for version in ("0.25.1", "0.32.0", "0.33.0"):
        (order,) = [each for each in backends(version).orders if each.is_mla and "12.0" in each.compute_capabilities]
        assert order.backends == ("TRITON_MLA", "FLASHINFER_MLA_SPARSE_SM120")


def test_flashinfers_range_of_capabilities() -> None:
    """From 7.5 in 0.16.0, from 8.0 in 0.33.0; up to 12.1."""
    assert backend("0.16.0", "FLASHINFER").compute_capabilities[0] == "7.5"
    assert backend("0.33.0", "FLASHINFER").compute_capabilities[0] == "8.0"
    assert backend("0.33.0", "FLASHINFER").compute_capabilities[-1] == "12.1"


@DECLARED
def test_backends_that_are_tried_are_read(version: str) -> None:
    """Each name in an order is described, and no rule on which a choice by default rests was left unread."""
    found = backends(version)
    tried = {name for order in found.orders for name in order.backends}

    assert tried
    for name in tried:
        row = found.named(name)
        assert row is not None, name
        assert row.compute_capabilities, name
        rules = [each for each in row.unread if each.startswith(("supports_compute", "supports_sink", "is_"))]
        assert rules == [], name


@DECLARED
def test_nothing_else_of_the_machine_is_in_it(version: str) -> None:
    """Paths of backends lie inside of the package."""
    assert [each.path for each in backends(version).backends if each.path.startswith(("/", "vllm."))] == []


def test_a_gguf_reader_was_built_in_and_is_a_plugin_now() -> None:
    """Built in up to 0.19.1."""
    assert {version: "gguf" in facts(version).quantization_methods for version in VERSIONS} == {
        "0.11.0": True,
        "0.16.0": True,
        "0.19.1": True,
        "0.25.1": False,
        "0.32.0": False,
        "0.33.0": False,
    }


def test_what_a_checkpoints_kv_wish_becomes() -> None:
    """ModelOpt's is read from 0.16.0 on; the flag beats compressed-tensors from 0.25.1 on."""
    assert [version for version in VERSIONS if "modelopt" in facts(version).kv_quantization_followed] == [*VERSIONS[1:]]
    assert [version for version in VERSIONS[1:] if facts(version).kv_flag_wins] == ["0.25.1", "0.32.0", "0.33.0"]


def test_rows_on_the_kv_cache_name_backends_and_architectures_that_exist() -> None:
    """A misspelt one would never apply."""
    table = engine_table("vllm")
    names = {backend.name for version in VERSIONS[1:] for backend in backends(version).backends}
    architectures = {name for version in VERSIONS for name in facts(version).architectures}

    for row in table.kv_rewrites:
        assert bool(row.architecture) != bool(row.backend)
        assert row.architecture in architectures or row.backend in names
        assert row.source
    for limit in table.backend_limits:
        assert limit.backend in names
        assert limit.source
