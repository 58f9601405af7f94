"""What config.json and hf_quant_config.json say of quantisation: the method, and how each module's weight is stored."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from holddown.base.evidence import Fact, Unknown, derived, from_file
from holddown.facts.hf_keys import Keys, NotUnderstoodError, language_part
from holddown.facts.json_object import json_object
from holddown.facts.name_lists import NameList
from holddown.facts.naming import place, role, tensor_name
from holddown.facts.stored import Layout, Scheme
from holddown.facts.weight_groups import Component

_CONFIG, _QUANT_CONFIG = "config.json", "hf_quant_config.json"
_NONE = NameList(())

# What a tool leaves alone unless a list names it: it is no Linear of the language model's layers, or engines refuse it.
_LEFT_ALONE = frozenset({Component.VISION, Component.ROUTER, Component.EMBEDDINGS, Component.NORMS, Component.OTHER})


@dataclass(frozen=True, slots=True)
class _Group:
    """Modules that `targets` names, or all Linears where `every_linear`, stored by `scheme`; None: as trained."""

    scheme: Scheme | None
    targets: NameList
    every_linear: bool = False
    components: frozenset[Component] = frozenset()


@dataclass(frozen=True, slots=True)
class Quantization:
    """method: vLLM's `--quantization` word, or `none`. kv_cache: `fp8` or `none`, as the checkpoint asks.

    not_understood: why `scheme` cannot answer; empty where it can. The first group that names a module has it.
    """

    method: Fact[str]
    kv_cache: Fact[str]
    not_understood: str = ""
    groups: tuple[_Group, ...] = ()
    ignored: NameList = _NONE
    left_alone: frozenset[Component] = _LEFT_ALONE

    def scheme(self, module: str) -> Scheme | None:
        """How the Linear of this full name (with its numbers) is stored; None: as it was trained."""
        pattern = tensor_name(module).module
        does, stands = role(pattern).component, place(pattern).component
        for group in self.groups:
            if module in group.targets or does in group.components:
                return group.scheme
        if module in self.ignored or does in self.left_alone or stands in self.left_alone:
            return None
        return next((group.scheme for group in self.groups if group.every_linear), None)

    @property
    def weight_block(self) -> tuple[int, ...]:
        """(out, in) features to one FP8 scale; empty where there is none."""
        return next((g.scheme.block for g in self.groups if g.scheme and g.scheme.block != (0, 0)), ())

    @property
    def group_size(self) -> int:
        """Input features to one scale, 0 where scales cover whole rows or blocks."""
        return next((g.scheme.group_size for g in self.groups if g.scheme and g.scheme.group_size), 0)


def read_quantization(config: Mapping[str, Any], quant_text: str | bytes | None = None) -> Quantization:
    """quant_text: hf_quant_config.json, which ModelOpt writes. A scheme without a rule here is told, not raised."""
    method, said = _method(config, quant_text)
    try:
        quant_file = _quant_file(quant_text)
    except ValueError:
        quant_file = Keys({})
    kv_cache = _kv_cache(said, quant_file)
    if isinstance(method, Unknown):
        return Quantization(method, kv_cache, method.why)
    if method.value == "none":
        return Quantization(method, kv_cache)
    try:
        return replace(_rules(method.value, said, config), method=method, kv_cache=kv_cache)
    except ValueError as error:
        return Quantization(method, kv_cache, str(error))


def _method(config: Mapping[str, Any], quant_text: str | bytes | None) -> tuple[Fact[str], Keys]:
    """The method's name, and the part that says the rest."""
    prefix, inner = language_part(config)
    for values, where in ((config, ""), (inner, prefix)):
        said = Keys(values).part("quantization_config")
        if said is None:
            continue
        source = f"{_CONFIG} {where}quantization_config"
        name, algorithm = said.text("quant_method"), said.text("quant_algo")
        if algorithm and name in ("", "modelopt"):
            return from_file(_modelopt_method(algorithm), f"{source}.quant_algo {algorithm}"), said
        if name:
            return from_file(name, f"{source}.quant_method"), said
        return Unknown(f"{source} names no quant_method"), said
    if quant_text is None:
        return from_file("none", f"{_CONFIG} has no quantization_config"), Keys({})
    try:
        said = _quant_file(quant_text)
    except ValueError as error:
        return Unknown(f"{_QUANT_CONFIG} cannot be read: {error}"), Keys({})
    algorithm = said.text("quant_algo")
    if not algorithm:
        return Unknown(f"{_QUANT_CONFIG} names no quant_algo"), said
    return from_file(_modelopt_method(algorithm), f"{_QUANT_CONFIG} quantization.quant_algo {algorithm}"), said


def _quant_file(text: str | bytes | None) -> Keys:
    if text is None:
        return Keys({})
    return Keys(json_object(text)).part("quantization") or Keys({})


def _modelopt_method(algorithm: str) -> str:
    """vLLM has a method for each family of ModelOpt's algorithms. Source: vLLM's modelopt.py."""
    upper = algorithm.upper()
    if upper == "MIXED_PRECISION":
        return "modelopt_mixed"
    if "MXFP8" in upper:
        return "modelopt_mxfp8"
    return "modelopt_fp4" if "FP4" in upper else "modelopt"


def _kv_cache(said: Keys, quant_file: Keys) -> Fact[str]:
    """`kv_cache_scheme` of compressed-tensors and newer ModelOpt, `kv_cache_quant_algo` of ModelOpt's own file."""
    scheme = said.values.get("kv_cache_scheme")
    where = f"{_CONFIG} quantization_config.kv_cache_scheme"
    if isinstance(scheme, str):
        return from_file(scheme.lower(), where)
    if isinstance(scheme, dict):
        bits, kind = scheme.get("num_bits"), scheme.get("type")
        return from_file("fp8" if (bits, kind) == (8, "float") else f"{kind}{bits}", where)
    for keys, name in ((said, "quantization_config"), (quant_file, _QUANT_CONFIG)):
        if keys.text("kv_cache_quant_algo"):
            return from_file(keys.text("kv_cache_quant_algo").lower(), f"{name} kv_cache_quant_algo")
    return derived("none", f"neither {_CONFIG} nor {_QUANT_CONFIG} asks for a quantised KV cache")


_UNSET: Fact[str] = Unknown("not read")


def _rules(method: str, said: Keys, config: Mapping[str, Any]) -> Quantization:
    """Raises: NotUnderstoodError."""
    if method.startswith("modelopt"):
        return _modelopt(said)
    if method == "compressed-tensors":
        return _compressed_tensors(said)
    if method in ("fp8", "deepseek_v4_fp8"):
        return _fp8(said, config)
    if method in ("mxfp4", "gpt_oss_mxfp4"):
        scheme = Scheme("mxfp4", Layout.GPT_OSS, 4, group_size=32)
        experts = _Group(scheme, _NONE, components=frozenset({Component.ROUTED_EXPERTS}))
        return Quantization(_UNSET, _UNSET, groups=(experts,))
    if method == "fbgemm_fp8":  # Llama 3.1 405B FP8
        return _everywhere(Scheme("fp8", Layout.FP8, 8, per_channel=True), said, frozenset({Component.HEAD}))
    if method == "mxfp8":  # MiniMax' own
        return _everywhere(Scheme("mxfp8", Layout.MODELOPT, 8, 32), said, frozenset({Component.HEAD}))
    if method in ("awq", "auto_awq", "gptq", "auto_gptq"):
        return _packed(method, said)
    if method in ("auto-round", "inc"):
        return _packed("awq" if "awq" in said.text("packing_format") else "gptq", said)
    if method == "bitsandbytes":
        return _bitsandbytes(said)
    raise NotUnderstoodError(f"holddown has no rule for how {method} stores weights")


def _names(*lists: Any) -> NameList:
    return NameList(name for names in lists if isinstance(names, tuple) for name in names if isinstance(name, str))


# --- ModelOpt


def _modelopt(said: Keys) -> Quantization:
    """It never sees the draft layers, which transformers' models leave out, and its recipes leave lm_head as it is."""
    ignored = _names(said.items("ignore"), said.items("exclude_modules"))
    algorithm = said.text("quant_algo").upper()
    left_alone = _LEFT_ALONE | {Component.HEAD, Component.MTP}
    if algorithm == "MIXED_PRECISION":
        return Quantization(_UNSET, _UNSET, groups=_quantized_layers(said), ignored=ignored, left_alone=left_alone)
    scheme = _modelopt_scheme(algorithm, said)
    return Quantization(_UNSET, _UNSET, groups=(_Group(scheme, _NONE, True),), ignored=ignored, left_alone=left_alone)


def _quantized_layers(said: Keys) -> tuple[_Group, ...]:
    """One group for each algorithm that the list names modules under."""
    layers = said.part("quantized_layers")
    if layers is None:
        raise NotUnderstoodError("quant_algo is MIXED_PRECISION and there are no quantized_layers")
    # MiniMax-M3 lists each of 22,000 experts' weights: rows that say the same are put together before they are read
    alike: dict[tuple[Any, Any], list[str]] = {}
    for name, row in layers.values.items():
        if isinstance(row, dict):
            alike.setdefault((str(row.get("quant_algo")), str(row.get("group_size"))), []).append(name)
    groups = []
    for names in alike.values():
        said_of_them = layers.part(names[0]) or Keys({})
        groups.append(_Group(_modelopt_scheme(said_of_them.text("quant_algo").upper(), said_of_them), NameList(names)))
    return tuple(groups)


def _modelopt_scheme(algorithm: str, said: Keys) -> Scheme:
    """Source: vLLM's modelopt.py and ModelOpt's QUANTIZATION_* names."""
    if algorithm in ("NVFP4", "NVFP4_AWQ", "W4A16_NVFP4"):
        weights_only = algorithm.startswith("W4A16") or _no_activations(said)
        size = said.size_or(16, "group_size")
        return Scheme("nvfp4", Layout.MODELOPT, 4, group_size=size, input_scale=not weights_only)
    if algorithm == "FP8":
        return Scheme("fp8", Layout.MODELOPT, 8, input_scale=True)
    if algorithm == "FP8_PB_WO":
        return Scheme("fp8-block", Layout.MODELOPT, 8, block=(128, 128))
    if algorithm == "FP8_PER_CHANNEL_PER_TOKEN":
        return Scheme("fp8", Layout.MODELOPT, 8, per_channel=True)
    if algorithm == "MXFP8":
        return Scheme("mxfp8", Layout.MODELOPT, 8, group_size=32)
    if algorithm == "W4A16_AWQ":
        return Scheme("int4", Layout.MODELOPT, 4, group_size=said.size_or(128, "group_size"))
    raise NotUnderstoodError(f"holddown has no rule for ModelOpt's {algorithm[:40]!r}")


def _no_activations(said: Keys) -> bool:
    groups = said.part("config_groups")
    if groups is None or not groups.values:
        return False
    parts = [groups.part(name) for name in groups.values]
    return all(part is not None and part.values.get("input_activations") is None for part in parts)


# --- compressed-tensors


def _compressed_tensors(said: Keys) -> Quantization:
    groups = said.part("config_groups")
    if groups is None:
        raise NotUnderstoodError("quantization_config has no config_groups")
    rows = []
    for name in groups.values:
        part = groups.part(name)
        if part is not None:
            targets = [str(target) for target in part.items("targets")]
            classes = any(target in ("Linear", "*") for target in targets)
            named = NameList(target for target in targets if target not in ("Linear", "*"))
            rows.append(_Group(_compressed_scheme(part, said), named, classes))
    ignored = _names(said.items("ignore"))
    # an ignored module stays as it is even where a target names it
    kept = _Group(None, ignored)
    return Quantization(_UNSET, _UNSET, groups=(kept, *rows), ignored=ignored)


def _compressed_scheme(group: Keys, said: Keys) -> Scheme | None:
    weights, inputs = group.part("weights"), group.part("input_activations")
    if weights is None:
        return None
    bits, kind = weights.size("num_bits"), weights.text("type")
    strategy, size = weights.text("strategy"), weights.size_or(0, "group_size")
    file_format = group.text("format") or said.text("format")
    static = inputs is not None and inputs.values.get("dynamic") is False
    layout = Layout.COMPRESSED_TENSORS
    if (bits, kind) == (4, "float"):
        if "mxfp4" in file_format or size == 32:
            return Scheme("mxfp4", layout, 4, group_size=size or 32)
        # `local`: the scale of each block comes at run time, the global one is stored
        scaled = inputs is not None and inputs.values.get("dynamic") is not True
        return Scheme("nvfp4", layout, 4, group_size=size or 16, input_scale=scaled)
    if (bits, kind) == (8, "float"):
        if size == 32:
            return Scheme("mxfp8", layout, 8, group_size=32)
        block = _block(weights.items("block_structure")) if strategy == "block" else (0, 0)
        name = "fp8-block" if block != (0, 0) else "fp8"
        return Scheme(name, layout, 8, size, block, strategy == "channel", input_scale=static)
    if kind == "int" and 2 <= bits <= 8:
        order = weights.values.get("actorder")
        grouped = size if strategy == "group" else 0
        return Scheme(
            f"int{bits}", layout, bits, grouped, per_channel=strategy == "channel",
            symmetric=weights.flag("symmetric", default=True), input_scale=static, act_order=order in (True, "group"),
            packed="pack" in file_format or (inputs is None and file_format != "int-quantized"),
        )  # fmt: skip
    raise NotUnderstoodError(f"holddown has no rule for compressed-tensors weights of {bits} bit {kind[:20]!r}")


def _block(sizes: tuple[Any, ...]) -> tuple[int, int]:
    match sizes:
        case (int(rows), int(columns)) if rows > 0 and columns > 0:
            return (rows, columns)
    raise NotUnderstoodError(f"{str(sizes)[:40]} is no block of (out, in) features")


# --- FP8 as transformers and DeepSeek write it


def _fp8(said: Keys, config: Mapping[str, Any]) -> Quantization:
    """Linears of all layers, the draft's too; never the head. Source: transformers' finegrained_fp8, DeepSeek V3."""
    _, inner = language_part(config)
    block = _block(said.items("weight_block_size")) if said.has("weight_block_size") else (0, 0)
    static = said.text("activation_scheme") == "static"
    if not Keys(inner).items("compress_ratios"):
        name = "fp8" if block == (0, 0) else "fp8-block"
        scheme = Scheme(name, Layout.FP8, 8, block=block, input_scale=static and block == (0, 0))
        return _everywhere(scheme, said, frozenset({Component.HEAD}))
    groups = [_Group(Scheme("fp8-block", Layout.DEEPSEEK_V4, 8, block=block), _NONE, True)]
    if Keys(inner).text("expert_dtype") == "fp4":
        experts = Scheme("mxfp4", Layout.DEEPSEEK_V4, 4, group_size=32)
        groups.insert(0, _Group(experts, _NONE, components=frozenset({Component.ROUTED_EXPERTS})))
    if said.part("quantized_layers") is not None:
        # NVIDIA's DeepSeek V4: the experts again in NVFP4, the rest as DeepSeek published it
        groups = [*_quantized_layers(said), *groups]
    return Quantization(_UNSET, _UNSET, groups=tuple(groups), left_alone=_LEFT_ALONE | {Component.HEAD})


def _everywhere(scheme: Scheme, said: Keys, more_left_alone: frozenset[Component]) -> Quantization:
    """Every Linear of the layers but those that the config's list names."""
    ignored = _names(
        said.items("modules_to_not_convert"),
        said.items("ignored_layers"),
        said.items("ignore"),
        said.items("llm_int8_skip_modules"),
    )
    left_alone = _LEFT_ALONE | more_left_alone
    return Quantization(_UNSET, _UNSET, groups=(_Group(scheme, _NONE, True),), ignored=ignored, left_alone=left_alone)


# --- integer weights and bitsandbytes


def _packed(method: str, said: Keys) -> Quantization:
    """Linears of the language model's layers; the head only where GPTQ says `lm_head: true`."""
    bits, size = said.size_or(4, "bits", "w_bit"), said.values.get("group_size", said.values.get("q_group_size", 128))
    if bits not in (2, 4, 8) or type(size) is not int:
        raise NotUnderstoodError(f"holddown has no rule for {method} with bits {bits}, group_size {str(size)[:20]}")
    layout = Layout.AWQ if "awq" in method else Layout.GPTQ
    scheme = Scheme(f"int{bits}", layout, bits, max(size, 0), act_order=said.flag("desc_act"))
    head = frozenset() if said.flag("lm_head") else frozenset({Component.HEAD})
    return _everywhere(scheme, said, frozenset({Component.MTP}) | head)


def _bitsandbytes(said: Keys) -> Quantization:
    four, eight = said.flag("load_in_4bit") or said.flag("_load_in_4bit"), said.flag("load_in_8bit")
    if not four and not eight:
        raise NotUnderstoodError("quantization_config of bitsandbytes has neither load_in_4bit nor load_in_8bit")
    nested = said.flag("bnb_4bit_use_double_quant")
    name = said.text("bnb_4bit_quant_type") or "fp4"
    scheme = Scheme(name, Layout.BITSANDBYTES, 4, group_size=64, nested=nested)
    if not four:
        scheme = Scheme("int8", Layout.BITSANDBYTES, 8, per_channel=True)
    return _everywhere(scheme, said, frozenset({Component.HEAD}))
