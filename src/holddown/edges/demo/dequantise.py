"""A llama-architecture GGUF as a Hugging Face directory: config, tokenizer, and weights in bf16.

Needs the packages of the `demo` extra; imported only when a model is made.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
from gguf import GGUFReader
from gguf.quants import dequantize

from holddown.base.errors import CheckpointError
from holddown.edges.demo.tokenizer import (
    Vocabulary,
    generation_config_json,
    tokenizer_config_json,
    tokenizer_json,
)
from holddown.ports import Progress

# GGUF name -> Hugging Face name; blocks have `blk.N.` and `model.layers.N.` before theirs.
# Source: TensorNameMap of gguf-py for MODEL_ARCH.LLAMA.
_OUTER = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_BLOCK = {
    "attn_norm.weight": "input_layernorm.weight",
    "attn_q.weight": "self_attn.q_proj.weight",
    "attn_k.weight": "self_attn.k_proj.weight",
    "attn_v.weight": "self_attn.v_proj.weight",
    "attn_output.weight": "self_attn.o_proj.weight",
    "ffn_norm.weight": "post_attention_layernorm.weight",
    "ffn_gate.weight": "mlp.gate_proj.weight",
    "ffn_up.weight": "mlp.up_proj.weight",
    "ffn_down.weight": "mlp.down_proj.weight",
}


@dataclass(frozen=True, slots=True)
class _Weight:
    """One tensor on its way. heads: how many heads its rows are grouped by, 0 where the rows keep their order."""

    name: str
    stored: Any
    heads: int

    @property
    def shape(self) -> list[int]:
        """GGUF has the fastest dimension first."""
        return [int(size) for size in reversed(self.stored.shape)]


def write_directory(gguf_path: Path, folder: Path, progress: Progress) -> None:
    """Fills `folder`, which exists and is empty. Raises: CheckpointError where the GGUF is not a llama with BPE."""
    progress(f"reading {gguf_path.name}")
    reader = GGUFReader(gguf_path)
    values = _Values(reader)
    vocabulary = _vocabulary(values)
    weights = [_weight(tensor, values) for tensor in reader.tensors]
    tied = all(weight.name != "lm_head.weight" for weight in weights)
    texts = {
        "config.json": _config_json(values, vocabulary, tied),
        "tokenizer.json": tokenizer_json(vocabulary),
        "tokenizer_config.json": tokenizer_config_json(vocabulary),
        "generation_config.json": generation_config_json(vocabulary),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8")
    _write_weights(folder / "model.safetensors", weights, progress)


class _Values:
    """The GGUF's metadata by key. A missing key is a CheckpointError that names it."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self.architecture = str(self.value("general.architecture"))
        if self.architecture != "llama" or self.value("tokenizer.ggml.model") != "gpt2":
            raise CheckpointError(
                "only a llama GGUF with a byte-level BPE tokenizer can be made into a Hugging Face directory",
                code="fetch.architecture",
                seen=f"general.architecture is {self.architecture}",
            )

    def value(self, key: str) -> Any:
        field = self._reader.get_field(key)
        if field is None:
            raise CheckpointError(f"the GGUF has no {key}", code="fetch.metadata", do="holddown fetch demo")
        return field.contents()

    def model(self, key: str) -> Any:
        return self.value(f"{self.architecture}.{key}")


def _vocabulary(values: _Values) -> Vocabulary:
    return Vocabulary(
        tokens=tuple(values.value("tokenizer.ggml.tokens")),
        types=tuple(values.value("tokenizer.ggml.token_type")),
        merges=tuple(values.value("tokenizer.ggml.merges")),
        bos=values.value("tokenizer.ggml.bos_token_id"),
        eos=values.value("tokenizer.ggml.eos_token_id"),
        unk=values.value("tokenizer.ggml.unknown_token_id"),
        pad=values.value("tokenizer.ggml.padding_token_id"),
        chat_template=values.value("tokenizer.chat_template"),
        context_length=values.model("context_length"),
    )


def _config_json(values: _Values, vocabulary: Vocabulary, tied: bool) -> str:
    """config.json of a LlamaForCausalLM. Keys are those of transformers' LlamaConfig."""
    heads = values.model("attention.head_count")
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": values.model("embedding_length"),
        "intermediate_size": values.model("feed_forward_length"),
        "num_hidden_layers": values.model("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": values.model("attention.head_count_kv"),
        "head_dim": values.model("embedding_length") // heads,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "max_position_embeddings": values.model("context_length"),
        # stored as float32: six digits are what was meant (1e-05, not 9.999999747378752e-06)
        "rms_norm_eps": float(f"{values.model('attention.layer_norm_rms_epsilon'):.6g}"),
        "rope_theta": values.model("rope.freq_base"),
        "rope_scaling": None,
        "vocab_size": len(vocabulary.tokens),
        "tie_word_embeddings": tied,
        "torch_dtype": "bfloat16",
        "bos_token_id": vocabulary.bos,
        "eos_token_id": vocabulary.eos,
        "pad_token_id": vocabulary.pad,
        "use_cache": True,
    }
    return json.dumps(config, indent=2) + "\n"


def _weight(tensor: Any, values: _Values) -> _Weight:
    name: str = tensor.name
    if name in _OUTER:
        return _Weight(_OUTER[name], tensor, 0)
    prefix, _, rest = name.partition(".")
    layer, _, kind = rest.partition(".")
    if prefix != "blk" or kind not in _BLOCK:
        raise CheckpointError(f"the GGUF has a tensor {name} that has no place in a llama", code="fetch.tensor")
    heads = {"attn_q.weight": "attention.head_count", "attn_k.weight": "attention.head_count_kv"}.get(kind)
    return _Weight(f"model.layers.{layer}.{_BLOCK[kind]}", tensor, values.model(heads) if heads else 0)


def _write_weights(path: Path, weights: list[_Weight], progress: Progress) -> None:
    """One safetensors file, written tensor by tensor: never more than one of them is in memory at float32."""
    weights = sorted(weights, key=lambda weight: weight.name)
    rows: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for weight in weights:
        size = 2 * int(numpy.prod(weight.shape))
        rows[weight.name] = {"dtype": "BF16", "shape": weight.shape, "data_offsets": [end, end + size]}
        end += size
    header = json.dumps(rows, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    progress(f"dequantising {len(weights)} tensors to bf16 ({end / 2**20:.0f} MiB)")
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for data in _data(weights, progress):
            file.write(data)


def _data(weights: list[_Weight], progress: Progress) -> Iterator[bytes]:
    for done, weight in enumerate(weights, 1):
        values = dequantize(weight.stored.data, weight.stored.tensor_type).reshape(weight.shape)
        if weight.heads:
            values = unpermuted(values, weight.heads)
        yield to_bf16(values).tobytes()
        if done % 100 == 0:
            progress(f"dequantised {done} of {len(weights)} tensors")


def unpermuted(rows: Any, heads: int) -> Any:
    """Undoes the order in which llama.cpp keeps the rows of q_proj and k_proj, [heads * head_dim, hidden].

    llama.cpp rotates neighbouring pairs, Hugging Face the first half against the second, so converting puts row
    (half, i) of each head at (i, half). Source: `LlamaModel.permute` in llama.cpp's convert_hf_to_gguf.py.
    """
    head_dim = rows.shape[0] // heads
    return rows.reshape(heads, head_dim // 2, 2, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


def to_bf16(values: Any) -> Any:
    """float32 to the upper 16 bits, rounded to nearest, ties to even. Little endian, as safetensors has it."""
    bits = numpy.ascontiguousarray(values, dtype="<f4").view("<u4")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")
