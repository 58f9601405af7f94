"""A directory's files put together: facts and every fault at once."""

import hashlib
import json

import pytest

from fakes.checkpoint_bytes import Tensors, safetensors_head
from holddown.base.errors import CheckpointError
from holddown.base.evidence import Known, Unknown
from holddown.base.finding import Severity
from holddown.facts.checkpoint import DirectorySeen, TextFile, directory_facts
from holddown.facts.model import Inspection
from holddown.facts.remote_code import Script
from holddown.facts.safetensors import read_header
from holddown.facts.shard_index import INDEX, read_index, weight_files
from holddown.facts.weights import ShardSeen, Tail, head_sha256

CONFIG = json.dumps(
    {"architectures": ["LlamaForCausalLM"], "hidden_size": 16, "num_attention_heads": 4, "vocab_size": 64}
)
ONE: Tensors = {"embed": ("BF16", (64, 16)), "layer.0": ("BF16", (16, 16))}
TWO: Tensors = {"layer.1": ("BF16", (16, 16))}
NAMES = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
PLACED = dict.fromkeys(ONE, NAMES[0]) | dict.fromkeys(TWO, NAMES[1])
OTHERS = ("config.json", "tokenizer.json")


def shard(name: str, tensors: Tensors) -> ShardSeen:
    head, size = safetensors_head(tensors)
    return ShardSeen(name, size, head_sha256(head), read_header(name, size, head), Tail.DATA)


def inspect(
    shards: dict[str, Tensors],
    texts: dict[str, str] | None = None,
    extra_names: tuple[str, ...] = OTHERS,
    placed: dict[str, str] | None = None,
    scripts: dict[str, str] | None = None,
) -> Inspection:
    texts = {"config.json": CONFIG} | (texts or {})
    if placed is not None:
        texts[INDEX] = json.dumps({"weight_map": placed})
    names = (*shards, *extra_names, *texts)
    files = tuple(TextFile(name, text) for name, text in texts.items())
    index = read_index(texts.get(INDEX))
    weights = weight_files(names, index)
    seen = tuple(shard(name, shards[name]) for name in weights.present)
    code = tuple(Script(name, text.encode()) for name, text in (scripts or {}).items())
    return directory_facts(DirectorySeen("/models/m", names, files, index, weights, seen, code))


def codes(inspection: Inspection) -> list[str]:
    return [finding.code for finding in inspection.findings]


def test_a_whole_directory() -> None:
    """Index, shards and config in order: facts and no finding."""
    inspection = inspect({NAMES[0]: ONE, NAMES[1]: TWO}, placed=PLACED)
    model = inspection.model
    assert inspection.findings == ()
    assert isinstance(model.parameters, Known)
    assert (model.parameters.value, model.weights_bytes, model.shards) == (1536, 3072, 2)
    assert model.name == "m"


def test_a_missing_shard() -> None:
    """It blocks, and the parameters are unknown rather than too few."""
    inspection = inspect({NAMES[0]: ONE}, placed=PLACED)
    assert codes(inspection) == ["shard.missing"]
    assert inspection.findings[0].blocks
    assert isinstance(inspection.model.parameters, Unknown)
    assert inspection.model.shards == 2


def test_many_missing_shards_are_one_finding() -> None:
    """Sixty missing files are told in one finding with their number."""
    inspection = inspect({}, placed={f"t{n}": f"model-{n:05}-of-00060.safetensors" for n in range(1, 61)})
    assert codes(inspection) == ["shard.missing"]
    assert "60 of 60" in inspection.findings[0].what


def test_a_tensor_that_no_file_holds() -> None:
    """The index lists it, its shard is read, and it is not there: the engine would stop on it."""
    inspection = inspect({NAMES[0]: ONE, NAMES[1]: TWO}, placed=PLACED | {"lm_head": NAMES[1]})
    assert codes(inspection) == ["tensor.missing"]
    assert (inspection.findings[0].subject, inspection.findings[0].severity) == ("lm_head", Severity.BLOCK)


def test_a_tensor_of_a_missing_shard_is_told_once() -> None:
    """With the shard gone its tensors are no findings of their own."""
    assert codes(inspect({NAMES[0]: ONE}, placed=PLACED)) == ["shard.missing"]


def test_a_tensor_twice() -> None:
    """In two files: which is loaded depends on the engine."""
    inspection = inspect({NAMES[0]: ONE, NAMES[1]: TWO | {"embed": ("BF16", (64, 16))}})
    assert codes(inspection) == ["tensor.duplicate"]


def test_a_tensor_in_another_file() -> None:
    """It is loaded all the same, but the index and the files are not of one make."""
    placed = PLACED | {"layer.1": NAMES[0]}
    inspection = inspect({NAMES[0]: ONE, NAMES[1]: TWO}, placed=placed | {"layer.0": NAMES[1]})
    assert "tensor.misplaced" in codes(inspection)
    assert not any(finding.blocks for finding in inspection.findings)


def test_a_tensor_that_the_index_does_not_list() -> None:
    """More in the files than in the index is a warning."""
    placed = {name: file for name, file in PLACED.items() if name != "layer.0"}
    assert codes(inspect({NAMES[0]: ONE, NAMES[1]: TWO}, placed=placed)) == ["tensor.not-in-index"]


def test_a_file_that_the_index_does_not_name() -> None:
    """Left-overs of an earlier download are pointed out and not counted."""
    inspection = inspect({NAMES[0]: ONE, NAMES[1]: TWO, "old.safetensors": TWO}, placed=PLACED)
    assert codes(inspection) == ["shard.not-in-index"]
    assert inspection.model.weights_bytes == 3072


@pytest.mark.parametrize("index", ["{", "{}", '{"weight_map": [1]}', '{"weight_map": {"a": 1}}'])
def test_an_unreadable_index(index: str) -> None:
    """It blocks, and the shards are still read."""
    inspection = inspect({NAMES[0]: ONE, NAMES[1]: TWO}, texts={INDEX: index})
    assert codes(inspection) == ["index.unreadable"]
    assert inspection.model.weights_bytes == 3072


def test_an_unreadable_config() -> None:
    """Every fact that it would have given is unknown for that reason; the weights are still summed."""
    inspection = inspect({"model.safetensors": ONE}, texts={"config.json": "{"})
    assert codes(inspection) == ["config.unreadable"]
    assert isinstance(inspection.model.hidden_size, Unknown)
    assert inspection.model.weights_bytes == 2560


@pytest.mark.parametrize("text", ["{", "[]", "\x00"])
def test_an_unreadable_config_and_nothing_else(text: str) -> None:
    """What is wrong with the one file is the answer, not that there are no weights beside it."""
    files = (TextFile("config.json", text),)
    with pytest.raises(CheckpointError) as caught:
        directory_facts(DirectorySeen("/m", ("config.json",), files, None, weight_files(("config.json",), None), ()))
    assert caught.value.code == "config.unreadable"
    assert caught.value.seen and "config.json" in caught.value.do


def test_a_missing_config_and_tokenizer() -> None:
    """Both are told at once."""
    head, size = safetensors_head(ONE)
    name = "model.safetensors"
    seen = ShardSeen(name, size, head_sha256(head), read_header(name, size, head), Tail.DATA)
    found = directory_facts(DirectorySeen("/m", (name,), (), None, weight_files((name,), None), (seen,)))
    assert codes(found) == ["config.missing", "tokenizer.missing"]


def test_remote_code() -> None:
    """What auto_map names would run, with its hash, and what that imports; without auto_map nothing would."""
    auto = json.dumps({"auto_map": {"AutoConfig": "config_x.X"}})
    scripts = {"config_x.py": "from .helper import f\n", "helper.py": "", "convert.py": "import os\n"}
    model = inspect({"model.safetensors": ONE}, {"config.json": auto}, scripts=scripts).model
    assert [file.name for file in model.remote_code] == ["config_x.py", "helper.py"]
    assert model.remote_code[1].sha256 == hashlib.sha256(b"").hexdigest()
    assert inspect({"model.safetensors": ONE}, scripts=scripts).model.remote_code == ()


def test_remote_code_that_is_not_there() -> None:
    """A file that auto_map names and nobody downloaded is a warning before the engine finds out."""
    auto = json.dumps({"auto_map": {"AutoConfig": "config_x.X", "AutoModel": "org/repo--model_x.X"}})
    inspection = inspect({"model.safetensors": ONE}, {"config.json": auto})
    assert [(finding.code, finding.subject) for finding in inspection.findings] == [
        ("remote-code.missing", "config_x.py")
    ]


def test_a_directory_of_something_else() -> None:
    """No weights at all is an error that lists what is there."""
    names = ("README.md", "pytorch_model.bin")
    with pytest.raises(CheckpointError) as caught:
        directory_facts(DirectorySeen("/m", names, (), None, weight_files(names, None), ()))
    assert caught.value.code == "checkpoint.no-weights"
    assert "pytorch_model.bin" in caught.value.seen
