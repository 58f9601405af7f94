"""Round numbers for the speed model: a GPU of 1000 GB/s and 100 TFLOPS, constants of 1, a fabric of 10 us."""

from holddown.facts.attention import Attention, FullAttention
from holddown.facts.model import Moe
from holddown.facts.weight_groups import Split
from holddown.plan.rig import Rig, rig
from holddown.plan.work import LayerCounts, ModelWork, Weights
from holddown.tables.gpu import AllReduceCurve, FabricRow, GpuRow
from holddown.tables.speed import Band, Constants, Drafting, Factor, Kernels, SpeedTable

GPU = GpuRow(
    name="Round",
    aliases=(),
    vendor="NVIDIA",
    compute_capability="9.0",
    sms=100,
    memory_bytes=100 * 10**9,
    bandwidth_gbs=1000.0,
    bf16_tflops=100.0,
    fp8_tflops=200.0,
    fp4_tflops=0.0,
    int8_tflops=200.0,
    link="flat",
    pcie="Gen5 x16",
    tdp_w=500,
    memory_source="made up",
    compute_source="made up",
    link_source="made up",
    notes="",
)
FLAT = FabricRow("nvlink9", "10 us whatever the payload", (), (AllReduceCurve(8, (1.0, 1e9), (10.0, 10.0), "made up"),))


def table(**constants: float) -> SpeedTable:
    """Every efficiency 1 and every cost 0, but for `constants`."""
    said = {
        "dense_bandwidth": 1.0,
        "expert_bandwidth": 1.0,
        "kv_bandwidth": 1.0,
        "activation_bandwidth": 1e9,
        "compute": 1.0,
        "kernel_us": 0.0,
        "eager_kernel_us": 0.0,
        "collective": 0.0,
        "context_collective": 1.0,
        "exchange": 1.0,
        "step_us": 0.0,
        "sequence_us": 0.0,
        "tile_rows": 1.0,
        "ep_spread": 0.0,
        "routing_evenness": 1.0,
        "kernel_growth": 0.0,
        "stage_hop_us": 0.0,
        "request_us": 0.0,
        "prompt_stretch": 1.0,
        "prompts_ahead": 0.0,
        **constants,
    }
    return SpeedTable(
        few_users=4,
        measured_engines=("vllm",),
        measured_generations=("9",),
        constants=Constants(**said, prefill_chunk_tokens=1000, source="made up"),
        kernels=Kernels(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, "made up"),
        factors=(),
        bands=(
            Band("few-users", "nvlink", 0.8, 1.25, "made up"),
            Band("few-users", "one-gpu", 0.9, 1.1, "made up"),
            Band("few-users", "unmeasured", 0.5, 2.0, "made up"),
            Band("many-users", "unmeasured", 0.4, 2.5, "made up"),
            Band("ttft", "unmeasured", 0.5, 2.0, "made up"),
        ),
        drafting=Drafting(1, 1.5, 1.2, 1.9, "made up"),
    )


def factor(term: str, value: float, engine: str = "", generation: str = "", format: str = "") -> Factor:
    return Factor(term, engine, generation, format, value, "made up")


def round_rig(constants: SpeedTable | None = None, gpu: GpuRow = GPU, engine: str = "vllm") -> Rig:
    return rig(gpu, FLAT, engine, constants or table())


def layer_counts(**counts: int) -> LayerCounts:
    said = dict.fromkeys(
        ("attention", "latent_attention", "indexer", "delta_net", "mamba", "dense_mlp", "experts", "shared_expert"), 0
    )
    return LayerCounts(**{**said, **counts}, quantizing=())


def work(
    dense: tuple[tuple[Split, Weights], ...] = ((Split.COLUMN, Weights("bf16", 10e9, 5e9)),),
    experts: tuple[Weights, ...] = (),
    attention: tuple[Attention, ...] = (),
    moe: Moe | None = None,
    layers: LayerCounts | None = None,
) -> ModelWork:
    """10 GB of divided 16-bit weights and nothing else, unless told otherwise."""
    blocks = sum(kind.layers for kind in attention) + (moe.layers if moe else 0)
    return ModelWork(dense, experts, attention, moe, layers or layer_counts(), blocks, 8, 1000, 10000)


def heads(layers: int = 1, kv_heads: int = 8, head_dim: int = 125) -> FullAttention:
    """2 * 8 * 125 * 2 bytes = 4 kB of cache per token and layer."""
    return FullAttention(layers, 8, kv_heads, head_dim, head_dim)
