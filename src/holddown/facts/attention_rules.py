"""Asks one attention backend's methods what it takes: for each compute capability, KV cache dtype and head size.

Source: vLLM 0.16.0 to 0.33.0 `v1/attention/backend.py` validate_configuration: which methods are asked.
"""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from holddown.facts.attention_backends import COMPUTE_CAPABILITIES, CPU, KvSupport, Refusal, Requirement
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

_ASKED_SIZES = (64, 80, 96, 112, 128, 192, 256, 512)
_LATENT_SIZES = (320, 512, 576)
"""Of latent vectors with their rotary part; those that combinations are asked for."""
GPUS = {text: Capability(*map(int, text.split("."))) for text in COMPUTE_CAPABILITIES}
CAPABILITIES = {**GPUS, CPU: Capability(0, 0)}


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


class Asked:
    """One backend class, asked method by method; what could not be read gathers in `unread`."""

    def __init__(self, source: Source, owner: Class) -> None:
        self._source = source
        self._owner = owner
        self.unread: list[str] = []
        self._anywhere: dict[tuple[object, ...], Any] = {}
        self._kind = (self.yes("9.0", "is_mla"), self.yes("9.0", "is_sparse"))

    def _evaluator(self, capability: str) -> Evaluator:
        return Evaluator(self._source, CAPABILITIES[capability], ASSUMED)

    def yes(self, capability: str, method: str, *arguments: object, missing: bool = False) -> bool:
        """What a method that answers yes or no answers. missing: what its absence means."""
        value = self._answer(capability, method, arguments)
        if isinstance(value, Opaque) and value.text == f"{self._owner.node.name}.{method}":
            return missing
        if unknown(value):
            self.unread.append(f"{method}: {getattr(value, 'text', value)}")
            return False
        return bool(value)

    def _answer(self, capability: str, method: str, arguments: tuple[object, ...]) -> Any:
        """Most methods do not look at the capability: what they answer for one, they answer for all."""
        key = (method, *arguments)
        if key in self._anywhere:
            return self._anywhere[key]
        evaluator = self._evaluator(capability)
        value = evaluator.ask(self._owner, method, *arguments)
        if not evaluator.looked and not any(isinstance(each, Capability) for each in arguments):
            self._anywhere[key] = value
        return value

    def kv(self, capabilities: Sequence[str], dtypes: Sequence[str]) -> tuple[KvSupport, ...]:
        rows: dict[tuple[str, ...], list[str]] = {}
        for capability in capabilities:
            taken = tuple(each for each in dtypes if self.yes(capability, "supports_kv_cache_dtype", each))
            rows.setdefault(taken, []).append(capability)
        return tuple(KvSupport(tuple(where), taken) for taken, where in rows.items())

    def head_sizes(self, sizes: Sequence[int], base: str) -> tuple[int, ...]:
        """Those of `sizes` that it takes. base: the module of the class that asks no more than whether a list has it,
        so that one look at the list does."""
        rule = self._source.member(self._owner, "supports_head_size", self._owner)
        listed = self._answer("9.0", "get_supported_head_sizes", ())
        if isinstance(rule, Function) and rule.module == base and isinstance(listed, list | tuple):
            return tuple(size for size in sizes if not listed or size in listed)
        return tuple(size for size in sizes if self.yes("9.0", "supports_head_size", size))

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
        """What `supports_combination` refuses of what is taken otherwise, asked for each case of what it names."""
        named = self._names("supports_combination")
        sizes = tuple(size for size in (_LATENT_SIZES if self._kind[0] else _ASKED_SIZES) if size in head_sizes)
        asked_sizes = sizes if "head_size" in named else sizes[:1]
        marks = (False, True) if "has_sink" in named else (False,)
        refused: dict[tuple[str, bool], dict[tuple[str, str], tuple[int, ...]]] = {}
        required: dict[Requirement, dict[int, None]] = {}
        for sinks, row in product(marks, kv):
            dtypes = row.kv_cache_dtypes if "kv_cache_dtype" in named else row.kv_cache_dtypes[:1]
            for capability, dtype, size in product(row.compute_capabilities, dtypes, asked_sizes):
                reason, found = self._combination(capability, dtype, size, sinks)
                for requirement in found:
                    required.setdefault(requirement, {})[size] = None
                cases = row.kv_cache_dtypes if "kv_cache_dtype" not in named else (dtype,)
                for each in cases if reason else ():
                    if size not in refused.get((reason, False), {}).get((capability, each), ()):
                        of = refused.setdefault((reason, sinks), {})
                        of[capability, each] = (*of.get((capability, each), ()), size)
        return _grouped(refused, asked_sizes), tuple(
            requirement if tuple(of) == asked_sizes else replace(requirement, head_sizes=tuple(of))
            for requirement, of in required.items()
        )

    def _names(self, method: str) -> frozenset[str]:
        """The variables that a method's code names."""
        member = self._source.member(self._owner, method, self._owner)
        if not isinstance(member, Function):
            return frozenset()
        return frozenset(node.id for node in ast.walk(member.node) if isinstance(node, ast.Name))

    def _combination(
        self, capability: str, dtype: str, head_size: int, sinks: bool
    ) -> tuple[str, tuple[Requirement, ...]]:
        """The reason against one combination, empty for none, and what it wants of the model."""
        evaluator = self._evaluator(capability)
        reason = evaluator.ask(
            self._owner,
            "supports_combination",
            head_size=head_size,
            dtype="bfloat16",
            kv_cache_dtype=dtype,
            block_size=None,
            use_mla=self._kind[0],
            has_sink=sinks,
            use_sparse=self._kind[1],
            use_mm_prefix=False,
            device_capability=CAPABILITIES[capability],
        )
        if isinstance(reason, Opaque):
            self.unread.append(f"supports_combination: {reason.text}")
        found: list[Requirement] = []
        for guard in evaluator.guards:
            wanted = _requirements(guard)
            found += wanted
            if not wanted:
                self.unread.append(f"supports_combination: {guard.reason}")
        return reason if isinstance(reason, str) else "", tuple(found)


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
