"""What a model asks of the hardware in one forward pass, summed once, so that many ways to run it are quickly timed."""

from collections.abc import Iterable
from dataclasses import dataclass

from holddown.base.evidence import Fact, Unknown, derived
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
from holddown.facts.model import ModelFacts, Moe
from holddown.facts.weight_groups import Component, Split, WeightGroup
from holddown.plan.parallelism import Parallelism

_READ_EACH_STEP = frozenset(
    {Component.ATTENTION, Component.DENSE_MLP, Component.SHARED_EXPERTS, Component.ROUTER, Component.HEAD}
)
_FAMILIES = {"f16": "bf16", "f32": "bf16"}
_PLAIN = frozenset({"bf16", "fp8", "fp8-block", "int8", "int4", "nvfp4", "mxfp4", "mxfp8"})
# Weights of these are multiplied with activations of the same width, so each linear layer quantises its input first.
_WITH_ACTIVATIONS = frozenset({"fp8", "fp8-block", "int8", "nvfp4", "mxfp4", "mxfp8"})


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of one storage format. format: as in WeightGroup, GGUF's types together as `gguf`."""

    format: str
    size_bytes: float
    parameters: float


@dataclass(frozen=True, slots=True)
class LayerCounts:
    """quantizing: by format, linear layers whose input is quantised before each product."""

    attention: int
    latent_attention: int
    indexer: int
    delta_net: int
    mamba: int
    dense_mlp: int
    experts: int
    shared_expert: int
    quantizing: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class ModelWork:
    """dense: what every pass streams, by how it is split. blocks: attention and feed-forward blocks, each of which ends
    in an all-reduce under tensor parallelism. heads: key-value heads of the layer with the fewest, for the split."""

    dense: tuple[tuple[Split, Weights], ...]
    experts: tuple[Weights, ...]
    attention: tuple[Attention, ...]
    moe: Moe | None
    layers: LayerCounts
    blocks: int
    kv_heads: int
    hidden_size: int
    vocab_size: int


def model_work(model: ModelFacts) -> Fact[ModelWork]:
    """Unknown where the weights, the attention or the widths of the model are not known."""
    if isinstance(model.attention, Unknown):
        return Unknown(f"its attention is not known: {model.attention.why}")
    if isinstance(model.hidden_size, Unknown):
        return Unknown(f"its width is not known: {model.hidden_size.why}")
    if not any(group.component in _READ_EACH_STEP for group in model.weights):
        return Unknown("what its weights are for is not known")
    attention = model.attention.value
    layers = _layer_counts(model, attention)
    work = ModelWork(
        dense=_dense(model.weights),
        experts=_merged((Split.EXPERTS, _stored(group)) for group in _of(model, Component.ROUTED_EXPERTS)).get(
            Split.EXPERTS, ()
        ),
        attention=attention,
        moe=model.moe,
        layers=layers,
        blocks=sum(kind.layers for kind in attention) + layers.dense_mlp + layers.experts,
        kv_heads=min((heads for kind in attention if (heads := _kv_heads(kind))), default=1),
        hidden_size=model.hidden_size.value,
        vocab_size=0 if isinstance(model.vocab_size, Unknown) else model.vocab_size.value,
    )
    return derived(work, "weight groups, attention and experts of the checkpoint")


def on_one_rank(work: ModelWork, split: Parallelism) -> tuple[Weights, ...]:
    """The dense weights that the fullest rank streams in a pass, by format; all stages together."""
    tp = split.tensor_parallel_size
    shares = dict.fromkeys(Split, 1.0 / tp)
    shares[Split.REPLICATED] = 1.0
    shares[Split.KV_HEADS] = max(1.0 / tp, 1.0 / work.kv_heads)
    sums: dict[str, tuple[float, float]] = {}
    for kind, weights in work.dense:
        size, parameters = sums.get(weights.format, (0.0, 0.0))
        share = shares[kind]
        sums[weights.format] = (size + weights.size_bytes * share, parameters + weights.parameters * share)
    return tuple(Weights(name, *both) for name, both in sums.items())


def _of(model: ModelFacts, component: Component) -> tuple[WeightGroup, ...]:
    return tuple(group for group in model.weights if group.component is component)


def _dense(groups: tuple[WeightGroup, ...]) -> tuple[tuple[Split, Weights], ...]:
    streamed = [group for group in groups if group.component in _READ_EACH_STEP]
    if not any(group.component is Component.HEAD for group in streamed):
        # a tied head: the embedding's table is multiplied as the head
        streamed += [group for group in groups if group.component is Component.EMBEDDINGS]
    merged = _merged((group.split, _stored(group)) for group in streamed)
    return tuple((split, weights) for split, formats in merged.items() for weights in formats)


def _stored(group: WeightGroup) -> Weights:
    if group.module.endswith(".kv_b_proj"):
        # decoding multiplies with its two halves, which engines keep in 16 bit whatever the checkpoint holds.
        # Source: vLLM v1/attention/backends/mla/common.py process_weights_after_loading
        return Weights("bf16", 2.0 * group.parameters, group.parameters)
    name = _FAMILIES.get(group.format, group.format)
    return Weights(name if name in _PLAIN else "gguf", group.size_bytes, group.parameters)


def _merged(weights: Iterable[tuple[Split, Weights]]) -> dict[Split, tuple[Weights, ...]]:
    sums: dict[tuple[Split, str], tuple[float, float]] = {}
    for split, each in weights:
        size, parameters = sums.get((split, each.format), (0.0, 0.0))
        sums[split, each.format] = (size + each.size_bytes, parameters + each.parameters)
    merged: dict[Split, tuple[Weights, ...]] = {}
    for (split, name), both in sums.items():
        merged[split] = (*merged.get(split, ()), Weights(name, *both))
    return merged


def _layer_counts(model: ModelFacts, attention: tuple[Attention, ...]) -> LayerCounts:
    counts = dict.fromkeys(("attention", "latent_attention", "indexer", "delta_net", "mamba"), 0)
    for kind in attention:
        counts[_kernel_family(kind)] += kind.layers
        counts["indexer"] += _indexers(kind)
    return LayerCounts(
        **counts,
        dense_mlp=_down_projections(model, Component.DENSE_MLP),
        experts=model.moe.layers if model.moe else 0,
        shared_expert=_down_projections(model, Component.SHARED_EXPERTS),
        quantizing=_quantizing(model),
    )


def _kernel_family(kind: Attention) -> str:
    match kind:
        case Mla() | SparseMla() | CompressedAttention():
            return "latent_attention"
        case LinearAttention():
            return "mamba" if kind.name == "mamba2" else "delta_net"
        case FullAttention() | SlidingWindow() | BlockSparse():
            return "attention"


def _indexers(kind: Attention) -> int:
    match kind:
        case SparseMla():
            return kind.index_layers
        case CompressedAttention():
            return sum(1 for ratio in kind.compress_ratios if ratio == 4)
        case BlockSparse():
            return kind.layers
        case _:
            return 0


def _kv_heads(kind: Attention) -> int:
    match kind:
        case FullAttention() | SlidingWindow() | BlockSparse():
            return kind.num_key_value_heads
        case _:
            return 0


def _down_projections(model: ModelFacts, component: Component) -> int:
    """How many layers have such a block: each has one projection back to the hidden size."""
    return max((group.count for group in _of(model, component) if group.split is Split.ROW), default=0)


def _quantizing(model: ModelFacts) -> tuple[tuple[str, int], ...]:
    """Each block quantises twice: its input, and what its last projection takes."""
    sums: dict[str, int] = {}
    for group in model.weights:
        if group.split is Split.ROW and group.component in _READ_EACH_STEP and group.format in _WITH_ACTIVATIONS:
            sums[group.format] = sums.get(group.format, 0) + 2 * group.count
    layers = model.moe.layers if model.moe else 0
    for name in {group.format for group in _of(model, Component.ROUTED_EXPERTS)} & _WITH_ACTIVATIONS:
        sums[name] = sums.get(name, 0) + 2 * layers
    return tuple(sums.items())
