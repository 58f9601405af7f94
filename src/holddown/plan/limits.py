"""Rules of the engine about how a model may be split. Each is a fact of the engine's code and names its file."""

from collections.abc import Iterator
from dataclasses import dataclass

from holddown.base.evidence import Known, known_or
from holddown.facts.attention import BlockSparse, FullAttention, LinearAttention, SlidingWindow
from holddown.facts.engine import EngineFacts
from holddown.facts.model import ModelFacts
from holddown.facts.weight_groups import Component, WeightGroup
from holddown.plan.parallelism import Parallelism

_VOCABULARY_PADDING = 64
"""Source: vLLM model_executor/layers/vocab_parallel_embedding.py DEFAULT_VOCAB_PADDING_SIZE."""


@dataclass(frozen=True, slots=True)
class Limit:
    """Why a split does not work, or works less well. code: dotted and stable, e.g. `tp.heads`. blocks: it would not
    start; otherwise `what` says what it costs. source: the engine's file."""

    code: str
    what: str
    source: str
    blocks: bool = True


NO_EXPERTS = Limit("ep.dense", "expert parallelism needs experts; this model has none", "config/model.py")


def parallel_limits(model: ModelFacts, facts: EngineFacts, split: Parallelism) -> tuple[Limit, ...]:
    """Every rule that this split breaks, those that forbid it first. Cheap: no file is read.

    Codes: tp.heads tp.kv-heads tp.width tp.block tp.group tp.marlin tp.vocabulary, ep.dense ep.experts, dcp.attention
    dcp.window, pp.architecture pp.layers.
    """
    found = [
        *_heads(model, split),
        *_vocabulary(model, split),
        *_experts(model, split),
        *_dense_blocks(model, split),
        *_decode_context(model, split),
        *_stages(model, facts, split),
    ]
    return tuple(sorted(dict.fromkeys(found), key=lambda limit: not limit.blocks))


def _heads(model: ModelFacts, split: Parallelism) -> Iterator[Limit]:
    tp = split.tensor_parallel_size
    counts = [known_or(model.num_attention_heads, 0)]
    attention = known_or(model.attention, ())
    counts += [kind.num_attention_heads for kind in attention if not isinstance(kind, LinearAttention)]
    for heads in dict.fromkeys(counts):
        if heads % tp:
            what = f"{heads} attention heads cannot be divided by tensor parallel size {tp}"
            yield Limit("tp.heads", what, "config/model.py verify_with_parallel_config")
    for kind in attention:
        if isinstance(kind, FullAttention | SlidingWindow | BlockSparse):
            heads = kind.num_key_value_heads
            if heads % tp and tp % heads:
                what = f"{heads} key-value heads can neither be divided over {tp} GPUs nor repeated evenly on them"
                yield Limit("tp.kv-heads", what, "model_executor/layers/linear.py QKVParallelLinear")


def _vocabulary(model: ModelFacts, split: Parallelism) -> Iterator[Limit]:
    tp = split.tensor_parallel_size
    padded = padded_vocabulary(known_or(model.vocab_size, 0))
    if padded % tp:
        what = f"the vocabulary, padded to {padded} rows, cannot be divided by tensor parallel size {tp}"
        yield Limit("tp.vocabulary", what, "model_executor/layers/vocab_parallel_embedding.py")


def padded_vocabulary(vocab_size: int) -> int:
    """The rows that the embedding and the head have on all ranks together."""
    return -(-vocab_size // _VOCABULARY_PADDING) * _VOCABULARY_PADDING


def _experts(model: ModelFacts, split: Parallelism) -> Iterator[Limit]:
    """Without expert parallelism every expert's width is divided over all ranks of a stage; with it experts stay whole.

    Source: vLLM model_executor/layers/fused_moe/config.py FusedMoEParallelConfig.make: tensor parallel size of the
    experts is tp x dp.
    """
    moe, ep = model.moe, split.expert_parallel_size
    if moe is None:
        if ep > 1:
            yield NO_EXPERTS
        return
    if ep > 1:
        if moe.num_experts % ep:
            what = f"{moe.num_experts} experts on {ep} ranks are uneven: some ranks hold one more than others"
            yield Limit("ep.experts", what, "model_executor/layers/fused_moe determine_expert_map", blocks=False)
        return
    ranks, width = split.tensor_parallel_size * split.data_parallel_size, moe.moe_intermediate_size
    if width % ranks:
        what = f"experts {width} wide cannot be divided by {ranks}"
        yield Limit("tp.width", what, "distributed/utils.py divide")
        return
    if ranks > 1:
        yield from _aligned(model, width // ranks, f"experts {width} wide: {width} / {ranks} = {width // ranks}")


def _aligned(model: ModelFacts, part: int, arithmetic: str) -> Iterator[Limit]:
    """The part of an expert that one rank holds, against the grain of its scales. MXFP4 is padded to whole blocks.

    Source: vLLM 0.16.0 model_executor/layers/quantization/mxfp4.py round_up; moe_wna16.py halves the group down to 32.
    """
    for block in dict.fromkeys(model.weight_block):
        if part % block:
            what = f"{arithmetic} is no multiple of the FP8 scale block of {block}{_WHOLE}"
            yield Limit("tp.block", what, "model_executor/layers/quantization/fp8.py, utils/fp8_utils.py")
            return
    group, method = model.group_size, known_or(model.quantization, "")
    if group <= 0 or method in _PADDED:
        return
    regrouped = min(group, 32) if method in _REGROUPED else group
    if part % regrouped:
        what = f"{arithmetic} is no multiple of the scale group of {regrouped}{_WHOLE}"
        yield Limit("tp.group", what, "model_executor/layers/quantization/compressed_tensors, modelopt.py")
    elif method in (*_REGROUPED, "compressed-tensors") and part % max(64, group):
        what = f"{arithmetic} is no multiple of {max(64, group)}, as Marlin's kernel wants: a slower one runs"
        source = "model_executor/layers/quantization/utils/marlin_utils.py check_moe_marlin_supports_layer"
        yield Limit("tp.marlin", what, source, blocks=False)


_WHOLE = "; expert parallelism keeps experts whole"
_PADDED = ("mxfp4", "gpt_oss_mxfp4")
_REGROUPED = ("gptq", "gptq_marlin", "awq", "awq_marlin", "auto_gptq", "auto_awq", "moe_wna16")


def _dense_blocks(model: ModelFacts, split: Parallelism) -> Iterator[Limit]:
    """Shared experts and dense layers are divided with expert parallelism as without it."""
    tp, hidden = split.tensor_parallel_size, known_or(model.hidden_size, 0)
    if tp == 1 or not hidden or not model.weight_block:
        return
    block = max(model.weight_block)
    for group in model.weights:
        width = _width(group, hidden)
        if width and (width % tp or width // tp % block):
            what = f"{group.component.value.replace('_', ' ')} {width} wide: {width} / {tp} is no multiple of the FP8 "
            source = "model_executor/layers/quantization/utils/fp8_utils.py validate_fp8_block_shape"
            yield Limit("tp.block", f"{what}scale block of {block}", source)


def _width(group: WeightGroup, hidden: int) -> int:
    """Features between the two projections of an MLP with FP8 block scales; 0 for any other group."""
    is_mlp = group.component in (Component.SHARED_EXPERTS, Component.DENSE_MLP) and group.format == "fp8-block"
    return group.parameters // group.count // hidden if is_mlp else 0


def _decode_context(model: ModelFacts, split: Parallelism) -> Iterator[Limit]:
    """MLA can be divided at will; key-value heads only where they are repeated. Whether the backend can is asked with
    the KV cache (`compat.kv_choices`).

    Source: vLLM 0.16.0 and 0.33.0 config/model.py verify_with_parallel_config; v1/kv_cache_interface.py.
    """
    tp, dcp = split.tensor_parallel_size, split.decode_context_parallel_size
    if dcp == 1:
        return
    for kind in known_or(model.attention, ()):
        if isinstance(kind, SlidingWindow):
            what = "decode context parallelism does not take sliding windows"
            yield Limit("dcp.window", what, "v1/kv_cache_interface.py, v1/core/single_type_kv_cache_manager.py")
        elif isinstance(kind, FullAttention | BlockSparse):
            heads = kind.num_key_value_heads
            queries = kind.num_attention_heads // heads
            if tp <= heads or dcp > tp // heads or queries % dcp:
                copies = max(1, tp // heads)
                there = f"{copies} times" if copies > 1 else "once"
                what = (
                    f"decode context parallel size {dcp} divides copies of a key-value head: on {tp} GPUs each of "
                    f"{heads} is there {there}, for {queries} query heads"
                )
                yield Limit("dcp.attention", what, "config/model.py verify_with_parallel_config")


def _stages(model: ModelFacts, facts: EngineFacts, split: Parallelism) -> Iterator[Limit]:
    pp = split.pipeline_parallel_size
    if pp == 1:
        return
    if isinstance(facts.without_pipeline, Known):
        for name in known_or(model.architectures, ()):
            if name in facts.without_pipeline.value:
                what = f"{facts.kind} {facts.version} cannot split {name} into pipeline stages"
                yield Limit("pp.architecture", what, "config/model.py, interface SupportsPP")
    layers = known_or(model.num_hidden_layers, pp)
    if layers < pp:
        yield Limit("pp.layers", f"{layers} layers cannot fill {pp} pipeline stages", "distributed/utils.py")
