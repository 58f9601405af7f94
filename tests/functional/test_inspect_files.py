"""`inspect` on real files: small ones, sparse ones of the size that people have, and broken ones."""

import json
import os
from pathlib import Path
from typing import Protocol

import pytest

from fakes.checkpoint_bytes import LLAMA, Tensors, framed, gguf_head, safetensors_head
from holddown.base.errors import CheckpointError
from holddown.base.evidence import Known
from holddown.base.finding import Severity
from holddown.edges.checkpoints.local import LocalCheckpoints
from holddown.facts.model import CheckpointFormat, Inspection

MIB = 1024**2


class Ended(Protocol):
    returncode: int
    stdout: str
    stderr: str


class Command(Protocol):
    def __call__(self, *args: str) -> Ended: ...


def write(path: Path, head: bytes, size: int, *, filled: bool = True) -> None:
    """A file of `size` bytes; sparse after the header, with a written end where it is to look whole."""
    with path.open("wb") as file:
        file.write(head)
        file.truncate(size)
        if filled and size > len(head):
            file.seek(size - 1)
            file.write(b"\x01")


def write_shard(path: Path, tensors: Tensors, *, cut: int = 0, filled: bool = True) -> None:
    head, size = safetensors_head(tensors)
    write(path, head, size - cut, filled=filled)


def write_config(folder: Path) -> None:
    config = {"architectures": ["LlamaForCausalLM"], "hidden_size": 16, "num_attention_heads": 4}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text("{}")


def inspect(path: Path | str) -> Inspection:
    return LocalCheckpoints({}).inspect(str(path))


def codes(inspection: Inspection) -> list[str]:
    return [finding.code for finding in inspection.findings]


def expert_header(layer: int) -> tuple[bytes, int]:
    """One layer of a 384-expert mixture, packed to int4 as compressed-tensors does: 3456 tensors, about 9.3 GB."""
    rows: dict[str, object] = {}
    end = 0
    parts = (
        ("weight_packed", "I32", [2048, 896], 4),
        ("weight_scale", "BF16", [2048, 224], 2),
        ("weight_shape", "I32", [2], 4),
    )
    for expert in range(384):
        for projection in ("gate_proj", "up_proj", "down_proj"):
            for part, dtype, shape, width in parts:
                size = width
                for dim in shape:
                    size *= dim
                name = f"language_model.model.layers.{layer}.mlp.experts.{expert}.{projection}.{part}"
                rows[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
                end += size
    head = framed(json.dumps(rows))
    return head, len(head) + end


def test_half_a_terabyte_in_64_shards(tmp_path: Path) -> None:
    """A sparse stand-in for a trillion-parameter checkpoint: every tensor is counted, and no weight is read."""
    write_config(tmp_path)
    placed, total = {}, 0
    for layer in range(64):
        name = f"model-{layer + 1:05}-of-00064.safetensors"
        head, size = expert_header(layer)
        write(tmp_path / name, head, size)
        placed |= dict.fromkeys(json.loads(head[8:]), name)
        total += size - len(head)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": placed}))
    inspection = inspect(tmp_path)
    assert inspection.findings == ()
    assert (inspection.model.shards, inspection.model.weights_bytes) == (64, total)
    assert sum(part.tensors for part in inspection.model.by_dtype) == 64 * 384 * 9
    # packed, and this config.json does not say into how many bits
    assert not isinstance(inspection.model.parameters, Known)
    assert LocalCheckpoints({}, large_index=2**30).inspect(str(tmp_path)) == inspection


def test_every_kind_of_broken_shard_at_once(tmp_path: Path) -> None:
    """Each fault of a bad download is found in one run, from headers and sizes."""
    write_config(tmp_path)
    big: Tensors = {"x": ("BF16", (1024, 1024))}
    names = [f"model-0000{number}-of-00007.safetensors" for number in range(1, 8)]
    write_shard(tmp_path / names[0], {"a": ("BF16", (4, 4))})
    write_shard(tmp_path / names[1], {"b": ("BF16", (4, 4))}, cut=5)
    (tmp_path / names[2]).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 4976698672\n")
    (tmp_path / names[3]).write_bytes(b"<html>503 Service Unavailable</html>")
    write_shard(tmp_path / names[4], {"e": ("BF16", (4, 4))}, cut=-3)
    write_shard(tmp_path / names[5], big, filled=False)
    inspection = inspect(tmp_path)
    found = {finding.subject: (finding.code, finding.severity) for finding in inspection.findings}
    zero = found.pop(names[5])
    assert found == {
        names[1]: ("shard.truncated", Severity.BLOCK),
        names[2]: ("shard.lfs-pointer", Severity.BLOCK),
        names[3]: ("shard.unreadable-header", Severity.BLOCK),
        names[4]: ("shard.extra-bytes", Severity.BLOCK),
        names[6]: ("shard.missing", Severity.BLOCK),
    }
    # whether it also blocks depends on whether this file system tells holes from zeros
    assert zero[0] == "shard.zero-tail"


def test_zeros_that_were_written_only_warn(tmp_path: Path) -> None:
    """A tail of real zeros can be a padded vocabulary."""
    write_config(tmp_path)
    head, size = safetensors_head({"x": ("BF16", (1024, 1024))})
    (tmp_path / "model.safetensors").write_bytes(head + bytes(size - len(head)))
    inspection = inspect(tmp_path)
    assert [(finding.code, finding.severity) for finding in inspection.findings] == [("shard.zero-tail", Severity.WARN)]


def test_a_link_to_nowhere_is_a_missing_shard(tmp_path: Path) -> None:
    """In the Hugging Face cache shards are links; one whose blob was removed is not there."""
    write_config(tmp_path)
    write_shard(tmp_path / "model-00001-of-00002.safetensors", {"a": ("BF16", (4, 4))})
    (tmp_path / "model-00002-of-00002.safetensors").symlink_to(tmp_path / "blobs" / "gone")
    assert codes(inspect(tmp_path)) == ["shard.missing"]


def test_a_long_gguf_header_is_read_in_steps(tmp_path: Path) -> None:
    """A vocabulary of several MiB is gone past, and the facts after it are there."""
    tokens = [f"token number {number} of a large vocabulary" for number in range(100_000)]
    head, size = gguf_head(LLAMA | {"tokenizer.ggml.tokens": tokens, "zz.last": "end"}, [("w", 0, (8,), 32)])
    assert len(head) > 4 * MIB
    write(tmp_path / "m.gguf", head, size)
    inspection = inspect(tmp_path / "m.gguf")
    assert inspection.findings == ()
    assert isinstance(inspection.model.vocab_size, Known)
    assert inspection.model.vocab_size.value == 100_000


def test_a_cut_off_gguf(tmp_path: Path) -> None:
    """In its data or in its header: truncated, never a traceback."""
    head, size = gguf_head(LLAMA, [("w", 0, (8,), 32)])
    for kept in (size - 1, len(head) - 1, 30, 4):
        write(tmp_path / "m.gguf", head[:kept], kept)
        assert codes(inspect(tmp_path / "m.gguf")) == ["shard.truncated"]


def test_a_split_gguf_by_any_part(tmp_path: Path) -> None:
    """Any part, or the directory, leads to the whole; the path is that of the first part, which engines want."""
    for number in (1, 2):
        split: dict[str, int] = {"split.no": number - 1, "split.count": 2}
        head, size = gguf_head((LLAMA if number == 1 else {}) | split, [(f"w{number}", 0, (8,), 32)])
        write(tmp_path / f"m-0000{number}-of-00002.gguf", head, size)
    (tmp_path / "mmproj-model.gguf").write_bytes(b"GGUF")
    for path in (tmp_path, tmp_path / "m-00002-of-00002.gguf"):
        inspection = inspect(path)
        assert inspection.findings == ()
        assert inspection.model.path == str(tmp_path / "m-00001-of-00002.gguf")
        assert (inspection.model.format, inspection.model.weights_bytes) == (CheckpointFormat.GGUF, 64)
    (tmp_path / "m-00001-of-00002.gguf").unlink()
    assert codes(inspect(tmp_path)) == ["shard.missing"]


def test_a_repository_in_the_cache(tmp_path: Path) -> None:
    """`org/name` is found where huggingface_hub keeps it, by HF_HUB_CACHE and by HF_HOME."""
    snapshot = tmp_path / "hub" / "models--org--name" / "snapshots" / "abc123"
    snapshot.mkdir(parents=True)
    (snapshot.parent.parent / "refs").mkdir()
    (snapshot.parent.parent / "refs" / "main").write_text("abc123\n")
    write_config(snapshot)
    write_shard(snapshot / "model.safetensors", {"a": ("BF16", (4, 4))})
    for environ in ({"HF_HUB_CACHE": str(tmp_path / "hub")}, {"HF_HOME": str(tmp_path)}):
        assert LocalCheckpoints(environ).inspect("org/name").model.path == str(snapshot)


def refused(path: Path | str) -> CheckpointError:
    with pytest.raises(CheckpointError) as caught:
        LocalCheckpoints({"HF_HOME": "/nonexistent"}).inspect(str(path))
    return caught.value


def test_what_is_no_checkpoint(tmp_path: Path) -> None:
    """Each has its own code, and a way on."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "two").mkdir()
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / "two" / name).write_bytes(b"GGUF")
    write_shard(tmp_path / "model-00001-of-00002.safetensors", {"a": ("BF16", (4, 4))})
    os.mkfifo(tmp_path / "pipe")
    expected = {
        "gone/deep/down": "checkpoint.not-found",
        "empty": "checkpoint.no-weights",
        "notes.txt": "checkpoint.not-a-checkpoint",
        "two": "checkpoint.ambiguous",
        "model-00001-of-00002.safetensors": "checkpoint.not-a-checkpoint",
        "pipe": "checkpoint.not-a-checkpoint",
    }
    assert {name: refused(tmp_path / name).code for name in expected} == expected


def test_an_unknown_repository() -> None:
    """The command that would fetch it is told."""
    assert refused("org/name").do == "hf download org/name"


def test_the_command_says_no_with_exit_1(holddown: Command, tiny_checkpoint: Path) -> None:
    """A whole checkpoint is 0, a cut one 1 with the finding below the card, and JSON has the same."""
    whole = holddown("inspect", str(tiny_checkpoint))
    assert (whole.returncode, "LlamaForCausalLM" in whole.stdout) == (0, True)
    weights = tiny_checkpoint / "model.safetensors"
    os.truncate(weights, weights.stat().st_size - 10)
    cut = holddown("inspect", str(tiny_checkpoint))
    assert (cut.returncode, "block[shard.truncated]" in cut.stdout) == (1, True)
    as_json = holddown("inspect", "--json", str(tiny_checkpoint))
    assert as_json.returncode == 1
    assert json.loads(as_json.stdout)["faults"][0]["code"] == "shard.truncated"


def test_the_document_for_scripts(holddown: Command, tiny_checkpoint: Path) -> None:
    """Plain numbers under fixed names; null where there is none, and then the reason."""
    found = json.loads(holddown("inspect", "--json", str(tiny_checkpoint)).stdout)
    total = found["parameters"]["total"]
    assert (found["format"], found["parameters"]["draft"], found["faults"]) == ("safetensors", 0, [])
    assert 0 < found["parameters"]["active"] <= total
    assert sum(found["bytes"]["by_component"].values()) == found["bytes"]["total"]
    assert sum(found["bytes"]["by_dtype"].values()) == sum(found["bytes"]["by_format"].values())
    assert found["kv_bytes_per_token"] > 0
    assert found["model"]["path"] == str(tiny_checkpoint)
    config = json.loads((tiny_checkpoint / "config.json").read_text())
    del config["max_position_embeddings"]
    (tiny_checkpoint / "config.json").write_text(json.dumps(config))
    found = json.loads(holddown("inspect", "--json", str(tiny_checkpoint)).stdout)
    assert found["context_length"] is None
    assert "max_position_embeddings" in found["unknown"]["context_length"]


def test_a_directory_with_config_json_alone(holddown: Command, tiny_checkpoint: Path) -> None:
    """It can be inspected: what its weights would be."""
    whole = json.loads(holddown("inspect", "--json", str(tiny_checkpoint)).stdout)
    for path in tiny_checkpoint.glob("*.safetensors"):
        path.unlink()
    alone = holddown("inspect", "--json", str(tiny_checkpoint))
    found = json.loads(alone.stdout)
    assert (alone.returncode, found["from_shapes"], found["faults"][0]["code"]) == (0, True, "weights.none")
    assert (found["parameters"], found["bytes"]["by_component"]) == (
        whole["parameters"],
        whole["bytes"]["by_component"],
    )


def test_a_large_index_that_is_wrong(tmp_path: Path) -> None:
    """First compared by hashes; what disagrees is then told by name."""
    write_config(tmp_path)
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    write_shard(tmp_path / names[0], {"a": ("BF16", (4, 4)), "b": ("BF16", (4, 4))})
    write_shard(tmp_path / names[1], {"b": ("BF16", (4, 4)), "c": ("BF16", (4, 4))})
    placed = {"a": names[1], "b": names[0], "d": names[1]}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": placed}, indent=2))
    inspection = LocalCheckpoints({}, large_index=0).inspect(str(tmp_path))
    found = {finding.code: finding.subject for finding in inspection.findings}
    assert found == {
        "tensor.duplicate": "b",
        "tensor.missing": "d",
        "tensor.misplaced": "a",
        "tensor.not-in-index": "c",
    }
    # the tensor that stands twice counts once
    assert inspection.model.weights_bytes == 3 * 32
    assert LocalCheckpoints({}).inspect(str(tmp_path)) == inspection


def test_demo_before_it_was_fetched(holddown: Command) -> None:
    """The name is known, and the command that gets it is told; a fact that could not be had is exit 3."""
    ended = holddown("inspect", "demo")
    assert (ended.returncode, "holddown fetch demo" in ended.stderr) == (3, True)


def test_a_path_that_does_not_exist(holddown: Command, tmp_path: Path) -> None:
    """A path that does not exist is one clear error, without a traceback."""
    ended = holddown("inspect", str(tmp_path / "gone"))
    assert ended.returncode == 3
    assert ended.stderr.startswith("error[checkpoint.not-found]")
