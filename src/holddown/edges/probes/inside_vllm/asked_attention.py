"""Which attention backends are valid, in the order in which vLLM tries them.

Source: vLLM 0.16.0 to 0.33.0 platforms/cuda.py get_valid_backends: 0.16 takes no `num_heads` and gives lists of
reasons, later ones pairs of priority and reasons; valid ones are pairs up to 0.19, named tuples after.
"""

import functools
import inspect

import torch
from asked_ground import Model
from vllm.config import set_current_vllm_config
from vllm.v1.attention.backend import AttentionBackend
from vllm.v1.attention.backends.registry import AttentionBackendEnum
from vllm.v1.attention.selector import AttentionSelectorConfig

_UNSURE = "holddown cannot tell without a GPU: "


def answer(question, ground):
    """backends: [name, path of its file in the package, reasons], first to last; reasons are null where the backend's
    own code failed for want of a GPU."""
    capability = ground.stand_on(question["compute_capability"])
    wanted = {
        "head_size": question["head_size"],
        "dtype": torch.bfloat16,
        "kv_cache_dtype": question["kv_cache_dtype"],
        "block_size": None,
        "use_mla": question["is_mla"],
        "use_sparse": question["is_sparse"],
        "has_sink": question["sinks"],
        "has_sliding_window": question["sliding_window"],
        "use_dcp": question["decode_context_parallel"],
    }
    fields = AttentionSelectorConfig._fields
    config = AttentionSelectorConfig(**{name: value for name, value in wanted.items() if name in fields})
    ask = ground.platform.get_valid_backends
    takes = inspect.signature(ask).parameters
    heads = {"num_heads": question["heads_per_gpu"]} if "num_heads" in takes else {}
    _describe(ground.config, question)
    ground.settle()
    with set_current_vllm_config(ground.config):
        valid, invalid = ask(capability, config, **heads)
        order = _order(ground.cuda, capability, question["is_mla"])
    found = [(_priority(each), _backend(each), []) for each in valid]
    for backend, said in invalid.items():
        # 0.16 gives no priority of those that it refuses
        priority, reasons = said if isinstance(said, tuple) else (order.index(backend), said)
        found.append((priority, backend, reasons))
    found.sort(key=lambda each: each[0])
    return {"backends": [[each.name, _path(each), _sure(reasons)] for _, each, reasons in found]}


def _priority(valid):
    return valid.priority if hasattr(valid, "priority") else valid[1]


def _backend(valid):
    return valid.backend if hasattr(valid, "backend") else valid[0]


def _order(cuda, capability, is_mla):
    """All that 0.16 tries, first to last; later releases say the priority of each themselves."""
    priorities = cuda._get_backend_priorities
    alone = list(inspect.signature(priorities).parameters) == ["use_mla", "device_capability"]
    return priorities(is_mla, capability) if alone else []


def _path(backend):
    return backend.value.rpartition(".")[0].removeprefix("vllm.").replace(".", "/") + ".py"


def _sure(reasons):
    return None if any(each.startswith(_UNSURE) for each in reasons) else list(reasons)


def _describe(config, question):
    """The model and the split, as far as backends ask about them."""
    fields = dict(question["fields"])
    parallel = config.parallel_config
    for name in ("decode_context_parallel_size", "tensor_parallel_size"):
        setattr(parallel, name, fields.pop(name, 1))
    heads = question["heads_per_gpu"]
    config.model_config = Model(
        fields,
        dtype=torch.bfloat16,
        use_mla=question["is_mla"],
        rswa_window=None,
        get_num_attention_heads=lambda parallel_config: heads,
        get_head_size=lambda: question["head_size"],
    )


def _careful(validate):
    """A backend whose code needs a GPU to answer says that, and does not end the question for the others."""

    @functools.wraps(validate)
    def ask(cls, *arguments, **named):
        try:
            return validate(cls, *arguments, **named)
        except (ImportError, OSError):
            raise
        except Exception as error:
            return [f"{_UNSURE}{type(error).__name__}: {error}"]

    return classmethod(ask)


def _imported(get_class):
    """As `_careful`, for modules that need a GPU to be imported."""

    @functools.wraps(get_class)
    def get(backend):
        try:
            return get_class(backend)
        except (ImportError, OSError):
            raise
        except Exception as error:
            why = f"{_UNSURE}{type(error).__name__}: {error}"
            return type(backend.name, (), {"validate_configuration": staticmethod(lambda **_: [why])})

    return get


AttentionBackend.validate_configuration = _careful(AttentionBackend.validate_configuration.__func__)
AttentionBackendEnum.get_class = _imported(AttentionBackendEnum.get_class)
