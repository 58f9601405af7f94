"""The time of one forward pass on one rank, term by term."""

from dataclasses import dataclass, fields
from math import log, log2, sqrt
from typing import assert_never

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
from holddown.facts.kv_cache import CacheSplit, KvDtype, kv_bytes_per_sequence, kv_bytes_per_token
from holddown.facts.model import Moe
from holddown.plan.collectives import all_reduce_s
from holddown.plan.parallelism import Parallelism
from holddown.plan.rig import Rig
from holddown.plan.work import ModelWork, on_one_rank

_ACTIVATION_BYTES = 2
_ALL_GATHER = 0.5
"""Of an all-reduce: each byte travels once, not there and back."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """In seconds. collectives: waiting for the other ranks. kernels: launch, ramp-up and tail of each kernel, whatever
    it computes. host: the scheduler, the sampler and what is done per sequence."""

    dense_weights: float = 0.0
    routed_experts: float = 0.0
    attention: float = 0.0
    activations: float = 0.0
    collectives: float = 0.0
    kernels: float = 0.0
    host: float = 0.0

    @property
    def total(self) -> float:
        return float(sum(getattr(self, field.name) for field in fields(self)))


@dataclass(frozen=True, slots=True)
class Tokens:
    """What one pass computes, per data parallel replica. new: tokens of each sequence. context: keys that each sees,
    at the end. resident: tokens that the KV cache holds at most, 0 where that is not known."""

    sequences: float
    new: float
    context: float
    resident: float = 0.0

    @property
    def total(self) -> float:
        return self.sequences * self.new


def decode_step(
    work: ModelWork, rig: Rig, split: Parallelism, kv: KvDtype, batch: float, context: float, resident: float = 0.0
) -> StepTime:
    """One token for each of `batch` sequences, all replicas together; micro-batches pass through stages in turn."""
    share = batch / split.data_parallel_size / split.pipeline_parallel_size
    tokens = Tokens(max(share, 1.0), 1, max(context, 1.0), resident)
    return StepTime(
        **_weights(work, rig, split, tokens.total),
        attention=_decode_attention(work, rig, split, kv, tokens),
        activations=_activations(work, rig, tokens.total),
        collectives=_collectives(work, rig, split, tokens) + _logits(work, rig, split, tokens.sequences),
        kernels=_kernel_count(work, rig) * _decode_kernel_s(rig, tokens.sequences),
        host=_host(rig, split, tokens.sequences),
    )


def prefill_chunk(work: ModelWork, rig: Rig, split: Parallelism, new: float, before: float) -> StepTime:
    """`new` tokens of one prompt, of which `before` are already in the cache."""
    tokens = Tokens(1, new, before + new)
    flops = sum(_flops(kind, before + new / 2, rig.sparse_attention, prefill=True) for kind in work.attention)
    slow = rig.prefill
    weights = _weights(work, rig, split, new)
    return StepTime(
        dense_weights=slow * weights["dense_weights"],
        routed_experts=slow * weights["routed_experts"],
        attention=slow * new * flops / split.tensor_parallel_size / rig.attention_flops,
        activations=slow * _activations(work, rig, new),
        collectives=slow * _collectives(work, rig, split, tokens),
        kernels=slow * _kernel_count(work, rig) * rig.eager_kernel_s,
        host=slow * _host(rig, split, 1),
    )


def _weights(work: ModelWork, rig: Rig, split: Parallelism, new: float) -> dict[str, float]:
    dense = 0.0
    for weights in on_one_rank(work, split):
        rates = rig.formats[weights.format]
        dense += max(weights.size_bytes / rates.dense_bytes_s, 2 * weights.parameters * new / rates.dense_flops)
    return {"dense_weights": dense, "routed_experts": _experts(work, work.moe, rig, split, new) if work.moe else 0.0}


def _experts(work: ModelWork, moe: Moe, rig: Rig, split: Parallelism, new: float) -> float:
    """Of the experts those that the tokens of all replicas choose are read, each once.

    E * (1 - (1 - k / E) ** n) distinct ones of E by n tokens with k choices each, if chosen at random; real routing is
    less even and touches fewer, as if by n ** routing_evenness tokens.
    """
    constants = rig.table.constants
    ranks = split.tensor_parallel_size * split.data_parallel_size
    tokens = max(new * split.data_parallel_size, 1.0)
    per_expert = moe.num_experts_per_tok / moe.num_experts
    touched = 1 - (1 - per_expert) ** (tokens**constants.routing_evenness)
    busiest = _busiest(moe, split, tokens, constants.ep_spread)
    # whichever rank is the busiest reads an expert whole, be it that tokens choose the same ones
    one_each = split.expert_parallel_size / moe.num_experts
    rows = max(tokens * per_expert, constants.tile_rows * touched)
    seconds = 0.0
    for weights in work.experts:
        rates = rig.formats[weights.format]
        read = weights.size_bytes * min(1.0, max(touched * busiest, one_each)) / ranks
        flops = 2 * weights.parameters * rows * busiest / ranks
        seconds += max(read / rates.expert_bytes_s, flops / rates.expert_flops)
    return seconds


def _busiest(moe: Moe, split: Parallelism, tokens: float, spread: float) -> float:
    """How much more than the mean the expert parallel rank with the most work has: all wait for it.

    Of n choices spread over r ranks the fullest has about n / r + sqrt(2 n / r ln r). Source: balls in bins.
    """
    ranks = split.expert_parallel_size
    if ranks <= 1:
        return 1.0
    choices = tokens * moe.num_experts_per_tok
    if choices < ranks:
        return ranks / max(1.0, choices)
    return min(float(ranks), 1 + spread * sqrt(2 * log(ranks) * ranks / choices))


def _decode_attention(work: ModelWork, rig: Rig, split: Parallelism, kv: KvDtype, tokens: Tokens) -> float:
    ranks = CacheSplit(split.tensor_parallel_size, split.decode_context_parallel_size, 1)
    per_token = kv_bytes_per_token(work.attention, kv, ranks)
    # sequences that share a prefix share its cache: no step reads more than the cache holds
    shown = min(1.0, tokens.resident / (tokens.sequences * tokens.context)) if tokens.resident and per_token else 1.0
    seconds = 0.0
    for kind in work.attention:
        read = tokens.sequences * _read_bytes(kind, tokens.context, kv, ranks, rig.sparse_attention) * shown
        flops = tokens.total * _flops(kind, tokens.context, rig.sparse_attention, prefill=False)
        latent = isinstance(kind, Mla | SparseMla | CompressedAttention)
        rate = rig.latent_attention_flops if latent else rig.attention_flops
        seconds += max(read / rig.kv_bytes_s, flops / split.tensor_parallel_size / rate)
    return seconds


def _read_bytes(kind: Attention, context: float, kv: KvDtype, ranks: CacheSplit, sparse: bool) -> float:
    """Of one sequence in one step on one rank."""
    whole = kv_bytes_per_token((kind,), kv, ranks) * context
    match kind:
        case LinearAttention():
            return 2.0 * kv_bytes_per_sequence((kind,), int(context), kv, ranks)
        case SlidingWindow() | FullAttention() | Mla():
            return whole + kv_bytes_per_sequence((kind,), int(context), kv, ranks)
        case SparseMla() if sparse:
            latent = Mla(
                kind.layers,
                kind.num_attention_heads,
                kind.kv_lora_rank,
                kind.qk_nope_head_dim,
                kind.qk_rope_head_dim,
                kind.v_head_dim,
            )
            chosen = kv_bytes_per_token((latent,), kv, ranks)
            index = kv_bytes_per_token((kind,), kv, ranks) - chosen
            return chosen * min(context, kind.index_topk) + index * context
        case SparseMla():
            return whole
        case BlockSparse():
            keys = kind.layers * kind.index_head_dim * kv.element_bytes / ranks.dcp
            return (whole / context - keys) * min(context, kind.topk_tokens) + keys * context
        case CompressedAttention():
            return whole + kv_bytes_per_sequence((kind,), int(context), kv, ranks)
        case _:
            assert_never(kind)


def _flops(kind: Attention, context: float, sparse: bool, prefill: bool) -> float:
    """Scores and values of one new token against `context` keys, all heads. When decoding, MLA works on the latents."""
    keys: float
    width: float
    match kind:
        case FullAttention():
            keys, width = context, kind.head_dim + kind.v_head_dim
        case SlidingWindow():
            keys, width = min(context, kind.window), kind.head_dim + kind.v_head_dim
        case BlockSparse():
            keys, width = min(context, kind.topk_tokens), kind.head_dim + kind.v_head_dim
        case Mla() | SparseMla():
            keys = min(context, kind.index_topk) if isinstance(kind, SparseMla) and sparse else context
            width = kind.qk_rope_head_dim + 2 * kind.kv_lora_rank
            if prefill:
                width = kind.qk_rope_head_dim + kind.qk_nope_head_dim + kind.v_head_dim
        case CompressedAttention():
            each = [min(context / ratio, kind.index_topk) for ratio in kind.compress_ratios if ratio]
            keys, width = sum(each) / max(1, kind.layers), 2 * kind.head_dim
        case LinearAttention():
            return 0.0
        case _:
            assert_never(kind)
    return 2.0 * kind.layers * kind.num_attention_heads * keys * width


def _activations(work: ModelWork, rig: Rig, new: float) -> float:
    """Norms, residuals, rotary embedding and the experts' permutations: about 10 passes over the hidden states of an
    attention layer with its feed forward, and per chosen expert half a pass to and fro."""
    attention = sum(kind.layers for kind in work.attention)
    chosen = work.moe.layers * (4 + 2 * work.moe.num_experts_per_tok) if work.moe else 0
    return new * work.hidden_size * _ACTIVATION_BYTES * (10 * attention + chosen) / rig.activation_bytes_s


def _kernel_count(work: ModelWork, rig: Rig) -> float:
    """Of one pass. The kernels of an expert layer that is slow here count as more than one."""
    layers, per_layer = work.layers, rig.table.kernels
    quantizing = sum(count for name, count in layers.quantizing if rig.formats[name].quantizes)
    experts = max(work.experts, key=lambda weights: weights.size_bytes, default=None)
    slow = rig.formats[experts.format].expert_kernels if experts else 1.0
    return (
        layers.attention * per_layer.attention
        + layers.latent_attention * per_layer.latent_attention
        + (layers.indexer * per_layer.indexer if rig.sparse_attention else 0)
        + layers.delta_net * per_layer.delta_net
        + layers.mamba * per_layer.mamba
        + layers.dense_mlp * per_layer.dense_mlp
        + layers.experts * per_layer.experts * slow
        + layers.shared_expert * per_layer.shared_expert
        + quantizing * per_layer.activation_quantization
        + per_layer.step
    )


def _decode_kernel_s(rig: Rig, sequences: float) -> float:
    """Ramp-up and tail of a small kernel: with more rows it has more blocks to start and to wait for."""
    growth = 1 + rig.table.constants.kernel_growth * log2(sequences)
    return (rig.kernel_s if rig.cuda_graphs else rig.eager_kernel_s) * growth


def _collectives(work: ModelWork, rig: Rig, split: Parallelism, tokens: Tokens) -> float:
    """An all-reduce after each block and after the embedding; with data parallel attention the exchange of tokens
    before and after the experts; with a divided context the queries' gathering and the parts' combination."""
    constants, fabric, tp = rig.table.constants, rig.fabric, split.tensor_parallel_size
    if fabric is None:
        return 0.0
    hidden = tokens.total * work.hidden_size * _ACTIVATION_BYTES
    seconds = (work.blocks + 1) * all_reduce_s(fabric, tp, hidden)
    if split.decode_context_parallel_size > 1 and tokens.new == 1:
        seconds += _divided_context(work, rig, split, tokens) * constants.context_collective
    if split.data_parallel_size > 1 and work.moe:
        ranks = tp * split.data_parallel_size
        gathered = hidden * split.data_parallel_size
        seconds += 2 * work.moe.layers * all_reduce_s(fabric, ranks, gathered) * constants.exchange
    return seconds * rig.collective


def _divided_context(work: ModelWork, rig: Rig, split: Parallelism, tokens: Tokens) -> float:
    assert rig.fabric is not None
    seconds = 0.0
    for kind in work.attention:
        match kind:
            case Mla() | SparseMla():
                width = kind.kv_lora_rank
            case FullAttention() | BlockSparse():
                width = kind.head_dim
            case _:
                continue
        payload = tokens.total * kind.num_attention_heads * width * _ACTIVATION_BYTES / split.tensor_parallel_size
        seconds += 2 * kind.layers * all_reduce_s(rig.fabric, split.decode_context_parallel_size, payload)
    return seconds


def _logits(work: ModelWork, rig: Rig, split: Parallelism, sequences: float) -> float:
    """Each rank has its part of the vocabulary's logits; they are gathered for the sampler."""
    if rig.fabric is None:
        return 0.0
    tp = split.tensor_parallel_size
    payload = sequences * work.vocab_size * _ACTIVATION_BYTES / tp
    return _ALL_GATHER * all_reduce_s(rig.fabric, tp, payload) * rig.collective


def _host(rig: Rig, split: Parallelism, sequences: float) -> float:
    hops = (split.pipeline_parallel_size - 1) * rig.table.constants.stage_hop_us * 1e-6
    return rig.step_s + rig.sequence_s * sequences + hops
