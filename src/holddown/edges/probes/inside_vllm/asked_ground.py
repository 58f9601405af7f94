"""What the selectors stand on: a platform that has the compute capability which is asked about.

Source: vLLM 0.16.0 to 0.33.0 platforms/__init__.py (`_current_platform`), platforms/cuda.py CudaPlatformBase.
"""

import functools
import importlib.abc
import importlib.machinery
import os
import sys
import types

IN_NAME_ONLY = (
    "vllm._C",
    "vllm._C_stable_libtorch",
    "vllm._moe_C",
    "vllm._flashmla_C",
    "vllm._flashmla_extension_C",
    "vllm.vllm_flash_attn._vllm_fa2_C",
    "vllm.vllm_flash_attn._vllm_fa3_C",
    "vllm.third_party.flashmla",
    "flashinfer",
)
"""What a CUDA build brings and one for the CPU does not. A selector asks no more of it than whether it is there."""
_REMEMBERING = ("vllm.utils", "vllm.model_executor.layers", "vllm.v1.attention")
"""Where functions keep what they found of the one GPU that they expect."""

_CUTLASS = (
    ("cutlass_scaled_mm_supports_fp8", 89, 1000),
    ("cutlass_scaled_mm_supports_block_fp8", 90, 1000),
    ("cutlass_scaled_mm_supports_fp4", 100, 130),
    ("cutlass_group_gemm_supported", 90, 110),
)
"""What the compiled extension says of a compute capability. Source: vLLM 0.32.0 csrc/.../scaled_mm_entry.cu."""


class Anything:
    """Stands for every class and function of the modules above; `run` is asked for its arguments."""

    def run(self, *, ckv_scale_arr=None):
        raise NotImplementedError


class NameOnly(types.ModuleType):
    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Asked last: what is there is taken as it is."""

    def find_spec(self, name, path=None, target=None):
        wanted = any(name == each or name.startswith(f"{each}.") for each in IN_NAME_ONLY)
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if wanted else None

    def create_module(self, spec):
        return NameOnly(spec.name)

    def exec_module(self, module):
        pass


class Model:
    """In place of a ModelConfig: what is known of the model. Whether it `is_` something else, it is not."""

    def __init__(self, hf, **known):
        self.hf_config = self.hf_text_config = types.SimpleNamespace(**hf)
        vars(self).update(known)

    def __getattr__(self, name):
        if name.startswith(("is_", "has_", "use_")):
            return False
        raise AttributeError(f"holddown's model has no {name}")


class Ground:
    """One platform object for all questions: modules keep the one that they were imported under."""

    def __init__(self, first, *, pretend):
        """first: the compute capability that modules are imported under; some keep what it can in constants."""
        if pretend:
            os.environ["VLLM_TARGET_DEVICE"] = "cpu"
            sys.meta_path.append(Finder())
        import vllm.platforms
        from vllm.platforms import cuda
        from vllm.platforms.interface import DeviceCapability

        self.cuda, self._capability = cuda, DeviceCapability
        self.now, self._on = DeviceCapability(*map(int, first.split("."))), first
        self.platform = self._gpu(cuda.CudaPlatformBase)()
        vllm.platforms._current_platform = self.platform
        _allocate_nothing()
        if pretend:
            _pretend()
        from vllm.config import VllmConfig

        self.config = VllmConfig()

    def _gpu(self, base):
        ground = self

        class Gpu(base):
            @classmethod
            def get_device_capability(cls, device_id=0):
                return ground.now

            @classmethod
            def has_device_capability(cls, capability, device_id=0):
                wanted = capability if isinstance(capability, int) else capability[0] * 10 + capability[1]
                return ground.now.to_int() >= wanted

            @classmethod
            def get_device_name(cls, device_id=0):
                return f"compute capability {ground.now.as_version_str()}"

            @classmethod
            def get_device_total_memory(cls, device_id=0):
                return 80 * 1024**3

            @classmethod
            def num_compute_units(cls, device_id=0):
                return 148

        return Gpu

    def stand_on(self, compute_capability):
        """From here on the GPUs have this compute capability, `12.0`."""
        if compute_capability == self._on:
            return self.now
        self._on = compute_capability
        self.now = self._capability(*map(int, compute_capability.split(".")))
        return self.now

    def settle(self):
        """After imports: every module has our platform, and none what it found of another."""
        for name, module in list(sys.modules.items()):
            if module is None or name.partition(".")[0] != "vllm":
                continue
            if vars(module).get("current_platform") not in (None, self.platform):
                module.current_platform = self.platform
            if name.startswith(_REMEMBERING):
                for function in list(vars(module).values()):
                    if isinstance(function, functools._lru_cache_wrapper):
                        function.cache_clear()


def _allocate_nothing():
    """FlashInfer's backends make their workspace on the GPU when they are imported, and we have none."""
    import torch

    def elsewhere(make):
        def made(*size, device=None, **how):
            return make(*size, device="meta" if "cuda" in str(device) else device, **how)

        return made

    torch.empty, torch.zeros = elsewhere(torch.empty), elsewhere(torch.zeros)


def _pretend():
    """As on a machine with the compilers, the network and the extensions that a CUDA build finds."""
    import vllm.utils.flashinfer

    vllm.utils.flashinfer.has_flashinfer = lambda: True
    vllm.utils.flashinfer.has_nvidia_artifactory = lambda: True
    from vllm import _custom_ops

    for name, least, below in _CUTLASS:
        setattr(_custom_ops, name, lambda capability, least=least, below=below: least <= capability < below)
    try:
        from vllm.vllm_flash_attn import flash_attn_interface

        flash_attn_interface.FA4_AVAILABLE = True
    except ImportError:
        pass
