"""Architectures and instruction sets of a llama.cpp."""

from holddown.facts.llamacpp_source import built_for, missing_instructions, models, read_architectures

SOURCE = """
static const std::map<llm_arch, const char *> LLM_ARCH_NAMES = {
    { LLM_ARCH_CLIP,  "clip"      }, // dummy
    { LLM_ARCH_LLAMA, "llama"     },
    { LLM_ARCH_GLM,   "glm-dsa"   },
    { LLM_ARCH_UNKNOWN, "(unknown)" },
};
static const std::map<llm_kv, const char *> LLM_KV_NAMES = {
    { LLM_KV_GENERAL_TYPE, "general.type" },
};
"""
CPU = "processor\t: 0\nflags\t\t: fpu avx avx2 fma f16c bmi2\n"


def test_architectures_are_the_rows_of_the_table() -> None:
    """Of that table alone, without what is no model."""
    assert read_architectures(SOURCE) == ("llama", "glm-dsa")
    assert read_architectures("int main() {}") == ()


def test_what_the_library_names_is_read_the_same_way() -> None:
    """Its function gives the same words."""
    assert models(["clip", "llama", "llama", "(unknown)"]) == ("llama",)


def test_instructions_that_a_cpu_lacks_are_named_as_the_kernel_names_them() -> None:
    """AVX-512 on a Zen 3."""
    used = built_for({"ggml_cpu_has_avx2": True, "ggml_cpu_has_avx512": True, "ggml_cpu_has_amx_int8": False})

    assert used == ("avx2", "avx512f")
    assert missing_instructions(used, CPU) == ("avx512f",)


def test_a_cpu_that_does_not_tell_lacks_nothing() -> None:
    """What is not known is no reason to refuse."""
    assert missing_instructions(("avx512f",), "processor : 0\n") == ()
