"""Mutated headers into the safetensors and GGUF readers: facts or a finding every time, in bounded time and memory.

    python bench/fuzz_headers.py [--headers 100000] [--seed 1]

Prints how many, how fast, the slowest, and the memory that it took. Exit 1 with the seed and the bytes of the header
that broke a reader.
"""

import argparse
import json
import random
import re
import resource
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable

from holddown.base.finding import Finding
from holddown.facts import gguf, safetensors
from holddown.facts.gguf_model import gguf_facts
from holddown.facts.header_groups import header_groups
from holddown.facts.quantization import read_quantization
from holddown.facts.weights import ShardSeen, Tail

SLOWEST_S = 2.0
SAID = read_quantization({"quantization_config": {"quant_method": "gptq", "bits": 4}})
# what a value is replaced by: borders of machine words, and words of other types
EVIL = (
    "0",
    "-1",
    "1",
    "null",
    "true",
    "{}",
    "[]",
    '"x"',
    "1e400",
    "NaN",
    "9" * 400,
    str(2**60),
    str(2**63),
    str(2**64),
)
PARTS = ("weight", "weight_packed", "weight_scale", "qweight", "g_idx", "scales", "blocks", "bias", "k_scale", "")
DTYPES = ("BF16", "F32", "I32", "U8", "I8", "F8_E4M3", "F8_E8M0", "F4", "NEW", "BOOL")


def safetensors_seed(dice: random.Random) -> bytes:
    """A header that is right, of a few layers with experts."""
    rows: dict[str, object] = {"__metadata__": {"format": "pt"}} if dice.random() < 0.8 else {}
    end = 0
    for _ in range(dice.randrange(1, 12)):
        stem = f"model.layers.{dice.randrange(70)}." + dice.choice(
            ("mlp.experts.3.up_proj", "self_attn.k_proj", "eh_proj")
        )
        name = f"{stem}.{dice.choice(PARTS)}"
        shape = [dice.choice((1, 2, 16, 64, 128)) for _ in range(dice.randrange(4))]
        dtype = dice.choice(DTYPES)
        size = safetensors.DTYPE_BITS.get(dtype, 8)
        for dim in shape:
            size *= dim
        rows[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size // 8]}
        end += size // 8
    text = json.dumps(rows, separators=dice.choice(((",", ":"), (", ", ": ")))).encode()
    if dice.random() < 0.4:
        # a value of another kind where JSON stays JSON
        places = [match.span() for match in re.finditer(rb'(?<=[:\[,])(?:\d+|"[A-Z0-9_]+"|\[[\d,]*\])', text)]
        if places:
            start, stop = dice.choice(places)
            text = text[:start] + dice.choice(EVIL).encode() + text[stop:]
    return struct.pack("<Q", len(text)) + text


def gguf_seed(dice: random.Random) -> bytes:
    """A header that is right: metadata of every type, and a few tensors."""

    def text(word: str) -> bytes:
        return struct.pack("<Q", len(word)) + word.encode()

    arch = dice.choice(("llama", "qwen3next", "deepseek2", "gpt-oss", "glm-dsa"))
    values = {"block_count": 4, "attention.head_count": 8, "attention.kv_lora_rank": 64, "rope.dimension_count": 16}
    values |= {"attention.key_length": 48, "attention.value_length": 32, "expert_count": 8, "expert_used_count": 2}
    values |= {"attention.sliding_window": 128, "ssm.conv_kernel": 4, "nextn_predict_layers": 1}
    chosen = [item for item in values.items() if dice.random() < 0.7]
    metadata = [text("general.architecture") + struct.pack("<I", 8) + text(arch)]
    metadata += [text(f"{arch}.{key}") + struct.pack("<II", 4, value) for key, value in chosen]
    metadata.append(text(f"{arch}.attention.head_count_kv") + struct.pack("<IIQ4i", 9, 5, 4, 2, 0, 2, 2))
    metadata.append(text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("b"))
    tensors, offset = [], 0
    for number in range(dice.randrange(1, 6)):
        name = f"blk.{number}." + dice.choice(
            ("attn_q.weight", "ffn_down_exps.weight", "ssm_in.weight", "nextn.eh_proj.weight")
        )
        tensors.append(text(name) + struct.pack("<IQQIQ", 2, 64, 2, 0, offset))
        offset += 512
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    return head + b"".join(metadata) + b"".join(tensors)


def mutated(head: bytes, dice: random.Random) -> bytes:
    """One to four of: bytes changed, pieces removed, doubled or swapped, numbers made evil, the length falsified."""
    raw = bytearray(head)
    for _ in range(dice.randrange(1, 5)):
        at = dice.randrange(len(raw)) if raw else 0
        match dice.randrange(7):
            case 0:
                raw[at : at + 1] = bytes([dice.randrange(256)])
            case 1:
                del raw[at : at + dice.randrange(1, 30)]
            case 2:
                raw[at:at] = raw[at : at + dice.randrange(1, 60)]
            case 3:
                raw[at : at + 8] = struct.pack("<Q", dice.choice((0, 1, 2**31, 2**32, 2**60, 2**63, 2**64 - 1)))
            case 4:
                raw[at : at + 1] = dice.choice(EVIL).encode()
            case 5:
                raw[:8] = struct.pack("<Q", max(0, len(raw) - 8)) if raw[:4] != b"GGUF" else raw[:8]
            case _:
                raw[at:] = raw[at:][: dice.randrange(200)]
    return bytes(raw)


def read_safetensors(head: bytes) -> str:
    wanted = safetensors.header_bytes_wanted(head[:8])
    header = safetensors.read_header("model.safetensors", 2**40, head[:wanted])
    marked = safetensors.read_header("model.safetensors", 2**40, head[:wanted], only_marks=True)
    if isinstance(header, Finding):
        assert isinstance(marked, Finding)
        return header.code
    assert isinstance(header, safetensors.ShardHeader) and isinstance(marked, safetensors.ShardHeader)
    assert (header.kinds, header.tensors) == (marked.kinds, marked.tensors)
    assert sum(kind.tensors * kind.size_bytes for kind in header.kinds) == header.data_bytes
    groups = header_groups(header.kinds, SAID).groups
    assert sum(group.size_bytes for group in groups) == header.data_bytes
    return "facts"


def read_gguf(head: bytes) -> str:
    answer = gguf.read_header("model.gguf", 2**40, head)
    if isinstance(answer, gguf.NeedMore):
        assert len(head) < answer.at_least_bytes <= gguf.MAX_HEADER_BYTES
        return "more"
    if isinstance(answer, Finding):
        return answer.code
    model = gguf_facts("/m.gguf", (ShardSeen("model.gguf", 2**40, "", answer, Tail.DATA),), ()).model
    assert sum(group.size_bytes for group in model.weights) == model.weights_bytes
    return "facts"


KINDS: dict[str, tuple[Callable[[random.Random], bytes], Callable[[bytes], str]]] = {
    "safetensors": (safetensors_seed, read_safetensors),
    "gguf": (gguf_seed, read_gguf),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--headers", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    words = parser.parse_args()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for kind, (seed, read) in KINDS.items():
        told, slowest, started = Counter[str](), 0.0, time.perf_counter()
        for number in range(words.headers // len(KINDS)):
            dice = random.Random(f"{words.seed} {kind} {number}")
            head = seed(dice)
            head = mutated(head, dice) if dice.random() < 0.8 else head
            at = time.perf_counter()
            try:
                told[read(head)] += 1
            except Exception as error:
                raise SystemExit(f"{kind} {number} of seed {words.seed}: {error!r}\n{head!r}") from error
            slowest = max(slowest, time.perf_counter() - at)
        took = time.perf_counter() - started
        outcomes = ", ".join(f"{name} {count}" for name, count in told.most_common())
        rate = sum(told.values()) / took
        sys.stdout.write(
            f"{kind}: {sum(told.values())} headers, {rate:.0f}/s, slowest {1000 * slowest:.0f} ms: {outcomes}\n"
        )
        if slowest > SLOWEST_S:
            raise SystemExit(f"{kind}: one header took {slowest:.1f} s")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    sys.stdout.write(f"memory: {grown / 1024:.1f} MiB more than before\n")


if __name__ == "__main__":
    main()
