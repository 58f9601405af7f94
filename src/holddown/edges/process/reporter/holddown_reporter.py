"""Loaded by vLLM itself, in each of its processes: writes what it resolved, as JSON into HOLDDOWN_RUN_DIR.

It changes nothing and imports nothing of vLLM: three functions are called through it, and give what they give without
it, whatever happens here. Without the variable it does nothing; VLLM_PLUGINS without its name keeps it out.
Source: vLLM 0.16.0 to 0.33.0 plugins/__init__.py load_general_plugins, v1/engine/core.py _initialize_kv_caches,
v1/attention/selector.py _cached_get_attn_backend, model_executor/layers/fused_moe/oracle/*.py select_*_moe_backend.
"""

import functools
import importlib.abc
import importlib.util
import json
import os
import re
import sys
from pathlib import Path

_VARIABLE = "HOLDDOWN_RUN_DIR"
_ORACLES = "vllm.model_executor.layers.fused_moe.oracle."
_CONFIG = (
    "model_config.max_model_len", "model_config.dtype", "model_config.quantization", "model_config.enforce_eager",
    "cache_config.cache_dtype", "cache_config.block_size", "cache_config.gpu_memory_utilization",
    "cache_config.enable_prefix_caching", "cache_config.kv_cache_size_tokens", "cache_config.kv_cache_max_concurrency",
    "parallel_config.tensor_parallel_size", "parallel_config.pipeline_parallel_size",
    "parallel_config.data_parallel_size", "parallel_config.decode_context_parallel_size",
    "parallel_config.enable_expert_parallel", "scheduler_config.max_num_seqs",
    "scheduler_config.max_num_batched_tokens", "scheduler_config.enable_chunked_prefill",
    "compilation_config.mode", "compilation_config.cudagraph_mode", "speculative_config.method",
    "speculative_config.num_speculative_tokens", "kernel_config.moe_backend",
)  # fmt: skip
_report = {"schema": 1, "attention": [], "experts": [], "kv_cache": None, "config": {}}


def register():
    """The entry point. May be called several times in one process."""
    try:
        if os.environ.get(_VARIABLE) and not any(isinstance(each, _Watch) for each in sys.meta_path):
            _begin()
    except Exception:
        pass  # the engine must not suffer for a report


def _begin():
    watch = _Watch()
    for name in [each for each in list(sys.modules) if watch.wants(each)]:
        watch.called_through(sys.modules[name])
    sys.meta_path.insert(0, watch)


class _Watch(importlib.abc.MetaPathFinder):
    """Sees modules right after they were imported, in the order in which vLLM imports them."""

    def __init__(self):
        self._finding = False

    def wants(self, name):
        return name in _SEEN or (name.startswith(_ORACLES) and name.count(".") == _ORACLES.count("."))

    def find_spec(self, name, path=None, target=None):
        if self._finding or not self.wants(name):
            return None
        self._finding = True
        try:
            spec = importlib.util.find_spec(name)
        except Exception:
            return None
        finally:
            self._finding = False
        if spec is not None and spec.loader is not None:
            self._after(spec.loader)
        return spec

    def _after(self, loader):
        execute = loader.exec_module

        def exec_module(module):
            execute(module)
            try:
                self.called_through(module)
            except Exception:
                pass  # as above

        loader.exec_module = exec_module

    def called_through(self, module):
        if module.__name__ in _SEEN:
            _SEEN[module.__name__](module)
            return
        for name in [each for each in vars(module) if re.fullmatch(r"select_\w*moe_backend", each)]:
            setattr(module, name, _heard(getattr(module, name), _experts))


def _heard(function, hear):
    """The function, whose arguments and result are heard too. What it carries (`cache_clear`) it carries still."""
    if hasattr(function, "holddown"):
        return function

    @functools.wraps(function)
    def through(*arguments, **named):
        result = function(*arguments, **named)
        try:
            hear(arguments, result)
        except Exception:
            pass  # as above
        return result

    for name in ("cache_clear", "cache_info", "cache_parameters"):
        if hasattr(function, name):
            setattr(through, name, getattr(function, name))
    through.holddown = True
    return through


def _attention(_, backend):
    name = backend.get_name() if hasattr(backend, "get_name") else backend.__name__
    _add("attention", str(name))


def _experts(_, chosen):
    backend = chosen[0] if isinstance(chosen, tuple) else chosen
    _add("experts", str(getattr(backend, "value", backend)))


def _add(kind, name):
    if name not in _report[kind]:
        _report[kind].append(name)
        _write()


def _kv_caches(arguments, result):
    config = arguments[1]
    kv = result[-1] if isinstance(result, tuple) else result
    _report["config"] = {name: value for name in _CONFIG if (value := _plain(config, name)) is not None}
    _report["kv_cache"] = {
        "blocks": int(kv.num_blocks),
        "bytes": _bytes(kv.kv_cache_tensors),
        "groups": [_group(each) for each in kv.kv_cache_groups],
    }
    _write()


def _bytes(tensors):
    """Of this rank's cache; None where tensors are places in an allocation that they share (0.32)."""
    return None if any(hasattr(each, "offset") for each in tensors) else sum(int(each.size) for each in tensors)


def _group(group):
    spec = group.kv_cache_spec
    return {
        "kind": type(spec).__name__,
        "layers": len(group.layer_names),
        "block_size": _plain(spec, "block_size"),
        "page_bytes": _plain(spec, "page_size_bytes"),
        "dtype": _plain(spec, "dtype"),
    }


def _plain(value, path):
    """What stands at the end of a path, as JSON can hold it; None where it leads nowhere."""
    for name in path.split("."):
        value = getattr(value, name, None)
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _write():
    folder = os.environ.get(_VARIABLE)
    if not folder:
        return
    target = Path(folder) / f"report-{os.getpid()}.json"
    draft = target.with_suffix(".new")
    draft.write_text(json.dumps(_report), encoding="utf-8")
    draft.replace(target)


def _selector(module):
    module._cached_get_attn_backend = _heard(module._cached_get_attn_backend, _attention)


def _engine(module):
    module.EngineCore._initialize_kv_caches = _heard(module.EngineCore._initialize_kv_caches, _kv_caches)


_SEEN = {"vllm.v1.attention.selector": _selector, "vllm.v1.engine.core": _engine}
