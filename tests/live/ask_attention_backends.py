"""Run by the engine's own Python: asks vLLM's selector what each attention backend says, for GPUs that are not here.

Prints one JSON line for each query of stdin (a JSON list): backend name -> reasons, those that are valid with none.
What a CUDA build would bring, and a build for the CPU does not, is there in name only: a selector asks for no more.
Source: vLLM 0.32.0 platforms/cuda.py get_valid_backends.
"""

import functools
import importlib.abc
import importlib.machinery
import json
import os
import sys
import types

os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
IN_NAME_ONLY = (
    "vllm._C",
    "vllm._C_stable_libtorch",
    "vllm._flashmla_C",
    "vllm._flashmla_extension_C",
    "vllm.vllm_flash_attn._vllm_fa2_C",
    "vllm.vllm_flash_attn._vllm_fa3_C",
    "vllm.third_party.flashmla",
    "flashinfer",
)


class Wrapper:
    """Stands for every class and function of the modules below; `run` is asked for its arguments."""

    def run(self, *, ckv_scale_arr=None):
        raise NotImplementedError


class NameOnly(types.ModuleType):
    __path__: list = []  # noqa: RUF012

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Wrapper


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        wanted = any(name == each or name.startswith(f"{each}.") for each in IN_NAME_ONLY)
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if wanted else None

    def create_module(self, spec):
        return NameOnly(spec.name)

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, Finder())

import torch  # noqa: E402
import vllm.platforms  # noqa: E402
import vllm.utils.flashinfer  # noqa: E402
from vllm.config import VllmConfig, set_current_vllm_config  # noqa: E402
from vllm.platforms import cuda  # noqa: E402
from vllm.platforms.interface import DeviceCapability  # noqa: E402
from vllm.v1.attention.selector import AttentionSelectorConfig  # noqa: E402
from vllm.vllm_flash_attn import flash_attn_interface  # noqa: E402

vllm.utils.flashinfer.has_flashinfer = lambda: True  # it also looks for a compiler
vllm.utils.flashinfer.has_nvidia_artifactory = lambda: True  # it asks the network
flash_attn_interface.FA4_AVAILABLE = True
empty = torch.empty
torch.empty = lambda *size, **how: empty(*size, **{**how, "device": "meta"})  # a backend allocates when imported
now = DeviceCapability(0, 0)


class Gpu(cuda.CudaPlatformBase):
    """One object for all queries: modules keep the platform that they were imported under."""

    @classmethod
    def get_device_capability(cls, device_id=0):
        return now

    @classmethod
    def num_compute_units(cls, device_id=0):
        return 148

    @classmethod
    def has_device_capability(cls, wanted, device_id=0):
        return now.to_int() >= (wanted if isinstance(wanted, int) else wanted[0] * 10 + wanted[1])


def forget():
    """vLLM keeps what it found of the one GPU that it expects."""
    for function in vars(vllm.utils.flashinfer).values():
        if isinstance(function, functools._lru_cache_wrapper):
            function.cache_clear()


def answers(query):
    config = AttentionSelectorConfig(
        head_size=query["head_size"],
        dtype=torch.bfloat16,
        kv_cache_dtype=query["dtype"],
        block_size=None,
        use_mla=query["mla"],
        use_sparse=query["sparse"],
        has_sink=query["sinks"],
        has_sliding_window=query["window"],
    )
    valid, invalid = vllm.platforms._current_platform.get_valid_backends(now, config, num_heads=query["heads"])
    order = {each.backend.name: [] for each in sorted(valid, key=lambda each: each.priority)}
    return {**order, **{backend.name: list(reasons[1]) for backend, reasons in invalid.items()}}


vllm.platforms._current_platform = vllm.utils.flashinfer.current_platform = Gpu()
with set_current_vllm_config(VllmConfig()):
    for query in json.load(sys.stdin):
        now = DeviceCapability(*map(int, query["capability"].split(".")))
        forget()
        sys.stdout.write(json.dumps(answers(query)) + "\n")
