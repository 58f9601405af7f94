"""Weight files together: numbering, sums, parameters, digests."""

from dataclasses import replace

from fakes.checkpoint_bytes import Tensors, safetensors_head
from holddown.facts.safetensors import read_header
from holddown.facts.shard_index import WeightMap, weight_files
from holddown.facts.weights import (
    ShardSeen,
    Tail,
    digest,
    head_sha256,
    numbered_parts,
    tail_finding,
)


def shard(name: str, tensors: Tensors) -> ShardSeen:
    head, size = safetensors_head(tensors)
    return ShardSeen(name, size, head_sha256(head), read_header(name, size, head), Tail.DATA)


def test_parts_by_number() -> None:
    """A numbered name tells of all its siblings; any other name of itself."""
    assert numbered_parts("m-00002-of-00003.gguf") == tuple(f"m-0000{n}-of-00003.gguf" for n in (1, 2, 3))
    assert numbered_parts("model.safetensors") == ("model.safetensors",)
    assert numbered_parts("m-00001-of-99999.gguf") == ("m-00001-of-99999.gguf",)
    assert numbered_parts("m-00001-of-00000.gguf") == ("m-00001-of-00000.gguf",)


def test_the_digest_sees_a_header_a_size_and_the_config() -> None:
    """It changes with each of them, and not with the order in which shards are read."""
    one, two = shard("a", {"w": ("BF16", (4,))}), shard("b", {"v": ("BF16", (4,))})
    whole = digest((one, two), "{}")
    assert digest((two, one), "{}") == whole
    others = (
        digest((one, two), '{"a": 1}'),
        digest((one,), "{}"),
        digest((one, replace(two, size_bytes=1)), "{}"),
        digest((one, replace(two, head_sha256="0")), "{}"),
        digest((one, replace(two, name="c")), "{}"),
    )
    assert len({whole, *others}) == 6


def test_a_tail_of_zeros() -> None:
    """Never written blocks; merely zero warns, because a padded vocabulary can look so."""
    seen = shard("a", {"w": ("BF16", (4,))})
    assert tail_finding(seen) is None
    zero, unwritten = tail_finding(replace(seen, tail=Tail.ZERO)), tail_finding(replace(seen, tail=Tail.UNWRITTEN))
    assert zero is not None
    assert unwritten is not None
    assert (zero.code, zero.blocks, unwritten.code, unwritten.blocks) == (
        "shard.zero-tail",
        False,
        "shard.zero-tail",
        True,
    )


def test_the_index_decides_which_files_count() -> None:
    """With an index its files are the checkpoint; others are left out, missing ones are named."""
    index = WeightMap(("a", "b"), ("1.safetensors", "2.safetensors"))
    files = weight_files(("1.safetensors", "old.safetensors", "x.txt"), index)
    assert (files.present, files.missing, files.ignored) == (
        ("1.safetensors",),
        ("2.safetensors",),
        ("old.safetensors",),
    )


def test_without_an_index_the_numbering_does() -> None:
    """`-of-00003` tells that the third is missing."""
    names = tuple(f"model-0000{n}-of-00003.safetensors" for n in (1, 2))
    assert weight_files(names, None).missing == ("model-00003-of-00003.safetensors",)
    assert weight_files(names, WeightMap((), ())).missing == ("model-00003-of-00003.safetensors",)


def test_mistrals_second_copy_is_left_out() -> None:
    """consolidated.safetensors beside a Hugging Face set holds the same weights again; alone it is the checkpoint."""
    assert weight_files(("consolidated.safetensors", "model.safetensors"), None).present == ("model.safetensors",)
    assert weight_files(("consolidated.safetensors",), None).present == ("consolidated.safetensors",)
