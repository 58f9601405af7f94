"""Reads what an SGLang takes out of the files of its package. Nothing of it is imported or run."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from holddown.base.errors import EngineError
from holddown.base.evidence import Fact, Unknown, from_file
from holddown.edges.probes.python_package import PythonPackage, python_files, source_file
from holddown.facts.engine import EngineFacts
from holddown.facts.sglang_registry import (
    follows_modelopt_kv,
    read_entry_classes,
    read_environment,
    read_minimum_capabilities,
    read_quantization_methods,
    read_reasoning_parsers,
    read_tool_parsers,
)
from holddown.facts.sglang_source import read_server_flags
from holddown.facts.static_modules import Source

ARGUMENTS = "srt/server_args.py"
MODELS = "srt/models"
QUANTIZATION = "srt/layers/quantization"
RESOLVING = "srt/arg_groups"
FIELDS = f"{RESOLVING}/fields"
_NAMES_ALL = "field_order.py"
"""Every field's name, in the order of the constructor: it sets none."""
_KV_DTYPE = ("srt/mem_cache/kv_cache_dtype.py", "srt/model_executor/model_runner.py")
_ATTENTION = "srt/layers/attention/attention_registry.py"


def with_package(bare: EngineFacts, package: Path) -> EngineFacts:
    """The facts with everything that the package's own files say. Raises: EngineError when they are not what an
    SGLang has."""
    files = PythonPackage(package)
    source = Source(files.module)
    field_modules = [f"sglang.srt.arg_groups.fields.{path.stem}" for path in python_files(package / FIELDS)]
    resolving = (source_file(path).text for path in (package / RESOLVING).glob("*.py") if path.name != _NAMES_ALL)
    flags = read_server_flags(source, field_modules, resolving)
    if not flags:
        raise EngineError(
            "the options of this SGLang cannot be read",
            code="engine.source",
            seen=f"{package / ARGUMENTS} has no ServerArgs.add_cli_args that can be read",
            do="install this engine again; if it is a layout that holddown does not know, please report it",
        )
    choices = {flag.name: flag.choices for flag in flags}
    return replace(
        bare,
        flags=flags,
        architectures=read_entry_classes(source_file(path).text for path in (package / MODELS).glob("*.py")),
        quantization_methods=tuple(
            sorted({*read_quantization_methods(source), *choices.get("--quantization", ())} - {"unquant"})
        ),
        quantization_minimums=read_minimum_capabilities(source, _texts(package, QUANTIZATION)),
        gpu_memory_utilization=Unknown("SGLang works out --mem-fraction-static at start, from the GPUs and the model"),
        attention_backends=Unknown(
            f"SGLang declares nothing about its attention backends: {_ATTENTION} names them, and code at start decides"
        ),
        tool_parsers=_parsers(read_tool_parsers(source), "srt/function_call"),
        reasoning_parsers=_parsers(read_reasoning_parsers(source), "srt/parser"),
        kv_cache_dtypes=choices.get("--kv-cache-dtype", ()),
        kv_quantization_followed=_followed(package),
        environment=read_environment(source, _texts(package, "srt")),
    )


def _parsers(names: tuple[str, ...], where: str) -> Fact[tuple[str, ...]]:
    return from_file(names, f"sglang {where}") if names else Unknown(f"sglang {where} lists none that can be read")


def _followed(package: Path) -> tuple[str, ...]:
    path = next((package / each for each in _KV_DTYPE if (package / each).is_file()), None)
    return ("modelopt",) if path is not None and follows_modelopt_kv(source_file(path).text) else ()


def _texts(package: Path, below: str) -> Iterator[str]:
    return (source_file(path).text for path in python_files(package / below))
