"""What we read of attention backends from vLLM's source against what its own selector says when it is asked."""

from itertools import product
from pathlib import Path

import pytest

from holddown.base.evidence import Known
from holddown.edges.engines import EngineFolders
from holddown.edges.probes.vllm import VllmProbe
from holddown.edges.probes.vllm_selector import VllmSelector
from holddown.facts.asked import Asked, MoeQuery, Questions
from holddown.facts.attention_backends import AttentionQuery
from holddown.facts.engine import Engine, EngineFacts

LATENT = (("kv_lora_rank", 512), ("qk_nope_head_dim", 128), ("qk_rope_head_dim", 64), ("v_head_dim", 128))
KINDS = (
    # MLA, sparse, head sizes, (sinks, sliding window), what config.json says
    (True, False, (576,), ((False, False),), LATENT),
    (True, True, (576,), ((False, False),), (*LATENT, ("index_topk", 2048))),
    (False, False, (64, 80, 128, 256), ((False, False), (True, False), (True, True)), ()),
)


def queries() -> tuple[AttentionQuery, ...]:
    """Every kind of attention on GPUs of five generations, with six KV cache dtypes, few and many heads: 840."""
    found = []
    for capability, dtype, heads, (mla, sparse, sizes, marks, fields) in product(
        ("8.0", "8.9", "9.0", "10.0", "12.0"),
        ("auto", "bfloat16", "fp8", "fp8_e4m3", "fp8_ds_mla", "nvfp4"),
        (8, 64),
        KINDS,
    ):
        for size, (sinks, window) in product(sizes, marks):
            found.append(AttentionQuery(capability, dtype, mla, sparse, size, heads, sinks, window, False, fields))
    return tuple(found)


@pytest.fixture(scope="module")
def build(vllm_python: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Engine, EngineFacts]:
    folder = tmp_path_factory.mktemp("asked")
    engine = EngineFolders(folder / "engines").add(None, vllm_python, "")
    if engine.version != "0.32.0":
        pytest.skip(f"the selectors' words are those of 0.32.0, the engine here is {engine.ref}")
    return engine, VllmProbe(folder / "cache").facts(engine, lambda line: None)


def ask(build: tuple[Engine, EngineFacts], questions: Questions, cache: Path) -> Asked:
    engine, facts = build
    said = VllmSelector(cache).ask(engine, facts, questions, lambda line: None)
    assert isinstance(said, Known), said
    return said.value


@pytest.mark.live
def test_every_backend_is_judged_as_vllms_own_selector_judges_it(
    build: tuple[Engine, EngineFacts], tmp_path: Path
) -> None:
    """The same backends are tried in the same order and the same are valid, and each reason that we give is one that
    vLLM gives."""
    read = build[1].attention_backends
    assert isinstance(read, Known)
    asked = queries()

    found = ask(build, Questions(asked), tmp_path)

    assert len(asked) == len(found.attention) == 840
    for query in asked:
        said = found.attention_said(query)
        assert said is not None, query
        assert said.unsure == (), query
        theirs = {each.name: each.reasons for each in said.backends}
        ours = {each.name: each.reasons for each in read.value.answers(query)}
        assert list(ours) == list(theirs), query
        for name, reasons in theirs.items():
            assert bool(ours[name]) == bool(reasons), (query, name, ours[name], reasons)
            assert set(ours[name]) <= set(reasons), (query, name)


def experts(capability: str, format: str, method: str, group_size: int = 0, **other: object) -> MoeQuery:
    """Those of Kimi-K2 on eight GPUs."""
    words: dict[str, object] = {"activation": "silu", "routing": "DeepSeekV3", "expert_parallel": False, **other}
    return MoeQuery(capability, "kimi_k2", method, format, group_size, 384, 8, 7168, 2048, 8, 1, **words)  # type: ignore[arg-type]


CHOSEN = {
    experts("9.0", "fp8-block", "fp8"): "TRITON",
    experts("9.0", "fp8-block", "fp8", expert_parallel=True): "FLASHINFER_CUTLASS",
    experts("9.0", "nvfp4", "modelopt_fp4", 16): "MARLIN",
    experts("9.0", "int4", "compressed-tensors", 32): "MARLIN",
    experts("9.0", "bf16", "none"): "TRITON",
    experts("10.0", "fp8-block", "fp8"): "FLASHINFER_TRTLLM",
    experts("10.0", "nvfp4", "modelopt_fp4", 16): "FLASHINFER_TRTLLM",
    experts("12.0", "nvfp4", "modelopt_fp4", 16): "FLASHINFER_CUTLASS",
    experts("12.0", "int4", "compressed-tensors", 32): "MARLIN",
    experts("12.0", "mxfp4", "mxfp4", 32, activation="swigluoai", routing="Renormalize"): "MARLIN",
}
"""As read in vLLM 0.32.0 fused_moe/oracle/*.py with the classes' _supports_current_device, FlashInfer being there and
DeepGEMM not."""


@pytest.mark.live
def test_the_experts_kernel_is_the_one_that_the_source_puts_first(
    build: tuple[Engine, EngineFacts], tmp_path: Path
) -> None:
    """Kimi-K2's experts in five formats on three generations; those tried before have a reason each."""
    found = ask(build, Questions(tuple(CHOSEN)), tmp_path)

    for query, chosen in CHOSEN.items():
        said = found.moe_said(query)
        assert isinstance(said, Known), (query, said)
        assert said.value.chosen == chosen, query
        assert chosen not in [each.name for each in said.value.refused]
    sm120 = found.moe_said(experts("12.0", "nvfp4", "modelopt_fp4", 16))
    assert isinstance(sm120, Known)
    assert {each.name: each.reason for each in sm120.value.refused}["FLASHINFER_TRTLLM"] == (
        "kernel does not support current device cuda"
    )


@pytest.mark.live
def test_experts_that_the_wanted_kernel_refuses_are_said_in_vllms_words(
    build: tuple[Engine, EngineFacts], tmp_path: Path
) -> None:
    """FlashInfer's TRT-LLM kernels on compute capability 12.0."""
    query = experts("12.0", "nvfp4", "modelopt_fp4", 16, backend="flashinfer_trtllm")

    said = ask(build, Questions((query,)), tmp_path).moe_said(query)

    assert isinstance(said, Known)
    assert said.value.chosen == ""
    assert said.value.what == (
        "NvFp4 MoE backend 'FLASHINFER_TRTLLM' does not support the deployment configuration since kernel does not "
        "support current device cuda."
    )
