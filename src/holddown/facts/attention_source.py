"""Reads from a vLLM's source what its attention backends take, and the order in which it tries them.

Each rule is asked as code, for each compute capability and KV cache dtype: `static_python` evaluates it.
Source: vLLM 0.16.0 to 0.33.0 `v1/attention/backends/registry.py` (names and classes), `v1/attention/backend.py`
(validate_configuration: which methods are asked), `platforms/cuda.py` (order).
"""

import ast
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import TypeAlias

from holddown.base.evidence import Fact, Unknown, from_file
from holddown.facts.attention_backends import (
    COMPUTE_CAPABILITIES,
    CPU,
    AttentionBackend,
    AttentionBackends,
    BackendOrder,
)
from holddown.facts.attention_rules import ASSUMED, CAPABILITIES, GPUS, Asked
from holddown.facts.python_source import ReadModule
from holddown.facts.static_modules import Source
from holddown.facts.static_python import Evaluator
from holddown.facts.static_values import Class, Function

_REGISTRY = "vllm.v1.attention.backends.registry"
_PLATFORM = "vllm.platforms.cuda"
_CPU_PLATFORM = "vllm.platforms.cpu"
_BASE = "vllm.v1.attention.backend"
_HEAD_SIZES = tuple(range(8, 648, 8))
"""All that models have; a backend that takes every one of them takes any."""
_Condition: TypeAlias = tuple[bool | None, bool | None, bool | None]
"""Quantised KV cache, few heads, latent vector of 512: None where it makes no difference."""


def read_attention_backends(read: ReadModule, kv_cache_dtypes: Sequence[str], where: str) -> Fact[AttentionBackends]:
    """What every backend of the registry takes. read: the syntax tree of a module. where: the package, for sources.

    Unknown before 0.12, whose registry names no classes.
    """
    source = Source(read)
    registry = source.find(_REGISTRY, "AttentionBackendEnum")
    priorities = source.find(_PLATFORM, "_get_backend_priorities")
    if not isinstance(registry, Class) or not isinstance(priorities, Function):
        return Unknown(f"{where}: this version of vLLM chooses attention backends in code that declares nothing")
    orders = list(_orders(source, priorities))
    tried = {name for order in orders for name in order.backends}
    on_cpu = _cpu_names(source)
    backends, others = [], []
    for name, path in _members(registry.node):
        module, _, class_name = path.rpartition(".")
        owner = source.find(module, class_name)
        if isinstance(owner, Class) and (name in tried or name in on_cpu or _names_gpus(source, owner)):
            capabilities = (CPU,) if name in on_cpu else tuple(GPUS)
            backends.append(_backend(source, name, owner, kv_cache_dtypes, capabilities))
        else:
            others.append(name)
    by_name = {backend.name: backend for backend in backends}
    for is_mla in (False, True):
        names = tuple(name for name in on_cpu if name in by_name and by_name[name].is_mla == is_mla)
        orders.append(BackendOrder(is_mla, (CPU,), None, None, None, names))
    return from_file(
        AttentionBackends(tuple(backends), tuple(orders), tuple(others)),
        f"{where}: v1/attention/backends, platforms/cuda.py",
    )


def _cpu_names(source: Source) -> tuple[str, ...]:
    """The backends that the CPU platform names as its answer, in their order: faster ones come first."""
    platform = source.find(_CPU_PLATFORM, "CpuPlatform")
    chooser = source.member(platform, "get_attn_backend_cls", platform) if isinstance(platform, Class) else None
    if not isinstance(chooser, Function):
        return ()
    names = []
    for node in ast.walk(chooser.node):
        match node:
            case ast.Return(value=ast.Call(func=ast.Attribute(value=ast.Attribute(attr=name), attr="get_path"))):
                names.append((node.lineno, name))
            case _:
                pass
    return tuple(name for _, name in sorted(names))


def _names_gpus(source: Source, owner: Class) -> bool:
    """Whether it says on which compute capabilities it runs. Those that are never tried by themselves and do not say
    are of other platforms, and would seem to run anywhere."""
    own = source.member(owner, "supports_compute_capability", owner)
    return isinstance(own, Function) and own.module != _BASE


def _members(registry: ast.ClassDef) -> Iterable[tuple[str, str]]:
    for item in registry.body:
        match item:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(path))) if "." in path:
                yield name, path
            case _:
                pass


def _backend(
    source: Source, name: str, owner: Class, kv_cache_dtypes: Sequence[str], capabilities: Sequence[str]
) -> AttentionBackend:
    asked = Asked(source, owner)
    accepted = tuple(cc for cc in capabilities if asked.yes(cc, "supports_compute_capability", CAPABILITIES[cc]))
    kv = asked.kv(accepted, kv_cache_dtypes)
    head_sizes = asked.head_sizes(_HEAD_SIZES, _BASE)
    refusals, requirements = asked.combinations(kv, head_sizes)
    return AttentionBackend(
        name=name,
        path=f"{owner.module.removeprefix('vllm.').replace('.', '/')}.py:{owner.node.lineno}",
        is_mla=asked.yes("9.0", "is_mla"),
        is_sparse=asked.yes("9.0", "is_sparse"),
        compute_capabilities=accepted,
        kv=kv,
        head_sizes=() if head_sizes == _HEAD_SIZES else head_sizes,
        block_sizes=asked.block_sizes(accepted[0] if accepted else "9.0"),
        sinks=tuple(cc for cc in accepted if asked.yes(cc, "supports_sink")),
        sliding_window=asked.yes("9.0", "supports_sliding_window", missing=True),
        decode_context_parallel=asked.decode_context_parallel(),
        refusals=refusals,
        requirements=requirements,
        unread=tuple(dict.fromkeys(asked.unread)),
    )


def _orders(source: Source, priorities: Function) -> Iterable[BackendOrder]:
    """One row for all capabilities and conditions that give the same order."""
    for is_mla in (False, True):
        rows: dict[tuple[_Condition, tuple[str, ...]], list[str]] = {}
        for capability in COMPUTE_CAPABILITIES:
            for condition, names in _conditioned(source, priorities, is_mla, capability).items():
                rows.setdefault((condition, names), []).append(capability)
        for ((quantized, few, latent), names), where in rows.items():
            yield BackendOrder(is_mla, tuple(where), quantized, few, latent, names)


def _conditioned(
    source: Source, priorities: Function, is_mla: bool, capability: str
) -> Mapping[_Condition, tuple[str, ...]]:
    parameters = {each.arg for each in priorities.node.args.args}
    full: dict[_Condition, tuple[str, ...]] = {}
    for quantized, few, latent in product((False, True), repeat=3):
        arguments = {
            "use_mla": is_mla,
            "device_capability": CAPABILITIES[capability],
            "num_heads": 16 if few else 64,
            "kv_cache_dtype": "fp8" if quantized else "auto",
            "use_non_causal": False,
            "head_size": 512 if latent else (576 if is_mla else 128),
            "use_mm_prefix": False,
        }
        evaluator = Evaluator(source, CAPABILITIES[capability], ASSUMED)
        value = evaluator.call(priorities, [], {name: arguments[name] for name in arguments if name in parameters})
        full[quantized, few, latent] = tuple(value) if isinstance(value, list) else ()
    return _collapsed(full)


def _collapsed(table: Mapping[_Condition, tuple[str, ...]]) -> Mapping[_Condition, tuple[str, ...]]:
    """Drops each condition that makes no difference."""
    for place in range(3):
        merged: dict[_Condition, tuple[str, ...]] = {}
        for key, names in table.items():
            other = _with(key, place, not key[place])
            merged[_with(key, place, None) if table.get(other) == names else key] = names
        table = merged
    return table


def _with(key: _Condition, place: int, value: bool | None) -> _Condition:
    first, second, third = (value if index == place else each for index, each in enumerate(key))
    return first, second, third
