"""Headers of weight files as bytes, built to order; the data after them is up to the test."""

import json
import struct
from collections.abc import Mapping, Sequence
from typing import TypeAlias

BITS = {"F4": 4, "F8_E4M3": 8, "F8_E8M0": 8, "I8": 8, "U8": 8, "BF16": 16, "F16": 16, "F32": 32, "I32": 32, "I64": 64}

Tensors: TypeAlias = Mapping[str, tuple[str, tuple[int, ...]]]
"""name -> (dtype, shape)"""

GgufValue: TypeAlias = int | float | bool | str | list[str] | list[int]


def safetensors_rows(tensors: Tensors) -> tuple[dict[str, object], int]:
    """The JSON rows of a header, laid end to end, and the length of the data."""
    rows: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (dtype, shape) in tensors.items():
        elements = 1
        for dim in shape:
            elements *= dim
        size = elements * BITS[dtype] // 8
        rows[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    return rows, end


def framed(header: str | bytes) -> bytes:
    """The length word and the header."""
    raw = header.encode() if isinstance(header, str) else header
    return struct.pack("<Q", len(raw)) + raw


def safetensors_head(tensors: Tensors) -> tuple[bytes, int]:
    """The first bytes of a shard, and the size that the whole file should have."""
    rows, data_bytes = safetensors_rows(tensors)
    head = framed(json.dumps(rows))
    return head, len(head) + data_bytes


def gguf_string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def gguf_value(value: GgufValue) -> bytes:
    """A metadata value with its type word."""
    match value:
        case bool():
            return struct.pack("<I?", 7, value)
        case int():
            return struct.pack("<II", 4, value)
        case float():
            return struct.pack("<If", 6, value)
        case str():
            return struct.pack("<I", 8) + gguf_string(value)
        case [str(), *_]:
            return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(gguf_string(str(item)) for item in value)
        case _:
            return struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)


def gguf_head(
    metadata: Mapping[str, GgufValue], tensors: Sequence[tuple[str, int, tuple[int, ...], int]], version: int = 3
) -> tuple[bytes, int]:
    """The first bytes of a GGUF, and the size the whole file should have. tensors: (name, type, shape, bytes)."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    head += b"".join(gguf_string(key) + gguf_value(value) for key, value in metadata.items())
    offset = end = 0
    for name, kind, shape, size in tensors:
        head += gguf_string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)
        end = offset + size
        offset = (end + 31) // 32 * 32
    return head, (len(head) + 31) // 32 * 32 + end


LLAMA: dict[str, GgufValue] = {
    "general.architecture": "llama",
    "llama.block_count": 30,
    "llama.context_length": 8192,
    "llama.embedding_length": 576,
    "llama.attention.head_count": 9,
    "llama.attention.head_count_kv": 3,
    "tokenizer.ggml.tokens": ["a", "b", "c"],
    "tokenizer.ggml.token_type": [1, 1, 3],
    "tokenizer.chat_template": "{{ messages }}",
}
"""Metadata of a SmolLM2-like GGUF."""
