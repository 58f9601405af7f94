"""The safetensors headers that a checkpoint of some config.json has: real names, dtypes and shapes, and no weights."""

import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from holddown.facts.shapes import TensorRow, tensor_rows
from holddown.facts.stored import StoredTensor


@dataclass(frozen=True, slots=True)
class FakeShard:
    """head: the first bytes of the file, up to its data. data_bytes: how much data it says follows."""

    name: str
    head: bytes
    data_bytes: int

    @property
    def size_bytes(self) -> int:
        return len(self.head) + self.data_bytes


def rows_of(config: Mapping[str, Any], quant: Mapping[str, Any] | None = None) -> tuple[TensorRow, ...]:
    """quant: what hf_quant_config.json holds."""
    return tensor_rows(json.dumps(config), None if quant is None else json.dumps(quant))


def shard(rows: Iterable[TensorRow], name: str = "model.safetensors") -> FakeShard:
    """One file that holds them all."""
    return _shard(name, [(full, row) for row in rows for full in row.names()])


def shards(rows: Iterable[TensorRow], count: int) -> tuple[FakeShard, ...]:
    """`count` files as the hub numbers them, with as many tensors in each."""
    tensors = [(full, row) for row in rows for full in row.names()]
    each = -(-len(tensors) // count)
    return tuple(
        _shard(f"model-{part + 1:05}-of-{count:05}.safetensors", tensors[part * each : (part + 1) * each])
        for part in range(count)
    )


def index_json(files: Iterable[FakeShard]) -> str:
    """model.safetensors.index.json that places every tensor."""
    placed = {tensor: file.name for file in files for tensor in json.loads(file.head[8:]) if tensor != "__metadata__"}
    return json.dumps({"metadata": {}, "weight_map": placed})


def _shard(name: str, tensors: list[tuple[str, TensorRow]]) -> FakeShard:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for full, row in tensors:
        start, end = end, end + StoredTensor("", row.dtype, row.shape).size_bytes
        header[full] = {"dtype": row.dtype, "shape": list(row.shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return FakeShard(name, struct.pack("<Q", len(text)) + text, end)
