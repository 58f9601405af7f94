"""What a pass asks of the hardware, summed from a model's weight groups."""

from dataclasses import replace

import pytest

from fakes.facts import model
from holddown.base.evidence import Known, Unknown, from_file
from holddown.facts.attention import CompressedAttention, LinearAttention, Mla, SlidingWindow, SparseMla
from holddown.facts.model import ModelFacts, Moe
from holddown.facts.weight_groups import Component, Split, WeightGroup
from holddown.plan.parallelism import Parallelism
from holddown.plan.work import ModelWork, Weights, model_work, on_one_rank


def group(
    module: str, component: Component, split: Split, format: str = "bf16", count: int = 1, size: int = 2000
) -> WeightGroup:
    """1000 parameters in `size` bytes."""
    return WeightGroup(module, component, split, format, count, 1000, size)


EMBEDDINGS = group("embed_tokens", Component.EMBEDDINGS, Split.VOCAB)
HEAD = group("lm_head", Component.HEAD, Split.VOCAB)
Q = group("layers.*.self_attn.q_proj", Component.ATTENTION, Split.COLUMN, "fp8", size=1000)
K = group("layers.*.self_attn.k_proj", Component.ATTENTION, Split.KV_HEADS, "fp8", size=1000)
O = group("layers.*.self_attn.o_proj", Component.ATTENTION, Split.ROW, "fp8", count=32, size=1000)  # noqa: E741
NORM = group("layers.*.input_layernorm", Component.NORMS, Split.REPLICATED)
DRAFT = group("mtp.fc", Component.MTP, Split.REPLICATED)
VISION = group("visual.blocks.*.attn.qkv", Component.VISION, Split.REPLICATED)
DOWN = group("layers.*.mlp.experts.*.down_proj", Component.ROUTED_EXPERTS, Split.EXPERTS, "nvfp4", 8 * 30, 600)
SHARED = group("layers.*.mlp.shared_experts.down_proj", Component.SHARED_EXPERTS, Split.ROW, count=30)
MOE = Moe(30, 8, 2, 100, 100)


def of(*groups: WeightGroup, **changes: object) -> ModelWork:
    facts: ModelFacts = replace(model(), weights=groups, **changes)  # type: ignore[arg-type]
    work = model_work(facts)
    assert isinstance(work, Known)
    return work.value


def test_a_pass_streams_all_but_look_ups_drafts_and_pictures() -> None:
    """The embedding is looked up, a draft layer runs by itself, the vision tower once per picture, norms are small."""
    work = of(EMBEDDINGS, HEAD, Q, NORM, DRAFT, VISION)

    assert dict(work.dense) == {Split.VOCAB: Weights("bf16", 2000, 1000), Split.COLUMN: Weights("fp8", 1000, 1000)}


def test_a_tied_embedding_is_the_head() -> None:
    """It is multiplied with once per token after all."""
    assert (Split.VOCAB, Weights("bf16", 2000, 1000)) in of(EMBEDDINGS, Q).dense


def test_the_latent_up_projection_is_read_in_16_bit() -> None:
    """Whatever the checkpoint holds: engines multiply with its two halves in 16 bit when they decode."""
    stored = group("layers.*.self_attn.kv_b_proj", Component.ATTENTION, Split.COLUMN, "fp8", size=1000)

    assert of(HEAD, stored).dense[1] == (Split.COLUMN, Weights("bf16", 2000, 1000))


def test_gguf_types_count_as_one_format() -> None:
    """Their rates differ less than their names."""
    q4 = group("blk.*.attn_q", Component.ATTENTION, Split.COLUMN, "Q4_K", size=560)
    q6 = group("blk.*.attn_v", Component.ATTENTION, Split.COLUMN, "Q6_K", size=820)

    assert of(HEAD, q4, q6).dense[1] == (Split.COLUMN, Weights("gguf", 1380, 2000))


def test_a_rank_holds_its_part_of_each_split() -> None:
    """Of 16 ranks: a sixteenth of the queries, an eighth of the keys of 8 heads."""
    work = of(HEAD, Q, K)

    assert on_one_rank(work, Parallelism(16)) == (
        Weights("bf16", pytest.approx(125), pytest.approx(62.5)),
        Weights("fp8", pytest.approx(1000 / 16 + 125), pytest.approx(1000 / 16 + 125)),
    )


def test_experts_are_summed_by_format_and_their_layers_counted() -> None:
    """30 layers with a shared expert; each quantises the experts' input and the middle of them."""
    work = of(HEAD, Q, O, DOWN, SHARED, moe=MOE)

    assert work.experts == (Weights("nvfp4", 600, 1000),)
    assert (work.layers.experts, work.layers.shared_expert, work.layers.dense_mlp) == (30, 30, 0)
    assert dict(work.layers.quantizing) == {"fp8": 64, "nvfp4": 60}
    assert work.blocks == 32 + 30


def test_each_kind_of_attention_has_its_own_kernels() -> None:
    """An indexer of V3.2 in some layers, of V4 in those of ratio 4; Mamba apart from delta nets."""
    kinds = (
        Mla(1, 8, 512, 128, 64, 128),
        SparseMla(10, 8, 512, 128, 64, 128, 3, 4, 128, 2048),
        CompressedAttention(4, 8, 512, (0, 4, 4, 128), 128, 4, 128, 512),
        LinearAttention(5, "mamba2", 8, 100),
        LinearAttention(6, "gated_delta_net", 8, 100),
        SlidingWindow(7, 8, 2, 128, 128, 1024),
    )
    work = of(HEAD, Q, attention=from_file(kinds, "config.json"))
    layers = work.layers

    assert (layers.latent_attention, layers.indexer, layers.mamba, layers.delta_net) == (15, 3 + 2, 5, 6)
    assert layers.attention == 7
    assert work.kv_heads == 2


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"attention": Unknown("keys that nobody knows")}, "keys that nobody knows"),
        ({"hidden_size": Unknown("no hidden_size")}, "no hidden_size"),
        ({"weights": ()}, "what its weights are for"),
        ({"weights": (EMBEDDINGS, VISION)}, "what its weights are for"),
    ],
)
def test_what_is_not_known_is_not_guessed(change: dict[str, object], why: str) -> None:
    """No attention, no width or no weights: no speed, with the reason."""
    facts = replace(model(), **{"weights": (HEAD, Q), **change})  # type: ignore[arg-type]
    work = model_work(facts)

    assert isinstance(work, Unknown)
    assert why in work.why
