"""What an engine has registered, from text. The texts are ours, shaped like vLLM's."""

import ast

from holddown.facts.engine import GoneArchitecture, MinimumCapability
from holddown.facts.registry_source import (
    kv_flag_wins,
    read_dict_keys,
    read_gone_architectures,
    read_minimum_capabilities,
    read_registered,
    read_without_pipeline,
    reads_modelopt_kv,
)
from holddown.facts.static_modules import Source

REGISTRY = """
_MODELS = {
    "LlamaForCausalLM": ("llama", "LlamaForCausalLM"),
    "TinyForCausalLM": ("llama", "LlamaForCausalLM"),
    "BertModel": ("bert", "BertModel"),
    "UnseenModel": ("unseen", "UnseenModel"),
}
_PREVIOUSLY_SUPPORTED_MODELS = {"OldModel": "0.10.2"}
_OOT_SUPPORTED_MODELS: dict[str, str] = {"BartModel": "https://example.org/bart"}
"""
MODELS = (
    "class LlamaForCausalLM(\n    nn.Module,\n    SupportsLoRA, SupportsPP\n):\n    pass\n",
    "class BertModel(nn.Module):\n",
)
DECORATED = """
@M.register_module("one")
class A: ...
@M.register_module(["two", "three"])
class B: ...
@other("x")
class C: ...
"""


def test_parsers_are_the_keys_of_the_dict() -> None:
    """Whatever the values are."""
    tree = ast.parse('_PARSERS = {"b": ("file", "B"), "a": ("file", "A")}')

    assert read_dict_keys(tree, "_PARSERS") == ("a", "b")
    assert read_dict_keys(tree, "_OTHERS") == ()


def test_parsers_of_earlier_versions_are_in_decorators() -> None:
    """One name or several."""
    assert read_registered([ast.parse(DECORATED)]) == ("one", "three", "two")


def test_models_that_are_gone_say_where_to() -> None:
    """The last version that had them, or the plug-in that brings them."""
    assert read_gone_architectures(ast.parse(REGISTRY)) == (
        GoneArchitecture("OldModel", "0.10.2", ""),
        GoneArchitecture("BartModel", "", "https://example.org/bart"),
    )


def test_pipeline_support_is_inherited() -> None:
    """A class that does not inherit SupportsPP cannot be split; one that is not found is not accused."""
    assert read_without_pipeline(ast.parse(REGISTRY), MODELS) == ("BertModel",)
    derived = (*MODELS, "class UnseenModel(LlamaForCausalLM):\n")
    assert read_without_pipeline(ast.parse(REGISTRY), derived) == ("BertModel",)


def test_minimum_capabilities_come_from_each_methods_class() -> None:
    """Found through the imports of the function that looks them up; -1 (a CPU method) is none."""
    modules = {
        "vllm.model_executor.layers.quantization": (
            "def get_quantization_config(name):\n"
            "    from .fp8 import Fp8Config\n"
            "    from vllm.other import CpuConfig, OddConfig\n"
            '    methods = {"fp8": Fp8Config, "cpu_awq": CpuConfig, "odd": OddConfig}\n'
            "    return methods[name]\n"
        ),
        "vllm.model_executor.layers.quantization.fp8": (
            "class Fp8Config:\n    @classmethod\n    def get_min_capability(cls):\n        return 89\n"
        ),
        "vllm.other": (
            "class CpuConfig:\n    @classmethod\n    def get_min_capability(cls):\n        return -1\n"
            "class OddConfig:\n    @classmethod\n    def get_min_capability(cls):\n        return ask_the_driver()\n"
        ),
    }
    source = Source(lambda name: ast.parse(modules[name]) if name in modules else None)

    assert read_minimum_capabilities(source) == (MinimumCapability("fp8", "8.9"),)


def test_whether_the_flag_beats_the_checkpoint() -> None:
    """0.16 and 0.19 set FP8 in any case, later ones only under auto."""
    forced = "if getattr(quant_config, 'kv_cache_scheme', None) is not None:\n    kv_cache_dtype = 'fp8'\n"
    asked = "if kv_cache_scheme is not None and kv_cache_dtype == 'auto':\n    kv_cache_dtype = 'fp8'\n"

    assert not kv_flag_wins(ast.parse(forced))
    assert kv_flag_wins(ast.parse(asked))
    assert kv_flag_wins(ast.parse("x = 1"))


def test_whether_modelopts_wish_is_read() -> None:
    """By the function that reads it."""
    assert reads_modelopt_kv(ast.parse("def get_kv_cache_quant_algo_string(config): ..."))
    assert not reads_modelopt_kv(ast.parse("def other(): ..."))
