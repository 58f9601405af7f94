"""Whatever lies in a file, a reader gives facts or one kind of fault: never another exception."""

import json
import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.checkpoint_bytes import LLAMA, framed, gguf_head, safetensors_head
from holddown.base.errors import CheckpointError
from holddown.base.finding import Finding
from holddown.facts import gguf, safetensors
from holddown.facts.checkpoint import TEXTS, DirectorySeen, TextFile, directory_facts
from holddown.facts.gguf_model import gguf_facts
from holddown.facts.header_groups import header_groups
from holddown.facts.hf_config import read_config
from holddown.facts.model import Inspection
from holddown.facts.quantization import read_quantization
from holddown.facts.shard_index import INDEX, read_index, weight_files
from holddown.facts.weights import ShardSeen, Tail, head_sha256

SHARD, _ = safetensors_head(
    {
        "layers.0.mlp.experts.7.up_proj.weight": ("I8", (4, 16)),
        "layers.0.mlp.experts.7.up_proj.scale": ("F8_E8M0", (4, 1)),
        "layers.1.k_proj.qweight": ("I32", (4, 8)),
        "layers.1.k_proj.g_idx": ("I32", (16,)),
        "layers.1.k_proj.bias": ("BF16", ()),
    }
)
GGUF, GGUF_SIZE = gguf_head(LLAMA, [("w", 3, (64, 2), 80), ("n", 0, (8,), 32)])

NOTHING_SAID = read_quantization({})

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
rows = st.dictionaries(
    st.text(max_size=8),
    json_values
    | st.fixed_dictionaries(
        {
            "dtype": st.sampled_from(["BF16", "F4", "I32", "U8", "I8", "NEW"]) | json_values,
            "shape": st.lists(st.integers(-2, 2**70), max_size=4) | json_values,
            "data_offsets": st.lists(st.integers(-2, 2**70), min_size=2, max_size=2) | json_values,
        }
    ),
    max_size=4,
)


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """A good header with some bytes changed, and perhaps cut off."""
    raw = bytearray(whole)
    for at, byte in draw(st.lists(st.tuples(st.integers(0, len(raw) - 1), st.integers(0, 255)), max_size=6)):
        raw[at] = byte
    return bytes(raw[: draw(st.integers(0, len(raw)))])


def shard_head(head: bytes, size: int) -> safetensors.ShardHeader | Finding:
    header = safetensors.read_header("s", size, head[: safetensors.header_bytes_wanted(head[:8])])
    assert isinstance(header, safetensors.ShardHeader | Finding)
    if isinstance(header, safetensors.ShardHeader):
        assert isinstance(safetensors.size_finding(header), Finding | None)
        assert sum(kind.tensors * kind.size_bytes for kind in header.kinds) == header.data_bytes
        groups = header_groups(header.kinds, NOTHING_SAID).groups
        assert sum(group.size_bytes for group in groups) == header.data_bytes
    return header


@settings(max_examples=1500)
@given(st.binary(max_size=400) | damaged(SHARD), st.integers(0, 2**64))
def test_safetensors(head: bytes, size: int) -> None:
    """Any bytes give a header or a finding."""
    shard_head(head, max(size, len(head)))


@given(rows)
def test_safetensors_rows(table: dict[str, object]) -> None:
    """Any JSON in the header's place gives a header or a finding."""
    shard_head(framed(json.dumps(table)), 2**40)


@settings(max_examples=1500)
@given(st.binary(max_size=400) | damaged(GGUF) | st.binary(max_size=200).map(lambda raw: b"GGUF\x03\0\0\0" + raw))
def test_gguf(head: bytes) -> None:
    """Any bytes give a header, a finding, or a demand for more that is neither useless nor beyond the limit."""
    for size in (len(head), len(head) + 10**6, 2**63):
        answer = gguf.read_header("g", size, head)
        match answer:
            case gguf.NeedMore(wanted):
                assert len(head) < wanted <= min(size, gguf.MAX_HEADER_BYTES)
            case gguf.GgufHeader():
                part = ShardSeen("g", size, head_sha256(head), answer, Tail.DATA)
                assert isinstance(gguf_facts("/g", (part,), ()), Inspection)
            case _:
                assert isinstance(answer, Finding)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 20))
def test_gguf_counts(tensors: int, values: int, kind: int) -> None:
    """False counts and lengths end at the end of what was given."""
    head = b"GGUF" + struct.pack("<IQQQ", 3, tensors, values, 1) + b"k" + struct.pack("<IIQ", 9, kind, tensors)
    assert gguf.read_header("g", 2**63, head) is not None


@given(
    json_values | st.fixed_dictionaries({"text_config": json_values, "auto_map": json_values, "head_dim": json_values})
)
def test_config(value: object) -> None:
    """Any JSON gives a config or a ValueError."""
    try:
        read_config(json.dumps(value), json.dumps(value))
    except ValueError as error:
        assert not isinstance(value, dict), error


@given(st.lists(st.tuples(st.sampled_from(TEXTS), st.text(max_size=30) | json_values.map(json.dumps))), st.booleans())
def test_a_whole_directory(texts: list[tuple[str, str]], with_shard: bool) -> None:
    """Any text in any of the files gives an inspection or a CheckpointError."""
    files = tuple(TextFile(name, text) for name, text in dict(texts).items())
    names = (*dict(texts), *(["model.safetensors"] if with_shard else []))
    header = safetensors.read_header("model.safetensors", 10**6, SHARD)
    assert not isinstance(header, gguf.GgufHeader)
    shards = (ShardSeen("model.safetensors", 10**6, "", header, Tail.DATA),) if with_shard else ()
    index = read_index(dict(texts).get(INDEX))
    weights = weight_files(names, index)
    try:
        directory_facts(DirectorySeen("/m", names, files, index, weights, shards[: len(weights.present)]))
    except CheckpointError as error:
        assert error.code == "checkpoint.no-weights" or (error.code == "config.unreadable" and "config.json" in names)
