"""Story 14: a download of 540 GB that did not arrive whole. What `inspect` says, before anything is launched."""

import json
import os
from pathlib import Path

import click

from fakes.checkpoint_bytes import Tensors, safetensors_head
from holddown.app.inspect import summed
from holddown.cli.inspect import card
from holddown.facts.checkpoint import DirectorySeen, TextFile, directory_facts
from holddown.facts.safetensors import read_header
from holddown.facts.shard_index import INDEX, read_index, weight_files
from holddown.facts.weights import ShardSeen, Tail, head_sha256

EXPECTED = Path(__file__).with_name("expected.txt")
NAMES = tuple(f"model-0000{number}-of-00009.safetensors" for number in range(1, 10))
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22e\nsize 4976698672\n"
CONFIG = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "auto_map": {"AutoConfig": "configuration_deepseek.DeepseekV3Config"},
    "hidden_size": 7168,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "intermediate_size": 18432,
    "vocab_size": 129280,
    "max_position_embeddings": 163840,
    "torch_dtype": "bfloat16",
    "quantization_config": {"quant_method": "fp8"},
}


def tensors(number: int) -> Tensors:
    return {
        f"model.layers.{number}.mlp.up_proj.weight": ("F8_E4M3", (18432, 7168)),
        f"model.layers.{number}.mlp.up_proj.weight_scale_inv": ("F32", (144, 56)),
    }


def shard(number: int, *, cut: int = 0, tail: Tail = Tail.DATA) -> ShardSeen:
    head, size = safetensors_head(tensors(number))
    return ShardSeen(NAMES[number], size - cut, head_sha256(head), read_header(NAMES[number], size - cut, head), tail)


def raw(number: int, content: bytes, size: int) -> ShardSeen:
    return ShardSeen(NAMES[number], size, head_sha256(content), read_header(NAMES[number], size, content), Tail.DATA)


def test_every_fault_is_told_at_once() -> None:
    """The whole text: facts that can be had, then each fault with what was seen and what to do."""
    shards = (
        shard(0),
        shard(1, cut=100_000_000),
        raw(2, POINTER, len(POINTER)),
        raw(3, POINTER, len(POINTER)),
        raw(4, b"<html><head><title>502 Bad Gateway</title>", 166),
        shard(5, cut=-4096),
        shard(6, tail=Tail.UNWRITTEN),
        shard(7, tail=Tail.ZERO),
    )
    placed = {name: NAMES[number] for number in range(9) for name in tensors(number)} | {"lm_head.weight": NAMES[0]}
    index = TextFile(INDEX, json.dumps({"weight_map": placed}))
    names = (*NAMES[:8], "old.safetensors", "config.json", "tokenizer.json", INDEX)
    texts = (TextFile("config.json", json.dumps(CONFIG)), index)
    files = weight_files(names, read_index(index.text))
    seen = DirectorySeen("/models/DeepSeek-V3", names, texts, read_index(index.text), files, shards)
    text = click.unstyle(card(summed(directory_facts(seen)))) + "\n"
    if os.environ.get("HOLDDOWN_REWRITE_GOLDEN"):
        EXPECTED.write_text(text, encoding="utf-8")
    assert text == EXPECTED.read_text("utf-8")
