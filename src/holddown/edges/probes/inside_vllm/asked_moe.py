"""Which kernel vLLM would run a model's routed experts with, and why not those that it tries before.

Source: vLLM 0.16.0 to 0.33.0 model_executor/layers/fused_moe/oracle/*.py: `select_*_moe_backend` tries backends in an
order, says why not at debug level, and raises where none is left.
"""

import dataclasses
import importlib
import inspect
import re

import torch
from asked_ground import Model
from vllm.config import set_current_vllm_config
from vllm.model_executor.layers.fused_moe import config as moe_config
from vllm.model_executor.layers.quantization.utils import quant_utils

_ORACLES = "vllm.model_executor.layers.fused_moe.oracle."
_REFUSED = re.compile(r"backend '?([A-Za-z0-9_]+)'? does not support the deployment configuration(?: since (.*?))?\.?$")

_FP8 = {
    "modelopt": [("kFp8StaticTensorSym", "kFp8StaticTensorSym")],
    "fp8": [("kFp8StaticTensorSym", "kFp8DynamicTensorSym"), ("kFp8StaticTensorSym", "kFp8StaticTensorSym")],
    "compressed-tensors": [
        ("kFp8StaticChannelSym", "kFp8DynamicTokenSym"),
        ("kFp8StaticTensorSym", "kFp8StaticTensorSym"),
    ],
    "fbgemm_fp8": [("kFp8StaticChannelSym", "kFp8DynamicTokenSym")],
}
"""Quantisation method -> (weights, activations) that its checkpoints may have.

Source: each method's file in model_executor/layers/quantization, where it calls the oracle.
"""


class Heard:
    """In place of an oracle's logger: keeps why each backend was refused."""

    def __init__(self):
        self.refused = []

    def __getattr__(self, name):
        return self._hear

    def _hear(self, message, *arguments, **_):
        text = str(message) % arguments if arguments else str(message)
        found = _REFUSED.search(text)
        said = [found[1], (found[2] or "no reason given")[:300]] if found else None
        if said and said not in self.refused:
            self.refused.append(said)


def answer(question, ground):
    """chosen: the backend's name, empty where none takes it; several where that
    depends on how the checkpoint's scales are made. refused: [name, reason] of those tried before. what: the
    engine's own words where none takes it. oracle: the file that decides."""
    ground.stand_on(question["compute_capability"])
    oracle, module, variants = _oracle(question)
    known = {"quantization_config": None, "dtype": torch.bfloat16}
    ground.config.model_config = Model({"model_type": question["model_type"]}, **known)
    ground.settle()
    with set_current_vllm_config(ground.config):
        said = [_select(module, oracle, question, keys) for keys in variants]
    names = dict.fromkeys(each["chosen"] for each in said)
    if len(names) > 1 and "" in names:
        raise LookupError(f"it depends on how the checkpoint's scales are made: {' or none'.join(names)}")
    return {**said[0], "chosen": " or ".join(names)}


def _oracle(question):
    """The oracle for a scheme, its module, and the (weights, activations) that it is asked about."""
    name, method = question["format"], question["method"]
    if name in ("bf16", "f16"):
        oracle, variants = "unquantized", [(None, None)]
    elif name == "fp8-block":
        oracle, variants = "fp8", [("kFp8Static128BlockSym", "kFp8Dynamic128Sym")]
    elif name == "fp8" and method in _FP8:
        oracle, variants = "fp8", _FP8[method]
    elif name == "nvfp4":
        oracle, variants = "nvfp4", [("kNvfp4Static", "kNvfp4Dynamic")]
    elif name in ("mxfp4", "mxfp8"):
        oracle, variants = name, [(None, None)]
    elif name == "int4" and method == "compressed-tensors":
        oracle, variants = "int_wna16", [("kInt4Static32" if question["group_size"] == 32 else "kInt4Static", None)]
    else:
        raise LookupError(f"holddown does not know which of vLLM's oracles decides for {name} experts of {method}")
    try:
        module = importlib.import_module(_ORACLES + oracle)
    except ModuleNotFoundError as error:
        raise LookupError(f"this build has no oracle for {name} experts: {error}") from error
    if (name, method) == ("mxfp4", "deepseek_v4_fp8"):
        return "select_deepseek_v4_mxfp4_moe_backend", module, variants
    wanted = [each for each in vars(module) if re.fullmatch(r"select_\w+_moe_backend", each) and "deepseek" not in each]
    return wanted[0], module, variants


def _select(module, oracle, question, keys):
    weights, activations = (getattr(quant_utils, key) if key else None for key in keys)
    config = _config(question)
    known = {
        "config": config,
        "moe_config": config,
        "weight_key": weights,
        "activation_key": activations,
        "allow_vllm_cutlass": question["method"] == "compressed-tensors",
        "use_ep": config.moe_parallel_config.use_ep,
        "use_dp": config.moe_parallel_config.dp_size > 1,
        "quant_config": _arguments(question),
        "may_have_zp": False,
        "may_have_bias": False,
        "allow_tile_padding": True,
    }
    select = getattr(module, oracle)
    heard, logger = Heard(), module.logger
    module.logger = heard
    path = module.__name__.removeprefix("vllm.").replace(".", "/") + ".py"
    try:
        found = select(**{name: known[name] for name in inspect.signature(select).parameters if name in known})
    except (NotImplementedError, ValueError) as error:
        return {"chosen": "", "refused": heard.refused, "what": str(error)[:1000], "oracle": path}
    finally:
        module.logger = logger
    backend = found[0] if isinstance(found, tuple) else found
    chosen = str(backend.value)
    # a backend has several classes, and one of them may refuse what the next takes
    refused = [each for each in heard.refused if each[0] != chosen]
    return {"chosen": chosen, "refused": refused, "what": "", "oracle": path}


def _config(question):
    """As vLLM would make it for one rank."""
    ranks = question["tensor_parallel_size"] * question["data_parallel_size"]
    split = question["expert_parallel"]
    parallel = _made(
        moe_config.FusedMoEParallelConfig,
        tp_size=1 if split else ranks,
        pcp_size=1,
        dp_size=question["data_parallel_size"],
        ep_size=ranks if split else 1,
        tp_rank=0,
        pcp_rank=0,
        dp_rank=0,
        ep_rank=0,
        sp_size=1,
        use_ep=split,
        all2all_backend="allgather_reducescatter",
        is_sequence_parallel=False,
        enable_eplb=False,
    )
    routings = moe_config.RoutingMethodType
    width = question["intermediate_size"]
    return _made(
        moe_config.FusedMoEConfig,
        num_experts=question["experts"],
        num_logical_experts=question["experts"],
        num_local_experts=question["experts"] // (ranks if split else 1),
        experts_per_token=question["experts_per_token"],
        hidden_dim=question["hidden_size"],
        intermediate_size=width,
        intermediate_size_per_partition=width if split else width // ranks,
        activation=_activation(question["activation"]),
        device="cuda",
        routing_method=getattr(routings, question["routing"], routings.Unspecified),
        moe_parallel_config=parallel,
        in_dtype=torch.bfloat16,
        moe_backend=question["backend"],
    )


def _made(kind, **values):
    """The dataclass with those of the values that this release has fields for."""
    names = {field.name for field in dataclasses.fields(kind) if field.init}
    return kind(**{name: value for name, value in values.items() if name in names})


def _activation(name):
    """A word up to 0.16, a member of an enum after."""
    try:
        from vllm.model_executor.layers.fused_moe.activation import MoEActivation
    except ImportError:
        return name
    return MoEActivation(name)


def _arguments(question):
    """How compressed-tensors describes such weights; None where its package is not there."""
    if question["method"] != "compressed-tensors" or question["format"] != "int4":
        return None
    from compressed_tensors.quantization import QuantizationArgs

    size = question["group_size"]
    strategy = {"strategy": "group", "group_size": size} if size else {"strategy": "channel"}
    return QuantizationArgs(num_bits=4, type="int", symmetric=True, **strategy)
