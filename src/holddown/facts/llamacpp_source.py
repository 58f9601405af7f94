"""The architectures that a llama.cpp has code for: from its source, or from what its library was asked.

Source: llama.cpp b11434 src/llama-arch.cpp LLM_ARCH_NAMES, `llm_arch_name`.
"""

import re
from collections.abc import Iterable, Mapping

_TABLE = re.compile(r"LLM_ARCH_NAMES\s*=\s*\{(.*?)\n\};", re.DOTALL)
_ROW = re.compile(r'\{\s*LLM_ARCH_\w+\s*,\s*"([^"]+)"')
_NO_MODELS = frozenset({"clip", "(unknown)", "unknown"})
"""clip: of vision towers in files of their own, no model to serve."""

_INSTRUCTIONS = {
    "avx": "avx",
    "avx2": "avx2",
    "avx_vnni": "avx_vnni",
    "fma": "fma",
    "f16c": "f16c",
    "bmi2": "bmi2",
    "avx512": "avx512f",
    "avx512_vbmi": "avx512vbmi",
    "avx512_vnni": "avx512_vnni",
    "avx512_bf16": "avx512_bf16",
    "amx_int8": "amx_int8",
    "neon": "asimd",
    "sve": "sve",
    "matmul_int8": "i8mm",
    "dotprod": "asimddp",
}
"""`ggml_cpu_has_*` -> the flag of /proc/cpuinfo. Source: ggml/include/ggml-cpu.h."""
INSTRUCTION_QUESTIONS = tuple(f"ggml_cpu_has_{name}" for name in _INSTRUCTIONS)


def read_architectures(text: str) -> tuple[str, ...]:
    """`general.architecture` of every model in the table of llama-arch.cpp; empty where there is no such table."""
    table = _TABLE.search(text)
    return models(_ROW.findall(table[1])) if table else ()


def models(names: Iterable[str]) -> tuple[str, ...]:
    """The names that stand for a model."""
    return tuple(dict.fromkeys(name for name in names if name not in _NO_MODELS))


def built_for(answers: Mapping[str, bool]) -> tuple[str, ...]:
    """Instruction sets that a build uses, as /proc/cpuinfo names them. answers: to INSTRUCTION_QUESTIONS."""
    return tuple(flag for name, flag in _INSTRUCTIONS.items() if answers.get(f"ggml_cpu_has_{name}"))


def missing_instructions(used: Iterable[str], cpuinfo: str) -> tuple[str, ...]:
    """Of those that a build uses, what this CPU does not have. cpuinfo: the text of /proc/cpuinfo."""
    has = {word for line in cpuinfo.splitlines() if line.startswith(("flags", "Features")) for word in line.split()}
    return tuple(flag for flag in used if has and flag not in has)
