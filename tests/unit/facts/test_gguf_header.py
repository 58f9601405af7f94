"""A GGUF header: what it gives, how it asks for more, and every way in which it can be wrong."""

import struct

import gguf as reference
import pytest

from fakes.checkpoint_bytes import LLAMA, GgufValue, gguf_head, gguf_string
from holddown.base.finding import Finding, Severity
from holddown.facts.gguf import (
    MAX_HEADER_BYTES,
    TENSOR_TYPES,
    GgufHeader,
    GgufTensor,
    MetadataArray,
    NeedMore,
    read_header,
    size_finding,
)

NAME = "SmolLM2-135M.Q4_1.gguf"
Q4_1, F32 = 3, 0
TENSORS = [("blk.0.attn_q.weight", Q4_1, (64, 2), 80), ("blk.0.attn_norm.weight", F32, (64,), 256)]


def good(metadata: dict[str, GgufValue] | None = None, extra: int = 0, version: int = 3) -> GgufHeader:
    head, size = gguf_head(metadata or LLAMA, TENSORS, version)
    header = read_header(NAME, size + extra, head)
    assert isinstance(header, GgufHeader)
    return header


def fault(head: bytes, size: int = 10**6) -> Finding:
    found = read_header(NAME, size, head)
    assert isinstance(found, Finding)
    return found


@pytest.mark.parametrize("version", [2, 3])
def test_reads_scalars_and_array_lengths(version: int) -> None:
    """Scalars are there by key; of an array its length is kept."""
    header = good(version=version)
    assert header.value("llama.context_length") == 8192
    assert header.value("tokenizer.chat_template") == "{{ messages }}"
    assert header.array("tokenizer.ggml.tokens") == MetadataArray("tokenizer.ggml.tokens", 3)
    assert header.value("tokenizer.ggml.tokens") is None


def test_tensors() -> None:
    """Bytes follow from the blocks of the type, elements from the shape."""
    assert good().tensors == (
        GgufTensor("blk.0.attn_q.weight", "Q4_1", (64, 2), 128, 80),
        GgufTensor("blk.0.attn_norm.weight", "F32", (64,), 64, 256),
    )


def test_a_value_for_each_layer() -> None:
    """A short array of numbers is kept whole, for it can be one value per layer; a long one is a vocabulary."""
    header = good(LLAMA | {"llama.attention.head_count_kv": [8, 0, 8], "scores": [1] * 5000})
    assert header.array("llama.attention.head_count_kv") == MetadataArray("llama.attention.head_count_kv", 3, (8, 0, 8))
    assert header.array("scores") == MetadataArray("scores", 5000)


def test_a_whole_file_is_no_finding() -> None:
    """A file as long as its tensors need is in order, and so is one padded at its end."""
    assert size_finding(good()) is None
    assert size_finding(good(extra=31)) is None


def test_cut_off_data() -> None:
    """A file that ends before its last tensor does is truncated."""
    finding = size_finding(good(extra=-1))
    assert finding is not None
    assert (finding.code, finding.severity) == ("shard.truncated", Severity.BLOCK)


def test_much_too_long() -> None:
    """Bytes far beyond the last tensor are worth a warning: llama.cpp ignores them."""
    finding = size_finding(good(extra=10**6))
    assert finding is not None
    assert (finding.code, finding.severity) == ("shard.extra-bytes", Severity.WARN)


def test_asks_for_more_until_it_has_the_header() -> None:
    """From any beginning it says how much more it takes at least, and that is never too much."""
    head, size = gguf_head(LLAMA, TENSORS)
    for given in range(len(head)):
        answer = read_header(NAME, size, head[:given])
        assert isinstance(answer, NeedMore)
        assert given < answer.at_least_bytes <= len(head)


def test_cut_off_header() -> None:
    """When the file itself ends there, no more can be read: it is truncated."""
    head, _ = gguf_head(LLAMA, TENSORS)
    assert fault(head[:100], size=100).code == "shard.truncated"


def test_a_false_length_costs_nothing() -> None:
    """A string of 2**40 bytes in a file that could hold it is refused, not read."""
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2**40)
    finding = fault(head, size=2**41)
    assert finding.code == "shard.unreadable-header"
    assert MAX_HEADER_BYTES < 2**40


def one_value(kind: int, raw: bytes) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + gguf_string("k") + struct.pack("<I", kind) + raw


def one_tensor(shape: tuple[int, ...], kind: int, offset: int) -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + gguf_string("w")
    return head + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


@pytest.mark.parametrize(
    ("head", "word"),
    [
        (b"GGML" + bytes(20), "GGML"),
        (b"\x80\x04\x95 pickle", "a GGUF begins with"),
        (b"GGUF" + struct.pack("<I", 1), "version 1"),
        (b"GGUF" + struct.pack(">I", 3), "big-endian"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**40), "1099511627776 metadata values"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**40, 0), "1099511627776 tensors"),
        (one_value(13, b""), "unknown type 13"),
        (one_value(9, struct.pack("<IQ", 99, 1)), "array of type 99"),
        (one_value(9, struct.pack("<IQ", 9, 1) * 8), "array of type 9"),
        (one_tensor((1,) * 5, F32, 0), "5 dimensions"),
        (one_tensor((4,), 4, 0), "type 4"),
        (one_tensor((33,), Q4_1, 0), "cannot be Q4_1"),
        (one_tensor((2**40, 2**40), F32, 0), "cannot be F32"),
        (one_tensor((4,), F32, 32), "begins at byte 32"),
    ],
)
def test_unreadable_headers(head: bytes, word: str) -> None:
    """Each kind of damage is one finding that says what was seen."""
    finding = fault(head)
    assert finding.code == "shard.unreadable-header"
    assert word in finding.seen


def test_an_alignment_of_its_own() -> None:
    """`general.alignment` moves the data; one that is no power of two is refused."""
    head, _ = gguf_head({"general.alignment": 64}, [])
    header = read_header(NAME, 10**6, head)
    assert isinstance(header, GgufHeader)
    assert header.data_start % 64 == 0
    assert "power of two" in fault(gguf_head({"general.alignment": 48}, [])[0]).seen


def test_block_sizes_are_ggmls() -> None:
    """Every type of the table has the block that gguf-py gives it; Q8_1 is counted there with a padded header."""
    for number, (name, elements, size) in TENSOR_TYPES.items():
        if name == "Q8_1":
            continue
        kind = reference.GGMLQuantizationType(number)
        assert (kind.name, reference.GGML_QUANT_SIZES[kind]) == (name, (elements, size))
