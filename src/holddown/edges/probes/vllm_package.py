"""Reads what a vLLM takes out of the files of its package. Nothing of it is imported or run."""

import ast
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from holddown.base.evidence import Fact, Unknown, from_file
from holddown.edges.probes.python_package import PythonPackage, python_files, source_file
from holddown.facts.attention_backends import AttentionBackends
from holddown.facts.attention_source import read_attention_backends
from holddown.facts.engine import EngineFacts, Flag
from holddown.facts.registry_source import (
    kv_flag_wins,
    read_architectures,
    read_dict_keys,
    read_gone_architectures,
    read_minimum_capabilities,
    read_registered,
    read_without_pipeline,
    reads_modelopt_kv,
)
from holddown.facts.static_modules import Source
from holddown.facts.vllm_environment import read_environment
from holddown.facts.vllm_flags import read_flags

ARGUMENTS = "engine/arg_utils.py"
REGISTRY = "model_executor/models/registry.py"
_QUANTIZATION = "model_executor/layers/quantization/__init__.py"
_ENVIRONMENT = "envs.py"
_CACHE_CONFIG = "config/cache.py"
_ATTENTION = "model_executor/layers/attention/attention.py"


def with_package(bare: EngineFacts, package: Path) -> EngineFacts:
    """The facts with everything that the package's own files say. Raises: EngineError naming a file that is missing or
    is no Python."""
    modules = PythonPackage(package)
    registry = modules.needed(package / REGISTRY)
    flags = read_flags(
        [modules.needed(path) for path in argument_files(package)], modules.below("config"), modules.module
    )
    by_name = {flag.name: flag for flag in flags}
    kv_cache_dtypes = modules.words(_CACHE_CONFIG, "CacheDType")
    return replace(
        bare,
        flags=flags,
        architectures=read_architectures(registry),
        quantization_methods=modules.words(_QUANTIZATION, "QuantizationMethods"),
        gpu_memory_utilization=_utilization(by_name.get("--gpu-memory-utilization")),
        attention_backends=_attention_backends(modules, kv_cache_dtypes),
        tool_parsers=_parsers(modules, "tool_parsers", "_TOOL_PARSERS_TO_REGISTER", "entrypoints/openai/tool_parsers"),
        reasoning_parsers=_parsers(modules, "reasoning", "_REASONING_PARSERS_TO_REGISTER", "reasoning"),
        kv_cache_dtypes=kv_cache_dtypes,
        quantization_minimums=read_minimum_capabilities(Source(modules.module)),
        gone_architectures=read_gone_architectures(registry),
        without_pipeline=_without_pipeline(package, registry),
        kv_quantization_followed=_followed(modules),
        kv_flag_wins=kv_flag_wins(attention) if (attention := modules.tree(_ATTENTION)) else True,
        environment=read_environment(envs) if (envs := modules.tree(_ENVIRONMENT)) else (),
    )


def argument_files(package: Path) -> list[Path]:
    """The files that build the server's parser. `cli_args.py` moves between versions, so it is looked for."""
    found = [package / ARGUMENTS]
    found += [path for path in python_files(package / "entrypoints") if path.name == "cli_args.py"]
    return found


def _utilization(flag: Flag | None) -> Fact[float]:
    where = "vllm config/cache.py gpu_memory_utilization"
    try:
        return from_file(float(flag.default if flag and flag.default else ""), where)
    except ValueError:
        return Unknown(f"{where} has no default that can be read")


def _attention_backends(modules: PythonPackage, kv_cache_dtypes: Sequence[str]) -> Fact[AttentionBackends]:
    try:
        return read_attention_backends(modules.module, kv_cache_dtypes, "vllm")
    except RecursionError:
        return Unknown("its attention backends are written in a way that cannot be followed")


def _parsers(modules: PythonPackage, folder: str, table: str, decorated: str) -> Fact[tuple[str, ...]]:
    """From the dict `table` of newer versions; from the decorators in the folder `decorated` of older ones."""
    tree = modules.tree(f"{folder}/__init__.py")
    names = read_dict_keys(tree, table) if tree else ()
    names = names or read_registered(modules.below(decorated))
    where = f"vllm {folder}"
    return from_file(names, where) if names else Unknown(f"{where} registers none that can be read")


def _followed(modules: PythonPackage) -> tuple[str, ...]:
    """compressed-tensors is followed by every version that keeps its attention layer in this file."""
    torch_utils = modules.tree("utils/torch_utils.py")
    modelopt = ("modelopt",) if torch_utils and reads_modelopt_kv(torch_utils) else ()
    return (*modelopt, "compressed-tensors") if modules.tree(_ATTENTION) else modelopt


def _without_pipeline(package: Path, registry: ast.Module) -> Fact[tuple[str, ...]]:
    folders = (package / "model_executor/models", package / "models")
    paths = [path for folder in folders for path in python_files(folder)]
    if not paths:
        return Unknown(f"{package} has no models where earlier versions have them")
    texts = (source_file(path).text for path in paths)
    return from_file(read_without_pipeline(registry, texts), "vllm model_executor/models, SupportsPP")
