"""What a checkpoint is, from its headers alone. Field names are Hugging Face config keys where there is one."""

from dataclasses import dataclass
from enum import StrEnum

from holddown.base.evidence import Fact, Unknown
from holddown.base.finding import Finding


class CheckpointFormat(StrEnum):
    SAFETENSORS = "safetensors"
    GGUF = "gguf"


@dataclass(frozen=True, slots=True)
class DtypeBytes:
    """How much of the weights one storage dtype takes."""

    dtype: str
    size_bytes: int
    tensors: int


NO_LATENT = Unknown("its attention keeps keys and values, no latent vector")


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A checkpoint directory or GGUF file.

    path: absolute. digest: sha256 over shard names, sizes and headers plus config.json: changes when the
    checkpoint does, without reading weights. chat_template: the template's text. latent_kv_dim: elements that MLA
    keeps per token and layer in place of keys and values. mixed_attention: why layers do not all keep the same,
    empty where they do.
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
    head_dim: Fact[int]
    vocab_size: Fact[int]
    chat_template: Fact[str]
    remote_code_files: tuple[str, ...]
    latent_kv_dim: Fact[int] = NO_LATENT
    mixed_attention: str = ""

    @property
    def name(self) -> str:
        """The last part of the path, without `.gguf`."""
        return self.path.rstrip("/").rsplit("/", 1)[-1].removesuffix(".gguf")


@dataclass(frozen=True, slots=True)
class Inspection:
    """What `inspect` gives: the facts, and every fault of the files at once."""

    model: ModelFacts
    findings: tuple[Finding, ...]
