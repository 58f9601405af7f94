"""What the demo model thinks where it is known to be right, and a file of it in which one tensor is damaged."""

from pathlib import Path

REFERENCE = Path(__file__).parents[1] / "captures" / "references" / "smollm2-135m-vllm-cpu.json"
ALL_CLAIMED = tuple(
    word for name in ("seed", "logprobs", "n", "json-schema", "prefix-cache", "over-long") for word in ("--check", name)
)
"""Beside what `up` asks: that which any of our engines can do, in seconds."""
COMPARED = ("--check", "quality", "--against", str(REFERENCE))


def damaged(gguf_file: Path, folder: Path) -> Path:
    """A copy in which the halves of one layer's attention output are in each other's place."""
    from gguf import GGUFReader

    tensor = next(each for each in GGUFReader(gguf_file).tensors if each.name == "blk.15.attn_output.weight")
    data = bytearray(gguf_file.read_bytes())
    start, middle, end = (int(tensor.data_offset) + int(tensor.n_bytes) * half // 2 for half in range(3))
    data[start:end] = data[middle:end] + data[start:middle]
    copy = folder / "damaged.gguf"
    copy.write_bytes(data)
    return copy
