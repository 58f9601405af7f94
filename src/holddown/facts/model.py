"""What a checkpoint is, from its headers alone. Field names are Hugging Face config keys where there is one."""

from dataclasses import dataclass
from enum import StrEnum

from holddown.base.evidence import Fact, Unknown
from holddown.base.finding import Finding
from holddown.facts.attention import Attention
from holddown.facts.weight_groups import WeightGroup


class CheckpointFormat(StrEnum):
    SAFETENSORS = "safetensors"
    GGUF = "gguf"


@dataclass(frozen=True, slots=True)
class DtypeBytes:
    """How much of the weights one storage dtype takes."""

    dtype: str
    size_bytes: int
    tensors: int


@dataclass(frozen=True, slots=True)
class Moe:
    """layers: those with routed experts. shared_experts: width of the shared expert of a layer, 0 for none."""

    layers: int
    num_experts: int
    num_experts_per_tok: int
    moe_intermediate_size: int
    shared_intermediate_size: int


@dataclass(frozen=True, slots=True)
class CodeFile:
    """A Python file that the checkpoint wants run. sha256: empty where the file is named and not here."""

    name: str
    sha256: str


_NOT_READ = Unknown("not read")


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A checkpoint directory or GGUF file.

    path: absolute. digest: sha256 over shard names, sizes and headers plus config.json: changes when the
    checkpoint does, without reading weights. chat_template: the template's text. parameters: of every tensor but the
    draft layers'. active_parameters: those that take part in one token's forward pass: the chosen experts only, the
    embedding's look-up not, the output head yes. moe: None for a dense model. draft_layers: MTP layers that the files
    hold. weight_block: of FP8 scales, (out, in) features. group_size: input features to one scale.
    kv_cache_quantization: what the checkpoint asks for, `fp8` or `none`. from_shapes: there are no weights, everything
    is computed from config.json. remote_code: the Python files that `trust_remote_code` would run.
    """

    path: str
    format: CheckpointFormat
    digest: str
    architectures: Fact[tuple[str, ...]]
    model_type: Fact[str]
    parameters: Fact[int]
    weights_bytes: int
    by_dtype: tuple[DtypeBytes, ...]
    shards: int
    dtype: Fact[str]
    quantization: Fact[str]
    max_position_embeddings: Fact[int]
    num_hidden_layers: Fact[int]
    hidden_size: Fact[int]
    num_attention_heads: Fact[int]
    num_key_value_heads: Fact[int]
    vocab_size: Fact[int]
    chat_template: Fact[str]
    weights: tuple[WeightGroup, ...] = ()
    attention: Fact[tuple[Attention, ...]] = _NOT_READ
    moe: Moe | None = None
    active_parameters: Fact[int] = _NOT_READ
    draft_layers: int = 0
    draft_parameters: int = 0
    weight_block: tuple[int, ...] = ()
    group_size: int = 0
    kv_cache_quantization: Fact[str] = _NOT_READ
    from_shapes: bool = False
    rope_scaling: Fact[str] = _NOT_READ
    generation_config: Fact[str] = _NOT_READ
    tokenizer: Fact[str] = _NOT_READ
    remote_code: tuple[CodeFile, ...] = ()

    @property
    def name(self) -> str:
        """The last part of the path, without `.gguf`."""
        return self.path.rstrip("/").rsplit("/", 1)[-1].removesuffix(".gguf")


@dataclass(frozen=True, slots=True)
class Inspection:
    """What `inspect` gives: the facts, and every fault of the files at once."""

    model: ModelFacts
    findings: tuple[Finding, ...]
