"""The time of one pass, against sums done by hand on round numbers."""

from dataclasses import replace

import pytest

from fakes.speed import FLAT, GPU, factor, heads, layer_counts, round_rig, table, work
from holddown.facts.attention import Mla, SlidingWindow, SparseMla
from holddown.facts.kv_cache import BF16, FP8
from holddown.facts.model import Moe
from holddown.facts.weight_groups import Split
from holddown.plan.collectives import all_reduce_s
from holddown.plan.parallelism import Parallelism
from holddown.plan.rig import rig
from holddown.plan.step import decode_step, prefill_chunk
from holddown.plan.work import Weights
from holddown.tables.gpu import AllReduceCurve, FabricRow

ONE = Parallelism()
MOE = Moe(layers=1, num_experts=4, num_experts_per_tok=1, moe_intermediate_size=1, shared_intermediate_size=0)


def test_one_token_streams_the_weights_once() -> None:
    """10 GB over 1000 GB/s."""
    step = decode_step(work(), round_rig(), ONE, BF16, 1, 1)

    assert step.dense_weights == pytest.approx(10e-3)
    assert step.total == pytest.approx(10e-3)


def test_a_large_batch_is_bound_by_compute() -> None:
    """2 * 5e9 parameters * 1000 tokens at 100 TFLOPS."""
    assert decode_step(work(), round_rig(), ONE, BF16, 1000, 1).dense_weights == pytest.approx(0.1)


def test_the_format_decides_which_tensor_cores_multiply() -> None:
    """FP8 has twice the rate; 4-bit integers are multiplied in 16 bit."""
    fp8 = work(((Split.COLUMN, Weights("fp8", 5e9, 5e9)),))
    int4 = work(((Split.COLUMN, Weights("int4", 2.5e9, 5e9)),))

    assert decode_step(fp8, round_rig(), ONE, BF16, 1000, 1).total == pytest.approx(0.05)
    assert decode_step(int4, round_rig(), ONE, BF16, 1000, 1).total == pytest.approx(0.1)


def test_fp4_runs_in_16_bit_where_nothing_else_is_there_or_wanted() -> None:
    """Hopper has no FP4 tensor cores; a W4A16 build does not use Blackwell's."""
    fp4 = work(((Split.COLUMN, Weights("nvfp4", 2.5e9, 5e9)),))
    blackwell = replace(GPU, fp4_tflops=400.0)

    assert decode_step(fp4, round_rig(), ONE, BF16, 1000, 1).total == pytest.approx(0.1)
    assert decode_step(fp4, round_rig(gpu=blackwell), ONE, BF16, 1000, 1).total == pytest.approx(0.025)
    weight_only = rig(blackwell, FLAT, "vllm", table(), weight_only=True)
    assert decode_step(fp4, weight_only, ONE, BF16, 1000, 1).total == pytest.approx(0.1)


def test_tensor_parallelism_divides_all_but_what_every_rank_holds() -> None:
    """Of 10 GB divided and 2 GB replicated, four ranks stream 2.5 + 2 GB each."""
    both = work(((Split.COLUMN, Weights("bf16", 10e9, 5e9)), (Split.REPLICATED, Weights("bf16", 2e9, 1e9))))

    assert decode_step(both, round_rig(), Parallelism(4), BF16, 1, 1).dense_weights == pytest.approx(4.5e-3)


def test_key_value_projections_are_repeated_when_heads_run_out() -> None:
    """8 key-value heads over 16 ranks: an eighth each, not a sixteenth."""
    kv = work(((Split.KV_HEADS, Weights("bf16", 8e9, 4e9)),))

    assert decode_step(kv, round_rig(), Parallelism(16), BF16, 1, 1).dense_weights == pytest.approx(1e-3)


@pytest.mark.parametrize(("batch", "touched"), [(1, 1 / 4), (2, 7 / 16), (1000, 1.0)])
def test_only_the_experts_that_are_chosen_are_read(batch: int, touched: float) -> None:
    """Two tokens with one choice of four miss an expert with (3/4)^2."""
    model = work((), (Weights("bf16", 8e9, 1.0),), moe=MOE)

    assert decode_step(model, round_rig(), ONE, BF16, batch, 1).routed_experts == pytest.approx(8e-3 * touched)


def test_experts_are_divided_over_all_replicas() -> None:
    """Two replicas of two ranks: a quarter of the experts on each, touched by the tokens of both."""
    model = work((), (Weights("bf16", 8e9, 1.0),), moe=MOE)
    split = Parallelism(tensor_parallel_size=2, data_parallel_size=2)

    assert decode_step(model, round_rig(), split, BF16, 2, 1).routed_experts == pytest.approx(2e-3 * 7 / 16)


def test_the_rank_with_most_tokens_is_waited_for() -> None:
    """One token with one choice: with its experts on four ranks, one rank reads the whole of that expert."""
    model = work((), (Weights("bf16", 8e9, 1.0),), moe=MOE)
    split = Parallelism(tensor_parallel_size=4, expert_parallel_size=4)

    assert decode_step(model, round_rig(), split, BF16, 1, 1).routed_experts == pytest.approx(2e-3)


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_that_rank_reads_an_expert_whole_however_few_choose(batch: int) -> None:
    """Of four experts on four ranks somebody reads one, be it that the tokens choose the same."""
    model = work((), (Weights("bf16", 8e9, 1.0),), moe=MOE)
    split = Parallelism(tensor_parallel_size=4, expert_parallel_size=4)

    assert decode_step(model, round_rig(), split, BF16, batch, 1).routed_experts == pytest.approx(2e-3)


def test_every_sequence_reads_its_cache() -> None:
    """4 sequences of 1000 tokens of 4 kB; in 8 bit half of it."""
    model = work((), attention=(heads(),))

    assert decode_step(model, round_rig(), ONE, BF16, 4, 1000).attention == pytest.approx(16e-6)
    assert decode_step(model, round_rig(), ONE, FP8, 4, 1000).attention == pytest.approx(8e-6)
    assert decode_step(model, round_rig(), Parallelism(8), BF16, 4, 1000).attention == pytest.approx(2e-6)


def test_no_step_reads_more_than_the_cache_holds() -> None:
    """Sequences with a common prefix share its blocks: 4 x 1000 tokens in a cache of 1000."""
    model = work((), attention=(heads(),))

    assert decode_step(model, round_rig(), ONE, BF16, 4, 1000, resident=1000).attention == pytest.approx(4e-6)


def test_a_window_reads_no_more_than_itself() -> None:
    """100 tokens of 4 kB, however long the sequence."""
    model = work((), attention=(SlidingWindow(1, 8, 8, 125, 125, 100),))

    assert decode_step(model, round_rig(), ONE, BF16, 1, 100_000).attention == pytest.approx(0.4e-6)


def test_sparse_attention_reads_what_its_indexer_picks() -> None:
    """500 latents of 1200 bytes and an index key of 132 for each of 10,000 tokens; dense, all 10,000 of both."""
    sparse = SparseMla(1, 1, 500, 64, 100, 64, 1, 1, 128, 500)
    model = work((), attention=(sparse,))
    dense = rig(GPU, FLAT, "vllm", table(), sparse_attention=False)

    seconds = decode_step(model, round_rig(), ONE, BF16, 1, 10_000).attention
    assert seconds == pytest.approx((500 * 1200 + 10_000 * 132) / 1e12)
    assert decode_step(model, dense, ONE, BF16, 1, 10_000).attention == pytest.approx(10_000 * 1332 / 1e12)


def test_the_latent_cache_is_divided_by_context_not_by_heads() -> None:
    """Every tensor parallel rank reads all latents, unless the context is divided."""
    model = work((), attention=(Mla(1, 8, 500, 64, 100, 64),))
    rank = round_rig()

    whole = decode_step(model, rank, Parallelism(8), BF16, 1, 8000).attention
    assert whole == pytest.approx(8000 * 1200 / 1e12)
    divided = Parallelism(8, decode_context_parallel_size=8)
    assert decode_step(model, rank, divided, BF16, 1, 8000).attention == pytest.approx(whole / 8)


def test_each_block_ends_in_an_all_reduce() -> None:
    """Two attention blocks and the embedding at 10 us, and half of one for the logits."""
    model = work((), attention=(heads(2),))

    seconds = decode_step(model, round_rig(table(collective=1.0)), Parallelism(2), BF16, 1, 1).collectives
    assert seconds == pytest.approx(35e-6)
    assert decode_step(model, round_rig(table(collective=1.0)), ONE, BF16, 1, 1).collectives == 0


def test_data_parallel_attention_exchanges_tokens_with_the_experts() -> None:
    """To and fro for each layer of experts; nothing between ranks of one."""
    model = work((), (Weights("bf16", 1.0, 1.0),), moe=MOE)
    split = Parallelism(data_parallel_size=8, expert_parallel_size=8)

    step = decode_step(model, round_rig(table(collective=1.0, exchange=0.5)), split, BF16, 8, 1)
    assert step.collectives == pytest.approx(10e-6)


def test_kernels_are_counted_by_kind_of_layer() -> None:
    """2 attention layers of 1, 3 of experts at 7, and 10 per step."""
    model = work(layers=layer_counts(attention=2, experts=3))
    made = table(kernel_us=1.0, eager_kernel_us=2.0)

    assert decode_step(model, round_rig(made), ONE, BF16, 1, 1).kernels == pytest.approx(33e-6)
    eager = rig(GPU, FLAT, "vllm", made, cuda_graphs=False)
    assert decode_step(model, eager, ONE, BF16, 1, 1).kernels == pytest.approx(66e-6)


def test_activations_are_quantised_only_for_formats_that_want_it_here() -> None:
    """FP8 on Hopper does; FP4 on Hopper is weight-only."""
    counts = replace(layer_counts(), quantizing=(("fp8", 2), ("nvfp4", 100)))

    step = decode_step(work(layers=counts), round_rig(table(kernel_us=1.0)), ONE, BF16, 1, 1)
    assert step.kernels == pytest.approx((2 * 9 + 10) * 1e-6)


def test_a_factor_applies_where_its_conditions_hold() -> None:
    """Twice the kernel cost for one engine changes no other; a format's factor leaves other formats."""
    made = replace(
        table(kernel_us=1.0),
        factors=(factor("kernel_us", 2, engine="slow"), factor("dense_bandwidth", 0.5, format="fp8", generation="9")),
    )

    assert decode_step(work(), round_rig(made, engine="slow"), ONE, BF16, 1, 1).kernels == pytest.approx(20e-6)
    assert decode_step(work(), round_rig(made), ONE, BF16, 1, 1).kernels == pytest.approx(10e-6)
    fp8 = work(((Split.COLUMN, Weights("fp8", 5e9, 1.0)),))
    assert decode_step(fp8, round_rig(made), ONE, BF16, 1, 1).dense_weights == pytest.approx(10e-3)
    assert decode_step(work(), round_rig(made), ONE, BF16, 1, 1).dense_weights == pytest.approx(10e-3)


def test_micro_batches_fill_the_stages() -> None:
    """Four sequences in two stages: each pass has two of them, and crosses from stage to stage once."""
    model = work((), attention=(heads(),))
    step = decode_step(model, round_rig(table(stage_hop_us=15)), Parallelism(1, 2), BF16, 4, 1000)

    assert step.attention == pytest.approx(8e-6)
    assert step.host == pytest.approx(15e-6)


def test_a_prompt_computes_more_than_it_reads() -> None:
    """1000 tokens: 2 * 5e9 * 1000 operations, and half of the square of scores and values."""
    model = work(attention=(heads(),))
    chunk = prefill_chunk(model, round_rig(), ONE, 1000, 0)

    assert chunk.dense_weights == pytest.approx(0.1)
    assert chunk.attention == pytest.approx(1000 * 2 * 8 * 500 * 250 / 100e12)
    assert prefill_chunk(model, round_rig(), ONE, 1000, 1000).attention == pytest.approx(3 * chunk.attention)


CURVE = AllReduceCurve(8, (1.0, 4.0), (10.0, 20.0), "made up")
FABRIC = FabricRow("f", "f", (), (AllReduceCurve(2, (1.0,), (5.0,), "made up"), CURVE))


@pytest.mark.parametrize(
    ("ranks", "kib", "us"),
    [(1, 1, 0), (8, 1, 10), (8, 0.1, 10), (8, 4, 20), (8, 2, 200**0.5), (8, 8, 40), (4, 1, 10), (2, 1, 5), (16, 4, 20)],
)
def test_an_all_reduce_follows_its_curve(ranks: int, kib: float, us: float) -> None:
    """Flat below, log-log between the points, bandwidth beyond; a number of ranks in between has the next curve."""
    assert all_reduce_s(FABRIC, ranks, kib * 1024) == pytest.approx(us * 1e-6)
