"""Reads from a vLLM's source what its attention backends take, and the order in which it tries them.

Each rule is asked as code, for each compute capability and KV cache dtype: `static_python` evaluates it.
Source: vLLM 0.16.0 to 0.33.0 `v1/attention/backends/registry.py` (names and classes), `v1/attention/backend.py`
(validate_configuration: which methods are asked), `platforms/cuda.py` (order).
"""

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any, TypeAlias

from holddown.base.evidence import Fact, Unknown, from_file
from holddown.facts.attention_backends import (
    COMPUTE_CAPABILITIES,
    CPU,
    AttentionBackend,
    AttentionBackends,
    BackendOrder,
    KvSupport,
    Refusal,
    Requirement,
)
from holddown.facts.static_modules import Source
from holddown.facts.static_python import Evaluator
from holddown.facts.static_values import (
    AnyOf,
    Capability,
    Class,
    Comparison,
    Config,
    Function,
    Guard,
    Module,
    Names,
    Opaque,
    unknown,
)

ReadModule = Callable[[str], ast.Module | None]

_REGISTRY = "vllm.v1.attention.backends.registry"
_PLATFORM = "vllm.platforms.cuda"
_CPU_PLATFORM = "vllm.platforms.cpu"
_BASE = "vllm.v1.attention.backend"
_HEAD_SIZES = tuple(range(8, 648, 8))
"""All that models have; a backend that takes every one of them takes any."""
_ASKED_SIZES = (64, 80, 96, 112, 128, 192, 256, 512)
_LATENT_SIZES = (320, 512, 576)
"""Of latent vectors with their rotary part; those that combinations are asked for."""
_Condition: TypeAlias = tuple[bool | None, bool | None, bool | None]
"""Quantised KV cache, few heads, latent vector of 512: None where it makes no difference."""
_GPUS = {text: Capability(*map(int, text.split("."))) for text in COMPUTE_CAPABILITIES}
_CAPABILITIES = {**_GPUS, CPU: Capability(0, 0)}


def _family(capability: Capability, family: int) -> bool:
    return capability.major == family // 10


def _quantized(_: Capability, kv_cache_dtype: str) -> bool:
    return kv_cache_dtype not in ("auto", "float16", "bfloat16")


def _flash_attention(capability: Capability, version: int) -> bool:
    """The kernels in the CUDA wheel. Source: vllm/vllm_flash_attn/flash_attn_interface.py of 0.16.0 and 0.33.0."""
    return {2: capability.major >= 8, 3: capability.major == 9, 4: capability.major in (9, 10, 11)}[version]


def _yes(_: Capability, *_arguments: object, **_named: object) -> bool:
    return True


def _no(_: Capability, *_arguments: object, **_named: object) -> bool:
    return False


ASSUMED: Mapping[str, Any] = {
    # what a stock CUDA installation is: the wheel's compiled extensions and FlashInfer are there, nothing is set
    "DeviceCapability": lambda _, major, minor=0: Capability(major, minor),
    "MultipleOf": lambda _, base: base,
    "AttentionBackendEnum": Names(),
    "AttentionType": Names(),
    "torch": Module("torch"),
    "torch.bfloat16": "bfloat16",
    "torch.float16": "float16",
    "get_device_capability": lambda capability: capability,
    "is_device_capability_family": _family,
    "is_device_capability": lambda capability, wanted: capability.major * 10 + capability.minor == wanted,
    "has_device_capability": lambda capability, wanted: capability.major * 10 + capability.minor >= wanted,
    "is_cuda": lambda capability: capability.major > 0,
    "is_cuda_alike": lambda capability: capability.major > 0,
    "is_cpu": lambda capability: capability.major == 0,
    "is_rocm": _no,
    "is_xpu": _no,
    "get_current_vllm_config": lambda _: Config(is_model=False),
    "get_current_vllm_config_or_none": lambda _: Config(is_model=False),
    "is_hybrid": False,
    "is_diffusion": False,
    "is_mm_prefix_lm": False,
    "flash_attn_version": None,
    "use_trtllm_attention": None,
    "vllm_is_batch_invariant": _no,
    "VLLM_BATCH_INVARIANT": False,
    "is_quantized_kv_cache": _quantized,
    "is_fa_version_supported": _flash_attention,
    "_is_fa_version_supported": _flash_attention,
    "_is_flashmla_available": lambda _: (True, None),
    "has_nvidia_artifactory": _yes,
    "has_flashinfer": _yes,
    "has_flashinfer_sparse_mla_sm120": _yes,
    "has_flashinfer_sm90_nope_mla": _yes,
}


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
            capabilities = (CPU,) if name in on_cpu else tuple(_GPUS)
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
    asked = _Asked(source, owner)
    accepted = tuple(cc for cc in capabilities if asked.yes(cc, "supports_compute_capability", _CAPABILITIES[cc]))
    kv = asked.kv(accepted, kv_cache_dtypes)
    head_sizes = tuple(size for size in _HEAD_SIZES if asked.yes("9.0", "supports_head_size", size))
    refusals, requirements = asked.combinations(kv, head_sizes)
    return AttentionBackend(
        name=name,
        path=f"{owner.module.removeprefix('vllm.').replace('.', '/')}.py",
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


class _Asked:
    """One backend class, asked method by method; what could not be read gathers in `unread`."""

    def __init__(self, source: Source, owner: Class) -> None:
        self._source = source
        self._owner = owner
        self.unread: list[str] = []

    def _evaluator(self, capability: str) -> Evaluator:
        return Evaluator(self._source, _CAPABILITIES[capability], ASSUMED)

    def yes(self, capability: str, method: str, *arguments: object, missing: bool = False) -> bool:
        """What a method that answers yes or no answers. missing: what its absence means."""
        value = self._evaluator(capability).ask(self._owner, method, *arguments)
        if isinstance(value, Opaque) and value.text == f"{self._owner.node.name}.{method}":
            return missing
        if unknown(value):
            self.unread.append(f"{method}: {getattr(value, 'text', value)}")
            return False
        return bool(value)

    def kv(self, capabilities: Sequence[str], dtypes: Sequence[str]) -> tuple[KvSupport, ...]:
        rows: dict[tuple[str, ...], list[str]] = {}
        for capability in capabilities:
            taken = tuple(each for each in dtypes if self.yes(capability, "supports_kv_cache_dtype", each))
            rows.setdefault(taken, []).append(capability)
        return tuple(KvSupport(tuple(where), taken) for taken, where in rows.items())

    def block_sizes(self, capability: str) -> tuple[int, ...]:
        value = self._evaluator(capability).ask(self._owner, "get_supported_kernel_block_sizes")
        if not isinstance(value, list) or not all(isinstance(each, int) for each in value):
            self.unread.append("get_supported_kernel_block_sizes")
            return ()
        return () if 1 in value else tuple(value)

    def decode_context_parallel(self) -> bool:
        """Whether its decode kernel can give the log-sum-exp by which ranks merge their parts.

        Source: 0.32.0 AttentionBackend.supports_dcp; before it, v1/worker/cp_utils.py asks
        `can_return_lse_for_decode` of the implementation.
        """
        evaluator = self._evaluator("9.0")
        implementation = evaluator.ask(self._owner, "get_impl_cls")
        if not isinstance(implementation, Class):
            return False
        for attribute in ("supports_dcp", "can_return_lse_for_decode"):
            value = evaluator.ask(implementation, attribute)
            if not unknown(value):
                return bool(value)
        return False

    def combinations(
        self, kv: Sequence[KvSupport], head_sizes: Sequence[int]
    ) -> tuple[tuple[Refusal, ...], tuple[Requirement, ...]]:
        """What `supports_combination` refuses of what is taken otherwise, asked for several head sizes, with sinks and
        without."""
        mla, sparse = self.yes("9.0", "is_mla"), self.yes("9.0", "is_sparse")
        sizes = [size for size in (_LATENT_SIZES if mla else _ASKED_SIZES) if size in head_sizes]
        refused: dict[tuple[str, bool], dict[tuple[str, str], list[int]]] = {}
        requirements: dict[Requirement, None] = {}
        asked = [each for row in kv for each in product(row.compute_capabilities, row.kv_cache_dtypes)]
        for sinks, (capability, dtype), size in product((False, True), asked, sizes):
            evaluator = self._evaluator(capability)
            reason = evaluator.ask(
                self._owner,
                "supports_combination",
                head_size=size,
                dtype="bfloat16",
                kv_cache_dtype=dtype,
                block_size=None,
                use_mla=mla,
                has_sink=sinks,
                use_sparse=sparse,
                use_mm_prefix=False,
                device_capability=_CAPABILITIES[capability],
            )
            without_sinks = refused.get((str(reason), False), {}).get((capability, dtype), ())
            if isinstance(reason, str) and size not in without_sinks:
                refused.setdefault((reason, sinks), {}).setdefault((capability, dtype), []).append(size)
            elif isinstance(reason, Opaque):
                self.unread.append(f"supports_combination: {reason.text}")
            for guard in evaluator.guards:
                found = _requirements(guard)
                requirements.update(dict.fromkeys(found))
                if not found:
                    self.unread.append(f"supports_combination: {guard.reason}")
        return _grouped(refused, tuple(sizes)), tuple(requirements)


def _grouped(
    refused: Mapping[tuple[str, bool], Mapping[tuple[str, str], Sequence[int]]], sizes: tuple[int, ...]
) -> tuple[Refusal, ...]:
    """Capabilities on which the same dtypes and head sizes are refused for the same reason, in one row."""
    rows = []
    for (reason, sinks), cases in refused.items():
        dtypes: dict[tuple[str, tuple[int, ...]], list[str]] = {}
        for (capability, dtype), of_sizes in cases.items():
            dtypes.setdefault((capability, tuple(of_sizes)), []).append(dtype)
        capabilities: dict[tuple[tuple[str, ...], tuple[int, ...]], list[str]] = {}
        for (capability, of), each in dtypes.items():
            capabilities.setdefault((tuple(each), of), []).append(capability)
        rows += [
            Refusal(tuple(where), each, sinks, reason, () if of == sizes else of)
            for (each, of), where in capabilities.items()
        ]
    return tuple(rows)


_OPPOSITE = {"==": "not in", "!=": "in", "in": "not in", "not in": "in", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def _requirements(guard: Guard) -> tuple[Requirement, ...]:
    """What must hold so that the guard does not refuse; nothing where that cannot be said in whole numbers."""
    tests = guard.condition.tests if isinstance(guard.condition, AnyOf) else (guard.condition,)
    found = []
    for test in tests:
        if not isinstance(test, Comparison):
            return ()
        if test.relation == "missing":
            found.append(Requirement(test.field, "there", (), guard.reason))
        elif test.relation in _OPPOSITE and all(isinstance(value, int) for value in test.values):
            values = tuple(int(str(value)) for value in test.values)
            found.append(Requirement(test.field, _OPPOSITE[test.relation], values, guard.reason))
        else:
            return ()
    return tuple(found)


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
            "device_capability": _CAPABILITIES[capability],
            "num_heads": 16 if few else 64,
            "kv_cache_dtype": "fp8" if quantized else "auto",
            "use_non_causal": False,
            "head_size": 512 if latent else (576 if is_mla else 128),
            "use_mm_prefix": False,
        }
        evaluator = Evaluator(source, _CAPABILITIES[capability], ASSUMED)
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
