"""What must hold of every prediction, whatever the model and the machine."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.speed import GPU, heads, layer_counts, work
from holddown.facts.attention import Attention, LinearAttention, Mla, SlidingWindow, SparseMla
from holddown.facts.kv_cache import BF16, FP8
from holddown.facts.model import Moe
from holddown.facts.weight_groups import Split
from holddown.facts.workload import Workload
from holddown.plan.collectives import all_reduce_s
from holddown.plan.parallelism import Parallelism
from holddown.plan.rig import Rig, rig
from holddown.plan.speed import closed_loop, predict
from holddown.plan.step import decode_step
from holddown.plan.work import ModelWork, Weights
from holddown.tables.gpu import FabricRow, GpuRow
from holddown.tables.load import fabric_rows, gpu_rows, speed_table

FORMATS = st.sampled_from(["bf16", "fp8", "fp8-block", "int4", "nvfp4", "mxfp4", "gguf"])
NVIDIA = [row for row in gpu_rows() if row.vendor == "NVIDIA"]
ATTENTION: list[tuple[Attention, ...]] = [
    (heads(60, 8, 128),),
    (Mla(61, 64, 512, 128, 64, 128),),
    (SparseMla(78, 64, 512, 192, 64, 256, 78, 32, 128, 2048),),
    (SlidingWindow(18, 64, 8, 64, 64, 128), heads(18, 8, 64)),
    (LinearAttention(45, "gated_delta_net", 64, 4_000_000), heads(15, 2, 256)),
]


@st.composite
def models(draw: st.DrawFn) -> ModelWork:
    """From 1 to 100 GB of dense weights, with or without experts."""
    size = draw(st.floats(1e9, 1e11))
    dense = (
        (Split.COLUMN, Weights(draw(FORMATS), size, size)),
        (Split.REPLICATED, Weights("bf16", size / 20, size / 40)),
    )
    attention = draw(st.sampled_from(ATTENTION))
    if draw(st.booleans()):
        return work(dense, attention=attention, layers=layer_counts(attention=60, dense_mlp=60))
    count, chosen = draw(st.sampled_from([(8, 2), (128, 4), (256, 8), (384, 8)]))
    experts = (Weights(draw(FORMATS), 10 * size, 15 * size),)
    moe = Moe(60, count, chosen, 2048, 0)
    return work(dense, experts, attention, moe, layer_counts(attention=60, experts=60))


@st.composite
def rigs(draw: st.DrawFn, gpu: GpuRow | None = None) -> Rig:
    """Any GPU of the table with any fabric and engine."""
    row = gpu or draw(st.sampled_from(NVIDIA))
    engine = draw(st.sampled_from(["vllm", "sglang", "trtllm", "llama.cpp", "another"]))
    return rig(row, draw(st.sampled_from(fabric_rows())), engine, speed_table(), cuda_graphs=draw(st.booleans()))


SPLITS = st.sampled_from(
    [
        Parallelism(),
        Parallelism(2),
        Parallelism(8),
        Parallelism(8, expert_parallel_size=8),
        Parallelism(4, 2),
        Parallelism(8, decode_context_parallel_size=8),
        Parallelism(1, data_parallel_size=8, expert_parallel_size=8),
    ]
)
BATCHES, CONTEXTS = st.integers(1, 1024), st.integers(1, 200_000)


@settings(deadline=None)
@given(models(), rigs(), SPLITS, BATCHES, BATCHES, CONTEXTS)
def test_more_sequences_never_make_a_step_shorter(
    model: ModelWork, at: Rig, split: Parallelism, batch: int, more: int, context: int
) -> None:
    """Not with experts, not with expert parallelism, not with stages."""
    small = decode_step(model, at, split, BF16, batch, context).total
    large = decode_step(model, at, split, BF16, batch + more, context).total

    assert large >= small * (1 - 1e-9)


@settings(deadline=None)
@given(models(), rigs(), SPLITS, BATCHES, CONTEXTS, CONTEXTS)
def test_a_longer_context_never_makes_a_step_shorter(
    model: ModelWork, at: Rig, split: Parallelism, batch: int, context: int, more: int
) -> None:
    """And a cache in 8 bit never makes it longer."""
    short = decode_step(model, at, split, BF16, batch, context).total

    assert decode_step(model, at, split, BF16, batch, context + more).total >= short * (1 - 1e-9)
    assert decode_step(model, at, split, FP8, batch, context).total <= short * (1 + 1e-9)


@settings(deadline=None)
@given(models(), SPLITS, BATCHES, CONTEXTS, st.floats(1, 4))
def test_a_faster_gpu_is_never_slower(
    model: ModelWork, split: Parallelism, batch: int, context: int, times: float
) -> None:
    """More bandwidth, or more compute."""
    fabric = fabric_rows()[0]
    slow = decode_step(model, rig(GPU, fabric, "vllm", speed_table()), split, BF16, batch, context).total
    for faster in (
        replace(GPU, bandwidth_gbs=GPU.bandwidth_gbs * times),
        replace(GPU, bf16_tflops=GPU.bf16_tflops * times, fp8_tflops=GPU.fp8_tflops * times),
    ):
        at = rig(faster, fabric, "vllm", speed_table())
        assert decode_step(model, at, split, BF16, batch, context).total <= slow * (1 + 1e-9)


@settings(deadline=None)
@given(models(), rigs(), SPLITS, BATCHES, BATCHES)
def test_more_users_never_get_less_together(
    model: ModelWork, at: Rig, split: Parallelism, users: int, more: int
) -> None:
    """With as much room as they need; each alone may get less. A tenth is left for stages that fill unevenly and for
    routing, where a second token on another rank costs a whole expert."""
    load = Workload("any", 1000, 500, 1)
    few = closed_loop(model, at, split, BF16, load, users).requests_per_s
    many = closed_loop(model, at, split, BF16, load, users + more).requests_per_s

    assert many >= few * 0.9


@settings(deadline=None)
@given(models(), rigs(), SPLITS, st.integers(1, 512), st.integers(0, 10**6))
def test_every_figure_is_positive_within_its_band(
    model: ModelWork, at: Rig, split: Parallelism, users: int, room: int
) -> None:
    """And the shares of a step add up to it."""
    speed = predict(model, at, split, BF16, Workload("any", 1000, 500, 1), users, room)

    for figure in (speed.single_stream_tok_s, speed.throughput_tok_s, speed.tpot_ms, speed.ttft_ms):
        assert 0 < figure.low < figure.value < figure.high
    assert abs(sum(share.fraction for share in speed.dominated_by) - 1) < 1e-6


@given(st.sampled_from(fabric_rows()), st.integers(2, 16), st.floats(1, 1e9), st.floats(1, 1e9))
def test_a_larger_payload_never_takes_less(fabric: FabricRow, ranks: int, payload: float, more: float) -> None:
    """On every fabric of the table, between its points and beyond them."""
    assert all_reduce_s(fabric, ranks, payload + more) >= all_reduce_s(fabric, ranks, payload) * (1 - 1e-9)
