"""config.json and its neighbours."""

import json

import pytest

from holddown.base.evidence import Known, Unknown
from holddown.facts.hf_config import HfConfig, chat_template, read_config, tokenizer_modules

SMOLLM2 = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 576,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 8192,
    "vocab_size": 49152,
    "torch_dtype": "bfloat16",
}
KIMI = {
    "architectures": ["KimiK25ForConditionalGeneration"],
    "model_type": "kimi_k25",
    "auto_map": {
        "AutoConfig": "configuration_kimi_k25.KimiK25Config",
        "AutoModel": "modeling_kimi_k25.KimiK25ForConditionalGeneration",
    },
    "text_config": {
        "hidden_size": 7168,
        "num_hidden_layers": 61,
        "num_attention_heads": 64,
        "num_key_value_heads": 64,
        "kv_lora_rank": 512,
        "max_position_embeddings": 262144,
        "vocab_size": 163840,
        "dtype": "bfloat16",
        "quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized"},
    },
}


def read(config: object, quant: str | None = None) -> HfConfig:
    return read_config(json.dumps(config), quant)


def value(fact: object) -> object:
    assert isinstance(fact, Known), fact
    return fact.value


def test_a_dense_llama() -> None:
    """Every size is read."""
    config = read(SMOLLM2)
    assert value(config.architectures) == ("LlamaForCausalLM",)
    assert value(config.num_key_value_heads) == 3
    assert value(config.dtype) == "bfloat16"
    assert value(config.storage.method) == "none"


def test_a_multimodal_wrapper() -> None:
    """The language model's sizes come from text_config, and the source says so."""
    config = read(KIMI)
    assert isinstance(config.hidden_size, Known)
    assert config.hidden_size.value == 7168
    assert "text_config.hidden_size" in config.hidden_size.source.where
    assert value(config.storage.method) == "compressed-tensors"
    assert value(config.dtype) == "bfloat16"
    assert value(config.model_type) == "kimi_k25"


def test_files_that_auto_map_names() -> None:
    """`module.Class` names module.py, in lists too, and of other repositories."""
    assert read(KIMI).remote_modules == ("configuration_kimi_k25.py", "modeling_kimi_k25.py")
    text = json.dumps({"auto_map": {"AutoTokenizer": ["tokenization_kimi.TikTokenTokenizer", None]}})
    assert tokenizer_modules(text) == ("tokenization_kimi.py",)
    assert tokenizer_modules('{"auto_map": {"AutoConfig": "org/repo--config_x.C"}}') == ("org/repo--config_x.py",)


def test_older_keys() -> None:
    """GPT-2's and GLM's names for the same things are understood."""
    config = read({"n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "padded_vocab_size": 50304})
    assert [value(config.hidden_size), value(config.num_hidden_layers), value(config.vocab_size)] == [768, 12, 50304]
    assert value(config.max_position_embeddings) == 1024


def test_every_head_has_its_keys_where_nothing_is_said() -> None:
    """Without num_key_value_heads it is multi-head attention."""
    config = read({key: number for key, number in SMOLLM2.items() if key != "num_key_value_heads"})
    assert value(config.num_key_value_heads) == 9


def test_modelopt() -> None:
    """hf_quant_config.json alone is enough to know the method, FP8 and FP4 apart."""
    assert value(read(SMOLLM2, '{"quantization": {"quant_algo": "FP8"}}').storage.method) == "modelopt"
    assert value(read(SMOLLM2, '{"quantization": {"quant_algo": "NVFP4"}}').storage.method) == "modelopt_fp4"
    assert isinstance(read(SMOLLM2, "{}").storage.method, Unknown)
    assert isinstance(read(SMOLLM2, "oops").storage.method, Unknown)


@pytest.mark.parametrize("wrong", ["8192", 8192.5, True, None, -1, 0, [8192]])
def test_a_size_that_is_no_count_is_unknown(wrong: object) -> None:
    """Nothing is made of a value of another kind."""
    assert isinstance(read(SMOLLM2 | {"max_position_embeddings": wrong}).max_position_embeddings, Unknown)


@pytest.mark.parametrize("text", ["", "[]", "{", '"x"', "null", '{"a":' * 100_000])
def test_no_object_is_one_error(text: str) -> None:
    """What is no JSON object is a ValueError with a sentence."""
    with pytest.raises(ValueError, match=r"\w"):
        read_config(text)


def test_the_jinja_file_comes_first() -> None:
    """The order in which transformers looks for a chat template."""
    in_config = json.dumps({"chat_template": "from config"})
    in_json = json.dumps({"chat_template": "from json"})
    assert value(chat_template("from jinja", in_json, in_config)) == "from jinja"
    assert value(chat_template(None, in_json, in_config)) == "from json"
    assert value(chat_template(None, None, in_config)) == "from config"


def test_named_templates() -> None:
    """Of a list of named templates, `default` is taken, else the first."""
    rows = [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "plain"}]
    assert value(chat_template(None, None, json.dumps({"chat_template": rows}))) == "plain"
    assert value(chat_template(None, None, json.dumps({"chat_template": rows[:1]}))) == "tools"


def test_no_template_says_where_it_was_looked_for() -> None:
    """A base model has none, and a broken file is named."""
    missing = chat_template(None, None, "{}")
    assert isinstance(missing, Unknown)
    assert "tokenizer_config.json" in missing.why
    broken = chat_template(None, None, "{")
    assert isinstance(broken, Unknown)
    assert "cannot be read" in broken.why


def test_one_architecture_given_as_a_word() -> None:
    """Hand-made configs have a string where a list belongs."""
    assert value(read(SMOLLM2 | {"architectures": "LlamaForCausalLM"}).architectures) == ("LlamaForCausalLM",)


def test_rope_scaling_in_words() -> None:
    """DeepSeek-V3's YaRN is told whole; a plain RoPE is `none`; Gemma 4's is told by layer kind."""
    yarn = {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096}
    assert value(read(SMOLLM2 | {"rope_scaling": yarn}).rope_scaling) == "yarn, factor 40, original length 4096"
    assert value(read(SMOLLM2 | {"rope_parameters": {"rope_type": "default"}}).rope_scaling) == "none"
    by_kind = {"full_attention": {"rope_type": "proportional"}, "sliding_attention": {"rope_type": "default"}}
    assert value(read(SMOLLM2 | {"rope_parameters": by_kind}).rope_scaling) == "full_attention: proportional"


def test_context_of_a_stretched_model() -> None:
    """max_position_embeddings is the stretched length already; where it is missing it follows from the factor."""
    yarn = {"rope_type": "yarn", "factor": 32, "original_max_position_embeddings": 4096}
    assert value(read(SMOLLM2 | {"rope_scaling": yarn}).max_position_embeddings) == 8192
    assert value(read({"rope_scaling": yarn}).max_position_embeddings) == 131072


def test_layers_that_are_spelled_out() -> None:
    """Nemotron 3 Ultra lists its layers and does not count them."""
    config = read({"layers_block_type": ["mamba", "moe", "attention"]})
    assert value(config.num_hidden_layers) == 3


def test_what_the_planner_needs_beside() -> None:
    """Draft layers by number, and the KV cache that the checkpoint asks for."""
    quant = '{"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}'
    config = read(SMOLLM2 | {"num_nextn_predict_layers": 1}, quant)
    assert config.draft_layers == (30,)
    assert value(config.storage.kv_cache) == "fp8"
    assert value(read(SMOLLM2).storage.kv_cache) == "none"
