"""How many bytes a llama.cpp server takes on one device: whole layers, its unified KV cache, its compute buffer.

Source: llama.cpp b11434 src/llama-model.cpp `load_tensors` (which layer goes where), src/llama-kv-cache*.cpp.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from holddown.base.evidence import Known, known_or
from holddown.facts.attention import SparseMla
from holddown.facts.kv_cache import KvDtype, kv_bytes_per_sequence, kv_bytes_per_token
from holddown.facts.model import ModelFacts
from holddown.facts.weight_groups import Component

_BLOCK_BYTES = {
    "f32": 4.0,
    "f16": 2.0,
    "bf16": 2.0,
    "q8_0": 34 / 32,
    "q5_1": 24 / 32,
    "q5_0": 22 / 32,
    "q4_1": 20 / 32,
    "q4_0": 18 / 32,
    "iq4_nl": 18 / 32,
}
"""Bytes of one number. Source: ggml/src/ggml-common.h: a block of 32 has one or two 16-bit scales."""
DEFAULT_KV = "f16"
"""Source: common/common.h cache_type_k."""
MICRO_BATCH = 512
"""Tokens computed at once. Source: common/common.h n_ubatch."""
_LAYERED = frozenset({Component.EMBEDDINGS, Component.HEAD, Component.VISION, Component.MTP})


def kv_dtype(keys: str, values: str) -> KvDtype:
    """Of a cache whose keys and values are kept so. A name that is not known counts as 16 bit."""
    width = (_BLOCK_BYTES.get(keys, 2.0) + _BLOCK_BYTES.get(values, 2.0)) / 2
    return KvDtype(keys if keys == values else f"{keys}/{values}", width)


@dataclass(frozen=True, slots=True)
class Pool:
    """The KV cache that all slots share, on all devices together. tokens: `--ctx-size`. slots: `--parallel`."""

    tokens: int
    slots: int
    bytes_per_token: int
    bytes_per_slot: int

    @property
    def size_bytes(self) -> int:
        return self.tokens * self.bytes_per_token + self.slots * self.bytes_per_slot


def pool_of(model: ModelFacts, dtype: KvDtype, tokens: int, slots: int) -> Pool | None:
    """None where the attention is not understood. bytes_per_slot: windows and recurrent states."""
    if not isinstance(model.attention, Known):
        return None
    kinds = model.attention.value
    # an indexer's keys are kept in the cache's type, where vLLM keeps 8 bit; src/llama-kv-cache-dsa.cpp
    indexed = [kind for kind in kinds if isinstance(kind, SparseMla)]
    index = sum(
        kind.index_layers * (kind.index_head_dim * (dtype.element_bytes - 1) - 4 * math.ceil(kind.index_head_dim / 128))
        for kind in indexed
    )
    return Pool(
        tokens,
        slots,
        kv_bytes_per_token(kinds, dtype) + math.ceil(index),
        kv_bytes_per_sequence(kinds, tokens, dtype),
    )


def layer_bytes(model: ModelFacts) -> tuple[int, ...]:
    """Of each layer in order, draft layers last: experts are where the model has them, dense layers before."""
    layers = known_or(model.num_hidden_layers, 0)
    if not layers:
        return (model.weights_bytes,)
    experts = model.moe.layers if model.moe else 0
    dense = layers - experts
    sums = dict.fromkeys(Component, 0)
    for group in model.weights:
        sums[group.component] += group.size_bytes
    of_experts = sum(sums[each] for each in (Component.ROUTED_EXPERTS, Component.SHARED_EXPERTS, Component.ROUTER))
    apart = of_experts + sums[Component.DENSE_MLP] + sum(sums[each] for each in _LAYERED)
    each = (model.weights_bytes - apart) / layers
    first = each + (sums[Component.DENSE_MLP] / dense if dense else 0)
    then = each + (of_experts / experts if experts else 0) + (0 if dense else sums[Component.DENSE_MLP] / layers)
    drafts = [sums[Component.MTP] // model.draft_layers] * model.draft_layers if model.draft_layers else []
    return (*[math.ceil(first)] * dense, *[math.ceil(then)] * experts, *drafts)


def output_bytes(model: ModelFacts) -> int:
    """The output head; a tied embedding is copied to where the head would be, and itself stays in RAM."""
    head = sum(group.size_bytes for group in model.weights if group.component is Component.HEAD)
    return head or embedding_bytes(model)


def embedding_bytes(model: ModelFacts) -> int:
    return sum(group.size_bytes for group in model.weights if group.component is Component.EMBEDDINGS)


def placed(units: int, shares: Sequence[float]) -> tuple[int, ...]:
    """Device of each unit (every layer, then the output), as `--tensor-split` shares them out."""
    total = sum(shares)
    bounds = [sum(shares[: device + 1]) / total for device in range(len(shares))]
    return tuple(
        next((device for device, bound in enumerate(bounds) if unit / units < bound), len(shares) - 1)
        for unit in range(units)
    )


def compute_bytes(model: ModelFacts, pool_tokens: int, slots: int, *, output: bool) -> int:
    """The compute buffer of one device: a micro-batch of activations, its 16-bit mask of the whole cache, and on the
    device of the output the logits of each slot.

    Source: 18.6, 30.6 and 62.6 MiB at 4096, 16384 and 49152 tokens of SmolLM2-135M (tests/captures/llamacpp): 13 times
    its hidden size, and two bytes for each token of the cache. No large model's was read.
    """
    hidden, vocabulary = known_or(model.hidden_size, 0), known_or(model.vocab_size, 0)
    logits = 4 * vocabulary * slots if output else 0
    return MICRO_BATCH * (4 * 13 * hidden + 2 * pool_tokens) + logits
