"""Reading attention backends from source. The source is ours, laid out as vLLM's."""

import ast

import pytest

from holddown.base.evidence import Known, Unknown
from holddown.facts.attention_backends import AttentionBackend, AttentionBackends, BackendOrder, Requirement
from holddown.facts.attention_source import read_attention_backends

DTYPES = ("auto", "bfloat16", "fp8")
MODULES = {
    "vllm.v1.attention.backends.registry": """
class AttentionBackendEnum(Enum):
    FLASH = "vllm.flash.Flash"
    LATENT = ("vllm.latent."
              "Latent")
    SPARSE = "vllm.latent.Sparse"
    OPTIONAL = "vllm.optional.Optional"
    ELSEWHERE = "vllm.elsewhere.Elsewhere"
    ON_CPU = "vllm.cpu.OnCpu"
    VIT = ""
    CUSTOM = None
""",
    "vllm.v1.attention.backend": """
class AttentionBackend:
    supported_kv_cache_dtypes = ["auto", "bfloat16"]
    @staticmethod
    def get_supported_kernel_block_sizes():
        return [MultipleOf(1)]
    @classmethod
    def get_supported_head_sizes(cls):
        return []
    @classmethod
    def supports_head_size(cls, head_size):
        sizes = cls.get_supported_head_sizes()
        return (not sizes) or head_size in sizes
    @classmethod
    def supports_kv_cache_dtype(cls, kv_cache_dtype):
        return kv_cache_dtype in cls.supported_kv_cache_dtypes
    @classmethod
    def is_mla(cls):
        return False
    @classmethod
    def is_sparse(cls):
        return False
    @classmethod
    def supports_sink(cls):
        return False
    @classmethod
    def supports_compute_capability(cls, capability):
        return True
    @classmethod
    def supports_combination(cls, head_size, dtype, kv_cache_dtype, has_sink, device_capability, **rest):
        return None
""",
    "vllm.flash": """
from vllm.v1.attention.backend import AttentionBackend
from vllm.kernels import takes_fp8
class FlashImpl:
    can_return_lse_for_decode: bool = True
class Flash(AttentionBackend):
    @staticmethod
    def get_supported_kernel_block_sizes():
        return [MultipleOf(16)]
    @staticmethod
    def get_impl_cls():
        return FlashImpl
    @classmethod
    def supports_head_size(cls, head_size):
        return head_size % 64 == 0 and head_size <= 256
    @classmethod
    def supports_kv_cache_dtype(cls, kv_cache_dtype):
        if kv_cache_dtype.startswith("fp8"):
            return takes_fp8()
        return kv_cache_dtype in ["auto", "bfloat16"]
    @classmethod
    def supports_sink(cls):
        return True
    @classmethod
    def supports_compute_capability(cls, capability):
        return capability >= DeviceCapability(8, 0)
    @classmethod
    def supports_combination(cls, head_size, dtype, kv_cache_dtype, has_sink, device_capability, **rest):
        if has_sink and device_capability < DeviceCapability(9, 0):
            return "no sinks below 9.0"
        if kv_cache_dtype == "fp8" and device_capability.major == 9:
            return "no fp8 after all"
        return None
""",
    "vllm.kernels": """
def takes_fp8():
    return current_platform.is_device_capability_family(90)
""",
    "vllm.latent": """
from .v1.attention.backend import AttentionBackend
class Latent(AttentionBackend):
    @classmethod
    def is_mla(cls):
        return True
class Sparse(Latent):
    @classmethod
    def is_sparse(cls):
        return True
    @classmethod
    def supports_compute_capability(cls, capability):
        return capability.major == 12
    @classmethod
    def supports_combination(cls, head_size, dtype, kv_cache_dtype, has_sink, device_capability, **rest):
        model = get_current_vllm_config().model_config.hf_text_config
        topk = getattr(model, "index_topk", None)
        if topk is None:
            return "needs index_topk"
        if int(topk) != 2048:
            return f"needs index_topk 2048, got {topk}"
        if not the_driver_has_it():
            return "not in this driver"
        return None
""",
    "vllm.optional": """
from vllm.v1.attention.backend import AttentionBackend
class Optional(AttentionBackend):
    @classmethod
    def supports_compute_capability(cls, capability):
        return capability.major == 12
""",
    "vllm.elsewhere": """
from vllm.v1.attention.backend import AttentionBackend
class Elsewhere(AttentionBackend):
    pass
""",
    "vllm.cpu": """
from vllm.v1.attention.backend import AttentionBackend
class OnCpu(AttentionBackend):
    pass
""",
    "vllm.platforms.cuda": """
def _get_backend_priorities(use_mla, device_capability, num_heads=None):
    if use_mla:
        if device_capability.major == 10 and num_heads is not None and num_heads <= 16:
            return [AttentionBackendEnum.SPARSE, AttentionBackendEnum.LATENT]
        return [AttentionBackendEnum.LATENT, AttentionBackendEnum.SPARSE]
    return [AttentionBackendEnum.FLASH]
""",
    "vllm.platforms.cpu": """
class CpuPlatform:
    @classmethod
    def get_attn_backend_cls(cls, selected_backend, config):
        if config.use_mla:
            raise NotImplementedError("no MLA on CPU")
        return AttentionBackendEnum.ON_CPU.get_path()
""",
}


def read(**changed: str) -> AttentionBackends:
    texts = {**MODULES, **{f"vllm.{name}": text for name, text in changed.items()}}
    found = read_attention_backends(lambda name: ast.parse(texts[name]) if name in texts else None, DTYPES, "vllm")
    assert isinstance(found, Known)
    return found.value


def named(name: str, **changed: str) -> AttentionBackend:
    found = read(**changed).named(name)
    assert found is not None
    return found


def test_a_rule_is_asked_for_every_capability() -> None:
    """`>= 8.0` becomes the list of those that are."""
    assert named("FLASH").compute_capabilities == (
        *("8.0", "8.6", "8.9", "9.0", "10.0", "10.3", "11.0", "12.0", "12.1"),
    )


@pytest.mark.parametrize(("capability", "taken"), [("9.0", DTYPES), ("12.0", ("auto", "bfloat16")), ("7.5", ())])
def test_kv_cache_dtypes_depend_on_the_capability(capability: str, taken: tuple[str, ...]) -> None:
    """A helper in another module decides on FP8; on a capability that is not its own it takes nothing."""
    assert named("FLASH").kv_cache_dtypes(capability) == taken


def test_sizes_sinks_and_decode_context_are_read() -> None:
    """Head sizes by asking, block sizes by value, sinks by capability, log-sum-exp by the implementation."""
    flash = named("FLASH")

    assert flash.head_sizes == (64, 128, 192, 256)
    assert flash.block_sizes == (16,)
    assert flash.sinks == flash.compute_capabilities
    assert flash.decode_context_parallel
    assert flash.sliding_window
    assert named("LATENT").head_sizes == ()
    assert not named("LATENT").decode_context_parallel


def test_combinations_that_are_refused_are_listed() -> None:
    """With the dtypes and capabilities for which they are, and only with sinks where it is about sinks."""
    refusals = {each.reason: each for each in named("FLASH").refusals}

    assert refusals["no sinks below 9.0"].compute_capabilities == ("8.0", "8.6", "8.9")
    assert refusals["no sinks below 9.0"].sinks
    assert refusals["no fp8 after all"].kv_cache_dtypes == ("fp8",)
    assert not refusals["no fp8 after all"].sinks


def test_what_a_backend_wants_of_the_model_is_listed() -> None:
    """As requirements on config keys; what cannot be read is said."""
    sparse = named("SPARSE")

    assert sparse.requirements == (
        Requirement("index_topk", "there", (), "needs index_topk"),
        Requirement("index_topk", "in", (2048,), "needs index_topk 2048, got {index_topk}"),
    )
    assert sparse.unread == ("supports_combination: not in this driver",)
    assert sparse.is_mla
    assert sparse.is_sparse


def test_only_backends_of_this_platform_are_kept() -> None:
    """Those that are tried, those that may be named and say on which GPUs, and the CPU's."""
    assert [each.name for each in read().backends] == ["FLASH", "LATENT", "SPARSE", "OPTIONAL", "ON_CPU"]
    assert named("ON_CPU").compute_capabilities == ("cpu",)
    assert read().others == ("ELSEWHERE",)


def test_the_order_says_on_what_it_depends() -> None:
    """A condition that makes no difference is None; capabilities with one order share a row."""
    latent = [order for order in read().orders if order.is_mla]
    flash = next(order for order in read().orders if not order.is_mla)

    assert BackendOrder(True, ("10.0", "10.3"), None, True, None, ("SPARSE", "LATENT")) in latent
    assert BackendOrder(True, ("10.0", "10.3"), None, False, None, ("LATENT", "SPARSE")) in latent
    assert flash.backends == ("FLASH",)
    assert (flash.quantized_kv, flash.few_heads, flash.latent_512) == (None, None, None)
    assert BackendOrder(True, ("cpu",), None, None, None, ()) in latent


def test_a_rule_that_cannot_be_read_takes_nothing_and_is_named() -> None:
    """It is never assumed to hold."""
    text = MODULES["vllm.optional"].replace("capability.major == 12", "the_driver_says(capability)")
    optional = named("OPTIONAL", optional=text)

    assert optional.compute_capabilities == ()
    assert optional.unread == ("supports_compute_capability: the_driver_says(capability)",)


def test_a_version_without_a_registry_is_unknown() -> None:
    """0.11 chooses in code."""
    found = read_attention_backends(lambda name: None, DTYPES, "vllm")

    assert isinstance(found, Unknown)
