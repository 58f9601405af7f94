"""Rules of the engine on how a model may be split."""

from dataclasses import replace

import pytest

from fakes.engine import engine_facts
from fakes.known_models import gpt_oss, kimi_k25_int4, minimax_m25
from holddown.base.evidence import from_file
from holddown.facts.model import ModelFacts
from holddown.facts.weight_groups import Component, Split, WeightGroup
from holddown.plan.limits import padded_vocabulary, parallel_limits
from holddown.plan.parallelism import Parallelism

FACTS = engine_facts("cuda")


def codes(model: ModelFacts, tp: int = 1, dp: int = 1, ep: int = 1, dcp: int = 1, pp: int = 1) -> list[str]:
    split = Parallelism(tp, pp, dp, ep, dcp)
    return [limit.code for limit in parallel_limits(model, FACTS, split)]


def test_fp8_blocks_forbid_eight_and_allow_four() -> None:
    """Story 3: MiniMax-M2.5, experts 1536 wide: 1536 / 8 = 192 is no multiple of 128."""
    (limit,) = parallel_limits(minimax_m25(), FACTS, Parallelism(8))

    assert limit.code == "tp.block"
    assert limit.blocks
    assert limit.what.startswith("experts 1536 wide: 1536 / 8 = 192 is no multiple of the FP8 scale block of 128")
    assert codes(minimax_m25(), tp=4) == []


def test_expert_parallelism_keeps_experts_whole() -> None:
    """Story 3: eight GPUs with expert parallelism are allowed."""
    assert codes(minimax_m25(), tp=8, ep=8) == []


def test_data_parallel_ranks_divide_experts_too() -> None:
    """Without expert parallelism vLLM divides every expert over all ranks of a stage."""
    assert codes(minimax_m25(), tp=4, dp=2) == ["tp.block"]
    assert codes(minimax_m25(), tp=4, dp=2, ep=8) == []


@pytest.mark.parametrize(
    ("tp", "expected"),
    [
        (8, []),
        (32, []),
        (64, ["tp.marlin"]),
        (6, ["tp.heads", "tp.width"]),
    ],
)
def test_int4_groups_of_32(tp: int, expected: list[str]) -> None:
    """Kimi-K2.5 INT4: 2048 / 64 = 32 is whole groups but not what Marlin's kernel takes."""
    assert codes(kimi_k25_int4(), tp=tp) == expected


def test_what_only_costs_speed_does_not_block() -> None:
    """And comes after what does."""
    assert not parallel_limits(kimi_k25_int4(), FACTS, Parallelism(64))[0].blocks
    both = parallel_limits(kimi_k25_int4(), FACTS, Parallelism(64, 128))
    assert [(limit.code, limit.blocks) for limit in both] == [("pp.layers", True), ("tp.marlin", False)]


def test_groups_that_are_cut_block() -> None:
    """2048 / 64 = 32 cuts a group of 128."""
    assert codes(replace(kimi_k25_int4(), group_size=128), tp=64) == ["tp.group"]


@pytest.mark.parametrize(
    ("method", "tp", "expected"),
    [("gptq", 8, ["tp.marlin"]), ("awq_marlin", 4, ["tp.marlin"]), ("gptq", 64, ["tp.group"]), ("mxfp4", 8, [])],
)
def test_some_kernels_regroup_or_pad(method: str, tp: int, expected: list[str]) -> None:
    """GPTQ and AWQ groups of 128 are halved down to 32 where they are cut; MXFP4 is padded (gpt-oss on 8 GPUs)."""
    model = replace(kimi_k25_int4(), quantization=from_file(method, "config.json"), group_size=128)
    width = 2880 if method == "mxfp4" else 768
    moe = replace(minimax_m25().moe or pytest.fail("no experts"), moe_intermediate_size=width)

    assert codes(replace(model, moe=moe), tp=tp) == expected


@pytest.mark.parametrize(("tp", "expected"), [(4, []), (16, []), (6, ["tp.kv-heads"]), (12, ["tp.kv-heads"])])
def test_key_value_heads_are_divided_or_repeated(tp: int, expected: list[str]) -> None:
    """8 of them: over 4, or twice each over 16; not over 6 or 12."""
    dense = replace(minimax_m25(), moe=None, vocab_size=from_file(200064, "config.json"))

    assert codes(dense, tp=tp) == expected


def test_the_vocabulary_is_padded_before_it_is_divided() -> None:
    """To whole 64s."""
    assert padded_vocabulary(32001) == 32064
    assert "tp.vocabulary" in codes(replace(minimax_m25(), vocab_size=from_file(200, "config.json")), tp=6)
    assert "tp.vocabulary" not in codes(replace(minimax_m25(), vocab_size=from_file(200, "config.json")), tp=4)


def test_experts_that_do_not_come_out_even_are_a_note() -> None:
    """vLLM gives some ranks one more."""
    (limit,) = parallel_limits(minimax_m25(), FACTS, Parallelism(12, 1, 1, 12))[-1:]

    assert limit.code == "ep.experts"
    assert not limit.blocks


def test_expert_parallelism_needs_experts() -> None:
    """The engine refuses it for a dense model."""
    assert codes(replace(minimax_m25(), moe=None), tp=4, ep=4) == ["ep.dense"]


def test_shared_experts_are_divided_in_any_case() -> None:
    """512 wide over 8 leaves 64, half a block, also with expert parallelism."""
    shared = WeightGroup("m", Component.SHARED_EXPERTS, Split.COLUMN, "fp8-block", 2, 2 * 512 * 4096, 1)
    model = replace(minimax_m25(), weights=(shared,))

    assert codes(model, tp=8, ep=8) == ["tp.block"]
    assert codes(model, tp=4, ep=4) == []
    assert codes(replace(model, weights=(replace(shared, format="bf16"),)), tp=8, ep=8) == []


@pytest.mark.parametrize(
    ("tp", "dcp", "expected"),
    [(16, 2, []), (8, 2, ["dcp.attention"]), (16, 4, ["dcp.attention"])],
)
def test_decode_context_parallelism_needs_repeated_heads(tp: int, dcp: int, expected: list[str]) -> None:
    """8 key-value heads on 16 GPUs are there twice."""
    assert codes(replace(minimax_m25(), moe=None), tp=tp, dcp=dcp) == expected


def test_mla_is_divided_at_will() -> None:
    """Its one latent vector is on every rank."""
    assert codes(kimi_k25_int4(), tp=8, dcp=8) == []


def test_windows_are_not_divided() -> None:
    """gpt-oss has a sliding window in every other layer."""
    assert "dcp.window" in codes(gpt_oss(), tp=16, dcp=2)


def test_pipeline_stages() -> None:
    """An architecture whose code has no stages, and more stages than layers."""
    without = replace(FACTS, without_pipeline=from_file(("MiniMaxM2ForCausalLM",), "registry"))
    split = Parallelism(1, 2)

    assert [limit.code for limit in parallel_limits(minimax_m25(), without, split)] == ["pp.architecture"]
    assert codes(minimax_m25(), pp=2) == []
    assert codes(minimax_m25(), pp=64) == ["pp.layers"]


def test_every_limit_names_the_engines_file() -> None:
    """So that a reader can check it."""
    splits = (Parallelism(8), Parallelism(6), Parallelism(5, 64), Parallelism(16, 1, 1, 1, 4))
    limits = [limit for split in splits for limit in parallel_limits(minimax_m25(), FACTS, split)]

    assert limits
    assert [limit for limit in limits if ".py" not in limit.source and "/" not in limit.source] == []
