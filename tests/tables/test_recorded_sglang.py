"""Recorded releases of SGLang: what they say is what is known of each.

Names, types, choices and defaults of all 328 and 531 options were compared once with the parser that the release's own
`add_cli_args` builds, run with stand-ins for its heavy imports; these are samples of them.
"""

import pytest

from holddown.base.evidence import Known, Unknown
from holddown.facts.config_types import ON_OFF, SWITCH
from holddown.facts.engine import EngineFacts, Flag, Takes
from holddown.tables.load import engine_table, recorded_build, recorded_engine, recorded_versions

VERSIONS = ("0.5.8", "0.5.16", "0.5.23")
EACH = pytest.mark.parametrize("version", VERSIONS)


def facts(version: str) -> EngineFacts:
    return recorded_engine("sglang", version)[1]


def flag(version: str, name: str) -> Flag:
    found = facts(version).flag(name)
    assert found is not None
    return found


def test_the_releases_that_are_recorded() -> None:
    """Oldest first."""
    assert recorded_versions("sglang") == VERSIONS


@EACH
def test_each_says_where_it_is_from(version: str) -> None:
    """The wheel and its digest; and nothing of the machine that it was read on."""
    build = recorded_build("sglang", version)

    assert build.source.startswith(f"sglang-{version}-")
    assert "sha256" in build.source
    assert (build.facts.version, build.facts.kind, build.facts.distribution) == (version, "sglang", "sglang")
    assert build.facts.package_dir == build.facts.python == ""


def test_the_number_of_options_is_the_parsers() -> None:
    """As many as the release's own parser has."""
    assert [len(facts(version).flags) for version in VERSIONS] == [328, 460, 531]


SAMPLES = (
    ("--model-path", "0.5.16", Takes.TEXT, None, ()),
    ("--tokenizer-mode", "0.5.16", Takes.TEXT, "auto", ("auto", "slow")),
    ("--detokenizer-worker-num", "0.5.16", Takes.INTEGER, "1", ()),
    ("--skip-tokenizer-init", "0.5.16", Takes.NOTHING, "false", SWITCH),
    ("--host", "0.5.8", Takes.TEXT, "127.0.0.1", ()),
    ("--port", "0.5.8", Takes.INTEGER, "30000", ()),
    ("--schedule-conservativeness", "0.5.8", Takes.NUMBER, "1.0", ()),
    ("--max-prefill-tokens", "0.5.8", Takes.INTEGER, "16384", ()),
    ("--dtype", "0.5.8", Takes.TEXT, "auto", ("half", "bfloat16", "float32")),
    ("--kv-cache-dtype", "0.5.8", Takes.TEXT, "auto", ("fp8_e4m3", "fp4_e2m1")),
    ("--radix-eviction-policy", "0.5.8", Takes.TEXT, "lru", ("lru", "lfu")),
    ("--log-requests-level", "0.5.8", Takes.INTEGER, "2", ("0", "3")),
    ("--preferred-sampling-params", "0.5.8", Takes.JSON, None, ()),
    ("--trust-remote-code", "0.5.8", Takes.NOTHING, "false", SWITCH),
    ("--encoder-transfer-backend", "0.5.8", Takes.TEXT, "zmq_to_scheduler", ("mooncake",)),
    ("--tool-call-parser", "0.5.8", Takes.TEXT, None, ("kimi_k2", "minimax-m2")),
    ("--host", "0.5.23", Takes.TEXT, "127.0.0.1", ()),
    ("--tp-size", "0.5.23", Takes.INTEGER, "1", ()),
    ("--radix-eviction-policy", "0.5.23", Takes.TEXT, "lru", ("slru", "tlru")),
    ("--hicache-storage-prefetch-policy", "0.5.23", Takes.TEXT, "timeout", ("best_effort",)),
    ("--hicache-host-memory-fraction", "0.5.23", Takes.NUMBER, "0.8", ()),
    ("--kv-cache-dtype", "0.5.23", Takes.TEXT, "auto", ("mxfp8", "nvfp4", "fp4_mx_block16")),
    ("--reasoning-parser", "0.5.23", Takes.TEXT, None, ("auto", "kimi_k3")),
    ("--unified-cache-external-linker-config", "0.5.23", Takes.JSON, "None", ()),
    ("--enable-tf32-matmul", "0.5.23", Takes.NOTHING, None, ON_OFF),
)


@pytest.mark.parametrize(("name", "version", "takes", "default", "choices"), SAMPLES)
def test_options_are_as_the_source_has_them(
    name: str, version: str, takes: Takes, default: str | None, choices: tuple[str, ...]
) -> None:
    """Compared by eye with srt/server_args.py and srt/arg_groups/fields; choices are some of them."""
    found = flag(version, name)

    assert (found.takes, found.default) == (takes, default)
    assert set(choices) <= set(found.choices)
    assert found.choices or not choices


@EACH
@pytest.mark.parametrize("name", ["--mem-fraction-static", "--max-running-requests", "--chunked-prefill-size"])
def test_what_is_worked_out_at_start_has_no_default(version: str, name: str) -> None:
    """It depends on the GPUs and the model."""
    assert flag(version, name).default is None


@EACH
def test_other_names_of_an_option_are_known(version: str) -> None:
    """Published commands use the short ones."""
    assert flag(version, "--tp-size") == flag(version, "--tensor-parallel-size")
    assert flag(version, "--dp-size") == flag(version, "--data-parallel-size")
    assert flag(version, "--model").name == "--model-path"
    assert flag(version, "--nccl-init-addr").name == "--dist-init-addr"


def test_what_a_release_will_drop_says_what_to_use() -> None:
    """In its own words."""
    assert flag("0.5.23", "--enable-dp-attention").deprecated == "use --attn-dp-size <dp-size>"
    assert "swa-full-tokens-ratio" in flag("0.5.8", "--hybrid-kvcache-ratio").deprecated


@EACH
def test_each_has_what_every_release_has(version: str) -> None:
    """Architectures, parsers, quantisation methods, KV cache dtypes, variables."""
    found = facts(version)

    assert {"LlamaForCausalLM", "DeepseekV3ForCausalLM", "MiniMaxM2ForCausalLM"} <= set(found.architectures)
    assert isinstance(found.tool_parsers, Known)
    assert isinstance(found.reasoning_parsers, Known)
    assert {"deepseekv3", "gpt-oss", "kimi_k2"} <= set(found.tool_parsers.value)
    assert {"deepseek-r1", "glm45", "qwen3"} <= set(found.reasoning_parsers.value)
    assert {"fp8", "compressed-tensors", "modelopt_fp4", "mxfp4", "gptq", "awq"} <= set(found.quantization_methods)
    assert {"auto", "bfloat16", "fp8_e4m3"} <= set(found.kv_cache_dtypes)
    assert found.kv_quantization_followed == ("modelopt",)
    assert {"SGLANG_IS_IN_CI", "SGLANG_USE_MODELSCOPE"} <= {each.name for each in found.environment}


def test_quantisation_methods_name_the_gpus_that_they_need() -> None:
    """NVFP4 of ModelOpt wants Blackwell in 0.5.8, and Ampere is enough in 0.5.23. Compared by eye with the classes."""
    minimums = [{each.method: each.compute_capability for each in facts(v).quantization_minimums} for v in VERSIONS]

    assert [found["modelopt_fp4"] for found in minimums] == ["10.0", "8.0", "8.0"]
    assert all(found["compressed-tensors"] == "7.0" for found in minimums)
    assert "fp8" not in minimums[-1]  # it asks the platform first


def test_architectures_came_and_none_went() -> None:
    """From 0.5.8 to 0.5.23."""
    earlier, between, later = (set(facts(version).architectures) for version in VERSIONS)

    assert earlier < between < later
    assert "GlmMoeDsaForCausalLM" in between - earlier


@EACH
def test_what_is_not_declared_is_unknown(version: str) -> None:
    """Attention backends are chosen by code, the memory share by the machine."""
    assert isinstance(facts(version).attention_backends, Unknown)
    assert isinstance(facts(version).gpu_memory_utilization, Unknown)


@EACH
def test_variables_that_are_gone_say_so(version: str) -> None:
    """What the engine warns of at start."""
    said = {each.name: each.deprecated for each in facts(version).environment}

    assert "--enable-prefill-delayer" in said["SGLANG_SCHEDULER_DECREASE_PREFILL_IDLE"]
    assert said["SGLANG_IS_IN_CI"] == ""


def test_gone_options_are_gone_and_their_successors_there() -> None:
    """Each row of the table against the recorded releases: absent from one of them; what is named instead is an option
    of the newest."""
    newest = facts(VERSIONS[-1])
    for row in engine_table("sglang").gone_flags:
        assert not all(facts(version).knows_flag(row.name) for version in VERSIONS) or row.name == "", row.name
        named = row.instead.split("=")[0].split(" ")[0].rstrip(",")
        assert newest.knows_flag(named), row.instead


def test_parser_names_are_parsers_of_a_recorded_release() -> None:
    """Each name of ours is one of theirs, somewhere."""
    there = {"tool": set[str](), "reasoning": set[str]()}
    for version in VERSIONS:
        for of, parsers in (("tool", facts(version).tool_parsers), ("reasoning", facts(version).reasoning_parsers)):
            assert isinstance(parsers, Known)
            there[of].update(parsers.value)
    for row in engine_table("sglang").parser_names:
        assert set(row.here) <= there[row.of], row.name
