"""A shard's header: what it gives, and every way in which it can be wrong."""

import json
import struct

import pytest

from fakes.checkpoint_bytes import Tensors, framed, safetensors_head, safetensors_rows
from holddown.base.finding import Finding
from holddown.facts.agreement import marks_of
from holddown.facts.safetensors import (
    MAX_HEADER_BYTES,
    ShardHeader,
    TensorKind,
    header_bytes_wanted,
    read_header,
    size_finding,
)

NAME = "model-00001-of-00002.safetensors"
LAYER: Tensors = {
    "model.embed_tokens.weight": ("BF16", (64, 16)),
    "model.layers.0.mlp.up_proj.weight": ("F8_E4M3", (32, 16)),
    "model.layers.0.mlp.up_proj.weight_scale_inv": ("F32", (4, 2)),
}


def good() -> ShardHeader:
    head, size = safetensors_head(LAYER)
    header = read_header(NAME, size, head)
    assert isinstance(header, ShardHeader)
    return header


def fault(head: bytes, size: int | None = None) -> Finding:
    found = read_header(NAME, len(head) if size is None else size, head)
    assert isinstance(found, Finding)
    return found


def test_kinds_of_tensors() -> None:
    """Each tensor is there with its dtype, shape, elements and bytes."""
    assert good().kinds == (
        TensorKind("model.embed_tokens.weight", "BF16", (64, 16), 1, 1024, 2048),
        TensorKind("model.layers.0.mlp.up_proj.weight", "F8_E4M3", (32, 16), 1, 512, 512),
        TensorKind("model.layers.0.mlp.up_proj.weight_scale_inv", "F32", (4, 2), 1, 8, 32),
    )


def test_experts_are_one_kind() -> None:
    """Tensors that differ only in the number of the expert are counted together; a shape of its own is a kind of its
    own, and so are a layer's fused experts and those of another layer."""
    layer: Tensors = {
        **{f"layers.3.mlp.experts.{number}.up_proj.weight": ("BF16", (4, 8)) for number in range(12)},
        "layers.3.mlp.experts.12.up_proj.weight": ("BF16", (2, 8)),
        "layers.3.mlp.experts.13.up_proj.weight": ("BF16", (4, 8)),
        "layers.3.mlp.experts.bias": ("F32", (4,)),
        "layers.4.mlp.experts.0.up_proj.weight": ("BF16", (4, 8)),
    }
    head, size = safetensors_head(layer)
    header = read_header(NAME, size, head)
    assert isinstance(header, ShardHeader)
    assert {(kind.name, kind.shape): kind.tensors for kind in header.kinds} == {
        ("layers.3.mlp.experts.*.up_proj.weight", (4, 8)): 13,
        ("layers.3.mlp.experts.*.up_proj.weight", (2, 8)): 1,
        ("layers.3.mlp.experts.bias", (4,)): 1,
        ("layers.4.mlp.experts.*.up_proj.weight", (4, 8)): 1,
    }
    assert header.tensors == 16


def test_metadata_is_no_tensor() -> None:
    """`__metadata__` is not counted among the tensors."""
    assert good().tensor_names == tuple(LAYER)


def test_a_whole_file_is_no_finding() -> None:
    """A file exactly as long as its header says is in order."""
    assert size_finding(good()) is None


def test_asks_for_the_header_and_no_more() -> None:
    """From the first 8 bytes it follows how much to read."""
    head, _ = safetensors_head(LAYER)
    assert header_bytes_wanted(head[:8]) == len(head)


def test_never_asks_for_more_than_the_format_allows() -> None:
    """A length of 2**64-1 is damage and costs no memory."""
    assert header_bytes_wanted(b"\xff" * 8) == 8 + MAX_HEADER_BYTES


@pytest.mark.parametrize("missing", [1, 512, 2592])
def test_cut_off_data(missing: int) -> None:
    """A file shorter than its header says is truncated, and the finding has both lengths."""
    head, size = safetensors_head(LAYER)
    header = read_header(NAME, size - missing, head)
    assert isinstance(header, ShardHeader)
    finding = size_finding(header)
    assert finding is not None
    assert (finding.code, finding.blocks) == ("shard.truncated", True)
    assert str(size) in finding.seen
    assert str(size - missing) in finding.seen


def test_cut_off_header() -> None:
    """A file that ends within its header is truncated too."""
    head, _ = safetensors_head(LAYER)
    assert fault(head[:50]).code == "shard.truncated"


def test_extra_bytes() -> None:
    """A file longer than its header says blocks: loading refuses it."""
    head, size = safetensors_head(LAYER)
    header = read_header(NAME, size + 7, head)
    assert isinstance(header, ShardHeader)
    finding = size_finding(header)
    assert finding is not None
    assert (finding.code, finding.blocks) == ("shard.extra-bytes", True)
    assert "7 bytes more" in finding.what


def test_lfs_pointer() -> None:
    """The text that git leaves in place of a large file is told as such, with the command that helps."""
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 4976698672\n"
    finding = fault(pointer)
    assert (finding.code, finding.do) == ("shard.lfs-pointer", f"git lfs pull --include {NAME}")


def rows_with(**changes: object) -> bytes:
    rows, _ = safetensors_rows({"w": ("BF16", (4, 4))})
    rows["w"] = {"dtype": "BF16", "shape": [4, 4], "data_offsets": [0, 32]} | changes
    return framed(json.dumps(rows))


ROW = '{"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}'


@pytest.mark.parametrize(
    ("head", "word"),
    [
        (struct.pack("<Q", 1) + b"{", "would be 1 bytes"),
        (framed("[1, 2]"), "got `array`"),
        (framed("{oops"), "byte 1"),
        (framed(b'{"a\xff": 1}'), "JSON"),
        (framed('{"a":' * 100_000), "nested"),
        (framed('{"a": {"x":' + "[" * 100_000), "nested"),
        (framed('{"w": 3}'), "got `int`"),
        (framed('{"w": NaN}'), "no JSON"),
        (framed('{"w\\ud800": {}}'), "no JSON"),
        (framed('{"w": {"dtype": "F32"}}'), "lacks dtype"),
        (rows_with(shape=["4", 4]), "shape[0]"),
        (rows_with(shape=[-4, -4]), "list of sizes"),
        (rows_with(shape="44"), "got `str`"),
        (rows_with(shape=[True, 16]), "got `bool`"),
        (rows_with(shape=[2**40, 2**40]), "beyond any file"),
        (rows_with(shape=[10**4000]), "beyond any file"),
        (rows_with(data_offsets=[32, 0]), "no byte range"),
        (rows_with(dtype="NEW", data_offsets=[32, 0]), "no byte range"),
        (rows_with(data_offsets=[0.5, 32]), "data_offsets[0]"),
        (rows_with(data_offsets=[0, 16]), "has 16 bytes"),
        (rows_with(data_offsets=[8, 40]), "gap or overlap"),
        (rows_with(data_offsets=[-32, 0]), "no byte range"),
        (rows_with(dtype=16), "got `int`"),
        (
            framed(f'{{"w": {ROW}, "w": {ROW}}}'),
            "names 'w' twice",
        ),
        (framed("{" + '"w": {}, ' * 2**20 + '"v": {}}'), "more tensors than any model"),
    ],
)
def test_unreadable_headers(head: bytes, word: str) -> None:
    """Each kind of damage is one finding that says what was seen."""
    finding = fault(head, size=10**9)
    assert finding.code == "shard.unreadable-header"
    assert word in finding.seen


@pytest.mark.parametrize("head", [b"", b"abc"])
def test_too_short_for_any_header(head: bytes) -> None:
    """A file of fewer than 8 bytes is told with its size."""
    assert f"the file has {len(head)} bytes" in fault(head).seen


def test_overlapping_tensors() -> None:
    """Two tensors in one place are damage, in whatever order the rows stand."""
    rows = {
        "b": {"dtype": "U8", "shape": [8], "data_offsets": [4, 12]},
        "a": {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]},
    }
    assert "overlap at byte 4" in fault(framed(json.dumps(rows)), 10**6).seen


def test_rows_in_any_order() -> None:
    """Rows need not stand in the order of their data."""
    rows = {
        "b": {"dtype": "U8", "shape": [8], "data_offsets": [8, 16]},
        "a": {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]},
    }
    header = read_header(NAME, 10**6, framed(json.dumps(rows)))
    assert isinstance(header, ShardHeader)
    assert header.data_bytes == 16


def test_a_dtype_of_tomorrow() -> None:
    """A dtype that is not known is taken at its word: its bytes count."""
    header = read_header(NAME, 10**6, rows_with(dtype="F3_E1M1", data_offsets=[0, 6]))
    assert isinstance(header, ShardHeader)
    assert header.kinds == (TensorKind("w", "F3_E1M1", (4, 4), 1, 16, 6),)


@pytest.mark.parametrize(
    "metadata",
    [None, [], 3, "text", {}, {"format": "pt"}, {"shape": "a word"}, {"dtype": 5}, {"nested": {"a": {}}}, [[[{}]]]],
)
def test_metadata_of_any_form(metadata: object) -> None:
    """`__metadata__` is nothing that the tensors depend on, first as writers put it."""
    row = {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]}
    header = read_header(NAME, 10**6, framed(json.dumps({"__metadata__": metadata, "w": row})))
    assert isinstance(header, ShardHeader)
    assert (header.tensor_names, header.data_bytes) == (("w",), 8)


def test_marks_in_place_of_names() -> None:
    """Of a large checkpoint only hashes of the names are kept."""
    head, size = safetensors_head(LAYER)
    header = read_header(NAME, size, head, only_marks=True)
    assert isinstance(header, ShardHeader)
    assert (header.tensors, header.tensor_names, header.marks) == (3, (), marks_of(list(LAYER), NAME, escaped=False))
    assert header.marks.sound
