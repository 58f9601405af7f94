"""A directory that holds only config.json, and weights that disagree with theirs."""

import json

import pytest

from fakes.checkpoint_bytes import Tensors, safetensors_head
from fakes.headers import rows_of, shard
from holddown.base.errors import CheckpointError
from holddown.base.evidence import Known
from holddown.base.finding import Severity
from holddown.facts.checkpoint import DirectorySeen, TextFile, directory_facts
from holddown.facts.model import Inspection
from holddown.facts.safetensors import read_header
from holddown.facts.shard_index import weight_files
from holddown.facts.weights import ShardSeen, Tail, head_sha256

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 256,
    "torch_dtype": "bfloat16",
}
# by hand: embeddings and head, two layers of attention, feed forward and two norms, and the last norm
PARAMETERS = 2 * 256 * 64 + 2 * (64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 128 + 2 * 64) + 64


def inspect(config: dict[str, object], head: bytes = b"", size: int = 0) -> Inspection:
    names = ("config.json", "tokenizer.json", *(["model.safetensors"] if head else []))
    files = weight_files(names, None)
    header = read_header("model.safetensors", size, head)
    shards = (ShardSeen("model.safetensors", size, head_sha256(head), header, Tail.DATA),) if head else ()
    texts = (TextFile("config.json", json.dumps(config)),)
    return directory_facts(DirectorySeen("/m", names, texts, None, files, shards))


def test_config_alone_is_computed_from_shapes() -> None:
    """Every figure is there, marked as computed, with a note that says so and nothing else."""
    found = inspect(CONFIG)
    assert [(finding.code, finding.severity) for finding in found.findings] == [("weights.none", Severity.NOTE)]
    model = found.model
    assert isinstance(model.parameters, Known)
    assert (model.from_shapes, model.parameters.value, model.weights_bytes) == (True, PARAMETERS, 2 * PARAMETERS)
    assert isinstance(model.attention, Known)
    assert sum(group.size_bytes for group in model.weights) == model.weights_bytes


def test_the_same_with_its_weights() -> None:
    """Where tensors are there they are what counts, and here they say the same."""
    file = shard(rows_of(CONFIG))
    found = inspect(CONFIG, file.head, file.size_bytes)
    assert found.findings == ()
    assert found.model.from_shapes is False
    assert (found.model.parameters, found.model.weights_bytes) != (None, 0)
    assert isinstance(found.model.parameters, Known) and found.model.parameters.value == PARAMETERS


@pytest.mark.parametrize("config", [{}, {"model_type": "llama"}, {"architectures": ["Strange"], "hidden_size": 8}])
def test_a_config_that_does_not_tell(config: dict[str, object]) -> None:
    """Then there is nothing to speak of, and the error says what is missing."""
    with pytest.raises(CheckpointError) as caught:
        inspect(config)
    assert caught.value.code == "checkpoint.no-weights"
    assert "config.json alone does not tell" in caught.value.seen


def test_tensors_that_are_not_the_config_s() -> None:
    """More than a percent off is a warning that names the component; the tensors are what is counted."""
    file = shard(rows_of({**CONFIG, "intermediate_size": 160}))
    found = inspect(CONFIG, file.head, file.size_bytes)
    (finding,) = found.findings
    assert (finding.code, finding.severity) == ("weights.disagree", Severity.WARN)
    assert "dense_mlp" in finding.seen and "attention" not in finding.seen
    assert isinstance(found.model.parameters, Known) and found.model.parameters.value > PARAMETERS


def test_an_architecture_that_nobody_knows() -> None:
    """It is planned from its tensors: what they tell is known, and the rest is unknown without a finding."""
    tensors: Tensors = {"strange.w": ("BF16", (64, 64)), "lm_head.weight": ("BF16", (256, 64))}
    head, size = safetensors_head(tensors)
    found = inspect({"architectures": ["StrangeModel"], "model_type": "strange"}, head, size)
    assert found.findings == ()
    assert isinstance(found.model.parameters, Known) and found.model.parameters.value == 64 * 64 + 256 * 64
