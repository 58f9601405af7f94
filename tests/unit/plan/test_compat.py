"""Which KV cache a build takes for a model, on recorded releases of vLLM."""

from dataclasses import replace

import pytest

from fakes.known_models import (
    glm5_nvfp4,
    gpt_oss,
    kimi_k25_int4,
    kimi_k25_nvfp4,
    llama_fp8_kv,
    minimax_m25,
    of_family,
)
from holddown.base.evidence import Unknown, from_file
from holddown.facts.attention import CompressedAttention, LinearAttention, Mla
from holddown.facts.attention_backends import COMPUTE_CAPABILITIES
from holddown.facts.engine import EngineFacts
from holddown.facts.kv_cache import BF16, FP8, FP8_DS_MLA
from holddown.facts.model import ModelFacts
from holddown.plan.compat import KvAnswer, Wish, kv_choices
from holddown.plan.parallelism import Parallelism
from holddown.tables.load import recorded_engine, recorded_versions

ONE_BY_EIGHT = Parallelism(tensor_parallel_size=8)
NO_WISH = Wish()


def vllm(version: str) -> EngineFacts:
    return recorded_engine("vllm", version)[1]


def ask(model: ModelFacts, version: str, capability: str = "12.0", wish: Wish = NO_WISH) -> KvAnswer:
    return kv_choices(model, vllm(version), capability, wish, ONE_BY_EIGHT)


def test_a_checkpoint_that_asks_for_fp8_is_given_bfloat16_where_nothing_takes_fp8() -> None:
    """Story 1: Kimi-K2.5-NVFP4, vLLM 0.16.0, compute capability 12.0: the setting changes, not the checkpoint."""
    answer = ask(kimi_k25_nvfp4(), "0.16.0")

    assert answer.setting is not None
    assert (answer.setting.name, answer.setting.value) == ("kv-cache-dtype", "bfloat16")
    assert answer.setting.because == (
        "the checkpoint asks for an FP8 KV cache (config.json kv_cache_scheme); in vllm 0.16.0 on compute capability "
        "12.0 only TRITON_MLA can run MLA, and it does not take FP8"
    )
    assert answer.setting.alternative == "vllm@0.19.1 takes FP8 here (TRITON_MLA): twice the KV tokens"
    assert answer.setting.source.where == "vllm 0.16.0 v1/attention/backends/mla/triton_mla.py:29"
    assert answer.chosen is not None
    assert answer.chosen.stored == BF16
    assert answer.chosen.backends == ("TRITON_MLA",)
    assert answer.findings == ()


def test_a_later_release_takes_the_checkpoints_wish_as_it_is() -> None:
    """0.19.1: nothing is set, and the cache holds FP8."""
    answer = ask(kimi_k25_nvfp4(), "0.19.1")

    assert answer.setting is None
    assert answer.chosen is not None
    assert (answer.chosen.dtype, answer.chosen.stored, answer.chosen.backends) == ("auto", FP8, ("TRITON_MLA",))


@pytest.mark.parametrize("version", ["0.16.0", "0.19.1", "0.25.1", "0.32.0", "0.33.0"])
def test_a_checkpoint_that_asks_for_nothing_is_left_alone(version: str) -> None:
    """Story 2: Kimi-K2.5 INT4. FP8 may be among the choices, and is not chosen."""
    answer = ask(kimi_k25_int4(), version)

    assert answer.setting is None
    assert answer.findings == ()
    assert answer.chosen is not None
    assert answer.chosen.stored == BF16
    assert ("fp8" in [choice.dtype for choice in answer.choices]) == (version != "0.16.0")


def test_no_backend_is_said_with_each_ones_reason_and_a_release_that_has_one() -> None:
    """Story 4: GLM-5 on compute capability 12.0 with vLLM 0.16.0."""
    answer = ask(glm5_nvfp4(), "0.16.0")

    assert answer.chosen is None
    (finding,) = answer.findings
    assert finding.blocks
    assert finding.code == "compat.attention"
    assert finding.what == (
        "no attention backend of vllm 0.16.0 takes sparse MLA on compute capability 12.0; "
        "vllm@0.25.1 has FLASHINFER_MLA_SPARSE_SM120"
    )
    assert finding.do == "holddown engine install vllm@0.25.1"
    assert "FLASHMLA_SPARSE (compute capability not supported)" in finding.seen
    assert "TRITON_MLA (kv_cache_dtype not supported, sparse not supported)" in finding.seen


def test_where_no_release_has_a_backend_that_is_said() -> None:
    """Sparse MLA on compute capability 8.9: nothing up to the newest."""
    (finding,) = ask(glm5_nvfp4(), "0.16.0", "8.9").findings

    assert finding.what.endswith("no recorded release up to 0.33.0 has one")
    assert finding.do == ""


@pytest.mark.parametrize("version", ["0.25.1", "0.32.0", "0.33.0"])
def test_sparse_mla_on_12_0_is_always_kept_as_fp8_ds_mla(version: str) -> None:
    """Story 4, later releases: whatever is asked, 656 bytes per token and layer are stored."""
    answer = ask(glm5_nvfp4(), version)

    assert answer.chosen is not None
    assert answer.chosen.backends == ("FLASHINFER_MLA_SPARSE_SM120",)
    assert {choice.stored for choice in answer.choices} == {FP8_DS_MLA}
    assert FP8_DS_MLA.latent_entry_bytes == 656


def test_a_cache_that_the_build_narrows_is_said() -> None:
    """GLM-5-FP8 asks for nothing; on compute capability 12.0 its cache is FP8 all the same."""
    plain = replace(glm5_nvfp4(), kv_cache_quantization=from_file("none", "config.json"))
    (finding,) = ask(plain, "0.33.0").findings

    assert finding.code == "compat.kv-narrowed"
    assert not finding.blocks
    assert ask(glm5_nvfp4(), "0.33.0").findings == ()


def test_a_narrower_cache_is_offered_and_not_taken() -> None:
    """Kimi-K2.5 INT4 on 0.19.1 could keep FP8; on 0.16.0 it could not."""
    offered = ask(kimi_k25_int4(), "0.19.1").narrower

    assert offered is not None
    assert (offered.dtype, offered.stored) == ("fp8", FP8)
    assert ask(kimi_k25_int4(), "0.16.0").narrower is None


def test_a_wish_that_has_another_name_here_is_met_under_that_name() -> None:
    """GLM-5 asks for FP8; on compute capability 9.0 vLLM 0.16.0 takes it only as fp8_ds_mla."""
    answer = ask(glm5_nvfp4(), "0.16.0", "9.0")

    assert answer.setting is not None
    assert answer.setting.value == "fp8_ds_mla"
    assert "which takes FP8 by this name" in answer.setting.because


DENSE_MLA = {
    # capability -> the backend for a bf16 cache, and for fp8 (empty: none), per release
    ("12.0", "0.16.0"): ("TRITON_MLA", ""),
    ("12.0", "0.19.1"): ("TRITON_MLA", "TRITON_MLA"),
    ("12.0", "0.33.0"): ("TRITON_MLA", "TRITON_MLA"),
    ("8.9", "0.16.0"): ("TRITON_MLA", ""),
    ("8.9", "0.33.0"): ("TRITON_MLA", "TRITON_MLA"),
    ("8.0", "0.33.0"): ("TRITON_MLA", ""),
    ("9.0", "0.16.0"): ("FLASH_ATTN_MLA", "FLASHMLA"),
    ("9.0", "0.33.0"): ("FLASH_ATTN_MLA", "FLASHMLA"),
    ("10.0", "0.16.0"): ("FLASHINFER_MLA", "FLASHINFER_MLA"),
    ("10.0", "0.33.0"): ("FLASHINFER_MLA", "FLASHINFER_MLA"),
}


@pytest.mark.parametrize(("where", "backends"), DENSE_MLA.items(), ids=lambda each: "-".join(each))
def test_dense_mla_takes_the_backend_that_vllm_takes(where: tuple[str, str], backends: tuple[str, str]) -> None:
    """As vLLM's own selector was read to answer, release by release."""
    answer = ask(kimi_k25_int4(), where[1], where[0])
    auto, fp8 = answer.choice("auto"), answer.choice("fp8")

    assert auto is not None
    assert auto.backends == (backends[0],)
    assert (fp8.backends if fp8 else ("",)) == (backends[1],)


def test_gqa_with_an_fp8_cache_leaves_flash_attention_on_12_0() -> None:
    """FLASH_ATTN takes FP8 on compute capability 9.0 only; elsewhere FLASHINFER does."""
    for capability, backend in (("9.0", "FLASH_ATTN"), ("12.0", "FLASHINFER")):
        choice = ask(minimax_m25(), "0.16.0", capability).choice("fp8")
        assert choice is not None
        assert choice.backends == (backend,)


def test_attention_sinks_choose_among_backends() -> None:
    """gpt-oss on 12.0 with 0.16.0: only TRITON_ATTN takes sinks there, for both kinds of layers."""
    answer = ask(gpt_oss(), "0.16.0")

    assert answer.chosen is not None
    assert answer.chosen.backends == ("TRITON_ATTN", "TRITON_ATTN")
    assert "FLASHINFER" in [each.name for each in answer.chosen.refused]


def test_a_compressed_tensors_scheme_is_followed() -> None:
    """Its FP8 cache comes under auto; in 0.16.0 even against the flag, in 0.33.0 the flag wins."""
    for version, stored in (("0.16.0", FP8), ("0.33.0", BF16)):
        answer = ask(llama_fp8_kv(), version)
        assert answer.chosen is not None
        assert answer.chosen.stored == FP8
        explicit = answer.choice("bfloat16")
        assert explicit is not None
        assert explicit.stored == stored


def test_mla_does_not_follow_a_compressed_tensors_scheme() -> None:
    """vLLM's MLA layer never looks at it."""
    model = replace(kimi_k25_int4(), kv_cache_quantization=from_file("fp8", "config.json kv_cache_scheme"))

    chosen = ask(model, "0.33.0").chosen

    assert chosen is not None
    assert chosen.stored == BF16


def test_a_users_dtype_that_works_is_kept_without_a_setting_of_ours() -> None:
    """The choice tells what is stored."""
    answer = ask(kimi_k25_int4(), "0.19.1", wish=Wish(kv_cache_dtype="fp8"))

    assert answer.setting is None
    assert answer.chosen is not None
    assert answer.chosen.stored == FP8


def test_a_users_dtype_that_does_not_work_blocks_and_names_one_that_does() -> None:
    """With each backend's reason."""
    answer = ask(kimi_k25_int4(), "0.16.0", wish=Wish(kv_cache_dtype="fp8"))

    assert answer.chosen is None
    (finding,) = answer.findings
    assert finding.blocks
    assert finding.do == "--set kv-cache-dtype=auto"
    assert "TRITON_MLA (kv_cache_dtype not supported)" in finding.seen


def test_a_users_backend_is_the_only_one_asked() -> None:
    """`--attention-backend` as the user spells it; what it refuses is not given to another."""
    answer = ask(minimax_m25(), "0.33.0", wish=Wish(attention_backend="triton_attn"))
    refused = ask(minimax_m25(), "0.33.0", wish=Wish(attention_backend="FLASHMLA"))

    assert answer.chosen is not None
    assert answer.chosen.backends == ("TRITON_ATTN",)
    assert refused.chosen is None
    assert refused.findings[0].blocks
    assert "non-MLA not supported" in refused.findings[0].seen


def test_an_unknown_backend_blocks() -> None:
    """The engine would end with the list of its own."""
    (finding,) = ask(minimax_m25(), "0.33.0", wish=Wish(attention_backend="WARP_ATTN")).findings

    assert finding.blocks
    assert "WARP_ATTN" in finding.what
    assert "FLASH_ATTN" in finding.seen


def test_a_backend_that_is_never_tried_by_itself_is_left_to_the_user() -> None:
    """It exists and says not on which GPUs it runs."""
    (finding,) = ask(minimax_m25(), "0.16.0", wish=Wish(attention_backend="TREE_ATTN")).findings

    assert finding.code == "compat.attention-unknown"


@pytest.mark.parametrize(
    ("model", "version", "capability"),
    [
        (kimi_k25_nvfp4(), "0.11.0", "12.0"),
        (replace(kimi_k25_nvfp4(), attention=Unknown("not read")), "0.33.0", "12.0"),
        (kimi_k25_nvfp4(), "0.33.0", "7.0"),
        (of_family("X", "x", CompressedAttention(1, 64, 512, (4,), 128, 64, 128, 512)), "0.33.0", "12.0"),
    ],
    ids=["release without declarations", "attention unknown", "capability unknown", "the model's code chooses"],
)
def test_what_cannot_be_asked_is_a_note(model: ModelFacts, version: str, capability: str) -> None:
    """It neither blocks nor passes in silence."""
    answer = ask(model, version, capability)

    assert answer.chosen is not None
    assert answer.setting is None
    (finding,) = answer.findings
    assert finding.code == "compat.attention-unknown"
    assert not finding.blocks


def test_compressed_attention_is_kept_in_fp8() -> None:
    """DeepSeek V4 chooses its backends itself; 584 bytes for each entry of 512 numbers are known all the same."""
    model = of_family("DeepseekV4ForCausalLM", "deepseek_v4", CompressedAttention(1, 64, 512, (4,), 128, 64, 128, 512))

    chosen = ask(model, "0.33.0").chosen

    assert chosen is not None
    assert chosen.stored.element_bytes * 512 == 584


def test_recurrent_layers_need_no_backend() -> None:
    """Beside MLA layers they are passed over."""
    model = of_family(
        "KimiLinearForCausalLM", "kimi_linear", Mla(7, 32, 512, 128, 64, 128), LinearAttention(20, "kda", 32, 1)
    )

    chosen = ask(model, "0.33.0").chosen

    assert chosen is not None
    assert chosen.backends == ("TRITON_MLA",)


def test_mla_on_the_cpu() -> None:
    """There is none in 0.16.0; 0.32.0 has it, without an FP8 cache."""
    assert (
        ask(kimi_k25_int4(), "0.16.0", "cpu")
        .findings[0]
        .what.startswith("no attention backend of vllm 0.16.0 takes MLA on the CPU")
    )
    answer = ask(kimi_k25_int4(), "0.32.0", "cpu")
    assert answer.chosen is not None
    assert answer.choice("fp8") is None


def test_decode_context_parallelism_is_asked_of_the_backend() -> None:
    """A backend that cannot give the log-sum-exp is passed over."""
    split = Parallelism(tensor_parallel_size=16, decode_context_parallel_size=2)
    refused = kv_choices(glm5_nvfp4(), vllm("0.16.0"), "9.0", NO_WISH, split)

    assert refused.chosen is None
    assert "DCP not supported" in refused.findings[0].seen
    assert "takes sparse MLA with decode context parallelism on" in refused.findings[0].what


@pytest.mark.parametrize("version", [version for version in recorded_versions("vllm") if version != "0.11.0"])
def test_plain_attention_runs_on_every_capability(version: str) -> None:
    """A model of heads of 128 finds a backend wherever vLLM runs: no row of the recorded facts is empty."""
    for capability in COMPUTE_CAPABILITIES:
        chosen = ask(minimax_m25(), version, capability).chosen
        assert chosen is not None, capability
        assert chosen.backends
