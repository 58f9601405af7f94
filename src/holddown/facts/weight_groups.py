"""The weights of a model, grouped by what they are for: headers and config.json are both read into this form."""

from dataclasses import dataclass
from enum import StrEnum


class Component(StrEnum):
    """What a tensor is for. MTP: everything of the draft layers, whatever it does there."""

    ATTENTION = "attention"
    DENSE_MLP = "dense_mlp"
    SHARED_EXPERTS = "shared_experts"
    ROUTED_EXPERTS = "routed_experts"
    ROUTER = "router"
    EMBEDDINGS = "embeddings"
    HEAD = "head"
    NORMS = "norms"
    VISION = "vision"
    MTP = "mtp"
    OTHER = "other"


class Split(StrEnum):
    """What tensor parallelism does to a weight of (out, in) features.

    COLUMN: output features are divided. ROW: input features. VOCAB: rows of the vocabulary. KV_HEADS: divided while
    there are key-value heads, then repeated. EXPERTS: each expert's width, or with expert parallelism the experts.
    REPLICATED: every rank holds all of it.
    """

    COLUMN = "column"
    ROW = "row"
    VOCAB = "vocab"
    KV_HEADS = "kv_heads"
    EXPERTS = "experts"
    REPLICATED = "replicated"


@dataclass(frozen=True, slots=True)
class WeightGroup:
    """All tensors of one role and one storage format, with the scales that belong to them.

    module: the name with each number as `*`: `model.layers.*.mlp.experts.*.gate_proj`.
    format: `bf16` `f16` `f32` `fp8` `fp8-block` `int8` `int4` `nvfp4` `mxfp4` `mxfp8`, or GGUF's type (`Q4_K`).
    count: how many such modules. parameters: weights as trained, packed ones unpacked, scales not counted.
    size_bytes: as stored, scales included.
    """

    module: str
    component: Component
    split: Split
    format: str
    count: int
    parameters: int
    size_bytes: int
