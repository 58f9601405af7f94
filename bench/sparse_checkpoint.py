"""Checkpoints of full size that take no disk: every tensor of a config.json in real headers, holes for weights."""

import json
import struct
from pathlib import Path

from holddown.facts.safetensors import DTYPE_BITS
from holddown.facts.shapes import tensor_rows

_WRITTEN_END = 1 << 12
"""A file that ends in a hole is an unfinished download, and holddown says so."""


def write_sparse_checkpoint(folder: Path, capture: Path, shards: int) -> tuple[int, int]:
    """The folder with config, index and `shards` weight files; gives the number of tensors and their bytes.

    capture: JSON whose `config` is a config.json, and whose `quant`, where there is one, is hf_quant_config.json.
    """
    folder.mkdir(parents=True, exist_ok=True)
    captured = json.loads(capture.read_text("utf-8"))
    texts = {"config.json": json.dumps(captured["config"])}
    if "quant" in captured:
        texts["hf_quant_config.json"] = json.dumps(captured["quant"])
    rows = tensor_rows(texts["config.json"], texts.get("hf_quant_config.json"))
    tensors = sorted((name, row.dtype, row.shape) for row in rows for name in row.names())
    each = -(-len(tensors) // shards)
    placed: dict[str, str] = {}
    total = 0
    for number in range(shards):
        file = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        part = tensors[number * each : (number + 1) * each]
        total += _write_shard(folder / file, part)
        placed |= {name: file for name, _, _ in part}
    index = {"metadata": {"total_size": total}, "weight_map": placed}
    # as transformers writes it
    texts["model.safetensors.index.json"] = json.dumps(index, indent=2, sort_keys=True) + "\n"
    texts |= {"tokenizer.json": "{}", "tokenizer_config.json": "{}"}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return len(tensors), total


def _write_shard(path: Path, tensors: list[tuple[str, str, tuple[int, ...]]]) -> int:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, dtype, shape in tensors:
        start, size = end, DTYPE_BITS[dtype]
        for dim in shape:
            size *= dim
        end = start + size // 8
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
    # the reference writer leaves no spaces, and pads to 8 bytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)
        if end > _WRITTEN_END:
            file.seek(-_WRITTEN_END, 2)
            file.write(b"\x3c" * _WRITTEN_END)
    return end
