"""A GGUF as a model, whole and in parts."""

from fakes.checkpoint_bytes import LLAMA, GgufValue, gguf_head
from holddown.base.evidence import Fact, Known, Unknown
from holddown.facts.gguf import GgufHeader, read_header
from holddown.facts.gguf_model import gguf_facts
from holddown.facts.model import ModelFacts
from holddown.facts.weights import ShardSeen, Tail, head_sha256

Q4_1, F32 = 3, 0


def part(name: str, metadata: dict[str, GgufValue], tensor: str = "w") -> ShardSeen:
    head, size = gguf_head(metadata, [(tensor, Q4_1, (64, 2), 80), (f"{tensor}.norm", F32, (8,), 32)])
    header = read_header(name, size, head)
    assert isinstance(header, GgufHeader)
    return ShardSeen(name, size, head_sha256(head), header, Tail.DATA)


def model(metadata: dict[str, GgufValue]) -> ModelFacts:
    return gguf_facts("/m.gguf", (part("m.gguf", metadata),), ()).model


def value(fact: Fact[int] | Fact[str] | Fact[tuple[str, ...]]) -> object:
    assert isinstance(fact, Known), fact
    return fact.value


def test_a_smollm2() -> None:
    """Sizes come from the keys of its architecture, parameters from the shapes, the vocabulary from its length."""
    found = model(LLAMA)
    assert (value(found.parameters), value(found.architectures), value(found.quantization)) == (136, ("llama",), "Q4_1")
    assert (value(found.max_position_embeddings), value(found.vocab_size)) == (8192, 3)
    assert (value(found.num_key_value_heads), value(found.chat_template)) == (3, "{{ messages }}")


def test_heads_by_layer_are_unknown() -> None:
    """An array of kv heads is not the number of heads: unknown, and not as many as there are heads."""
    fact = model(LLAMA | {"llama.attention.head_count_kv": [3, 1, 3]}).num_key_value_heads
    assert isinstance(fact, Unknown)
    assert "per layer" in fact.why


def test_parts_are_summed() -> None:
    """Split files count together; the first carries the metadata."""
    names = [f"m-0000{number}-of-00002.gguf" for number in (1, 2)]
    parts = (
        part(names[0], LLAMA | {"split.no": 0, "split.count": 2}),
        part(names[1], {"split.no": 1, "split.count": 2}, "v"),
    )
    found = gguf_facts("/m-00001-of-00002.gguf", parts, ())
    assert found.findings == ()
    assert (value(found.model.parameters), found.model.shards, value(found.model.num_hidden_layers)) == (272, 2, 30)


def test_a_missing_first_part() -> None:
    """It blocks, and nothing is taken from the metadata of another part."""
    second = part("m-00002-of-00002.gguf", {"split.no": 1, "split.count": 2})
    found = gguf_facts("/m", (second,), ("m-00001-of-00002.gguf",))
    assert [finding.code for finding in found.findings] == ["shard.missing"]
    assert isinstance(found.model.parameters, Unknown)
    assert isinstance(found.model.num_hidden_layers, Unknown)


def test_a_part_under_a_name_of_its_own() -> None:
    """A part that was renamed says by its metadata that others belong to it."""
    found = gguf_facts("/m.gguf", (part("m.gguf", LLAMA | {"split.no": 0, "split.count": 3}),), ())
    assert [finding.code for finding in found.findings] == ["shard.missing"]
