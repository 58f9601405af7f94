"""What SGLang has registered, from the text of its files. The texts are ours, shaped like both of its layouts."""

import ast
from collections.abc import Mapping

from holddown.facts.engine import EnvironmentVariable, MinimumCapability
from holddown.facts.sglang_registry import (
    ENVIRON,
    QUANTIZATION,
    follows_modelopt_kv,
    read_entry_classes,
    read_environment,
    read_minimum_capabilities,
    read_quantization_methods,
    read_reasoning_parsers,
    read_tool_parsers,
)
from holddown.facts.static_modules import Source


def source(modules: Mapping[str, str]) -> Source:
    trees = {name: ast.parse(text) for name, text in modules.items()}
    return Source(trees.get)


def test_architectures_are_the_entry_classes_of_the_models_files() -> None:
    """One or several, on one line or many; imports and lists of exports are none."""
    texts = (
        "class A: ...\nEntryClass = A\n",
        "EntryClass = [\n    B,\n    C,  # the vision one, not D\n]\n",
        'from x import EntryClass\n__all__ = [\n    "EntryClass",\n]\n',
        "    EntryClass = Inner\n",
    )

    assert read_entry_classes(texts) == ("A", "B", "C")


def test_parsers_are_read_from_both_layouts() -> None:
    """Lists of names in later releases, tables of classes in earlier ones; sorted."""
    early = source(
        {
            "sglang.srt.function_call.function_call_parser": (
                "class FunctionCallParser:\n    ToolCallParserEnum: dict = {'qwen': Q, 'glm': G}\n"
            ),
            "sglang.srt.parser.reasoning_parser": "class ReasoningParser:\n    DetectorMap: dict = {'kimi': K}\n",
        }
    )
    late = source(
        {
            "sglang.srt.function_call.parser_names": 'TOOL_CALL_PARSER_NAMES = ["qwen", "glm"]\n',
            "sglang.srt.parser.reasoning_parser_names": 'REASONING_PARSER_NAMES = ["kimi"]\n',
        }
    )

    for each in (early, late):
        assert read_tool_parsers(each) == ("glm", "qwen")
        assert read_reasoning_parsers(each) == ("kimi",)
    assert read_tool_parsers(source({})) == ()


def test_quantisation_methods_are_those_of_an_nvidia_gpu() -> None:
    """The table and what it is given under `is_cuda()`, not what only other devices get."""
    text = (
        'BASE_QUANTIZATION_METHODS: dict = {"fp8": A, "awq": B}\n'
        'if is_cpu() or is_cuda():\n    BASE_QUANTIZATION_METHODS.update({"mxfp4": C})\n'
        'if is_npu():\n    BASE_QUANTIZATION_METHODS.update({"gptq": D})\n'
    )

    assert read_quantization_methods(source({QUANTIZATION: text})) == ("awq", "fp8", "mxfp4")
    assert read_quantization_methods(source({})) == ()


ENVS = """
class Envs:
    SGLANG_QUICK = EnvBool(False)
    SGLANG_SIZE = EnvInt(2 ** 10)
    SGLANG_FOLDER = EnvStr(lambda: home())
    SGLANG_NOTHING = EnvStr(None)
    SGLANG_NEW = EnvBoolWithAlias(True, deprecated_name="SGLANG_OLD")

_DEPRECATED_ENVS: dict = {
    "SGLANG_GONE": _DeprecatedEnv(note="It is always on."),
    "SGLANG_MOVED": _DeprecatedEnv("SGLANG_QUICK"),
    "SGLANG_SILENT": _DeprecatedEnv(),
}
def convert():
    _print_deprecated_env("SGLANG_SIZE", "SGLANG_LENGTH")
_warn_deprecated_env_to_cli_flag("SGLANG_BY_FLAG", "Please use '--flag' instead.")
"""


def test_each_methods_class_says_which_gpus_it_needs() -> None:
    """Its own number, another class's, or its base's; what depends on the platform is not guessed at."""
    table = 'BASE_QUANTIZATION_METHODS: dict = {"fp8": Fp8, "awq": Awq, "odd": Odd, "mixed": Mixed, "gone": Missing}\n'
    method = "    @classmethod\n    def get_min_capability(cls) -> int:\n"
    texts = (
        f"class Base(Config):\n    x = 1\n{method}        # Turing\n        return 75  # and later\n",
        f"class Awq(Base, Other):\n    pass\nclass Fp8(Base):\n{method}        return 89\n",
        f"class Odd(Base):\n{method}        if is_npu():\n            return 0\n        return 80\n",
        f"class Mixed(Config):\n{method}        return Fp8.get_min_capability()\n",
        f"class Unused(Config):\n{method}        return 60 if not musa else 21\n",
    )

    assert read_minimum_capabilities(source({QUANTIZATION: table}), texts) == (
        MinimumCapability("awq", "7.5"),
        MinimumCapability("fp8", "8.9"),
        MinimumCapability("mixed", "8.9"),
    )


def test_variables_have_their_defaults_and_what_is_said_of_old_ones() -> None:
    """From the table of variables, the table of old ones and the calls that warn."""
    found = {each.name: each for each in read_environment(source({ENVIRON: ENVS}), ())}

    assert found["SGLANG_QUICK"] == EnvironmentVariable("SGLANG_QUICK", "false")
    assert found["SGLANG_SIZE"].default == "1024"
    assert found["SGLANG_FOLDER"].default == found["SGLANG_NOTHING"].default == ""
    assert {name: each.deprecated for name, each in found.items() if each.deprecated} == {
        "SGLANG_OLD": "use SGLANG_NEW",
        "SGLANG_GONE": "It is always on.",
        "SGLANG_MOVED": "use SGLANG_QUICK",
        "SGLANG_SILENT": "deprecated",
        "SGLANG_LENGTH": "use SGLANG_SIZE",
        "SGLANG_BY_FLAG": "Please use '--flag' instead.",
    }
    assert list(found) == sorted(found)


def test_variables_that_are_read_elsewhere_are_found() -> None:
    """By the functions that read them; a name in a message is no variable."""
    texts = (
        'a = os.getenv("SGLANG_ONE", "7")\nb = os.environ.get(\n    "SGL_TWO"\n)\n',
        'c = get_bool_env_var("SGLANG_THREE", default="true")\nprint("SGLANG_FOUR")\n',
        'd = get_int_env_var("SGLANG_FIVE", 4096)\ne = os.getenv("SGLANG_SIX", compute())\nf = os.getenv("HOME")\n',
    )

    assert read_environment(source({}), texts) == (
        EnvironmentVariable("SGLANG_FIVE", "4096"),
        EnvironmentVariable("SGLANG_ONE", "7"),
        EnvironmentVariable("SGLANG_SIX"),
        EnvironmentVariable("SGLANG_THREE", "true"),
        EnvironmentVariable("SGL_TWO"),
    )


def test_following_modelopt_is_told_by_the_file_that_decides() -> None:
    """It looks at the checkpoint's own wish, or does not."""
    assert follows_modelopt_kv('algo = getattr(quant_config, "kv_cache_quant_algo", None)\n')
    assert not follows_modelopt_kv("dtype = torch.bfloat16\n")
