"""Attention and experts of a GGUF, from its metadata, and from which tensors each layer has.

Source: the hyper-parameters that llama.cpp reads (`llama_model::load_hparams`) and how it sizes caches and states
(`llama_hparams::n_embd_r`, `n_embd_s`, `is_swa`).
"""

from collections.abc import Iterable

from holddown.base.evidence import Fact, Unknown, derived
from holddown.facts.attention import Attention, FullAttention, LinearAttention, Mla, SlidingWindow, SparseMla
from holddown.facts.gguf_metadata import Metadata
from holddown.facts.layers import merge_attention
from holddown.facts.model import Moe
from holddown.facts.recurrent import GATED_DELTA_NET, KIMI_DELTA, MAMBA2

# Every n-th layer sees everything, the others a window, where `sliding_window_pattern` does not say.
# Source: `set_swa_pattern` in llama.cpp for these architectures.
_WINDOWS = {"gemma2": 2, "gemma3": 6, "gpt-oss": 2, "cohere2": 4, "exaone4": 4, "llama4": 4, "olmo2": 4}
# llama.cpp reads no window for these, whatever the metadata has.
_WINDOWLESS = frozenset({"llama", "qwen2", "qwen2moe", "qwen3", "qwen3moe", "mistral3", "phi3", "starcoder2"})
_DELTA_NETS = frozenset({"qwen3next", "qwen35", "qwen35moe"})
# Keys of layers that this module has no rule for.
_OTHER_KINDS = ("wkv.head_size", "shortconv.l_cache", "attention.shared_kv_layers", "attention.compress_ratios")
_MOST_LAYERS = 10_000


def gguf_attention(metadata: Metadata, tensor_names: Iterable[str]) -> Fact[tuple[Attention, ...]]:
    """Each kind with how many layers have it, draft layers left out."""
    layers = metadata.layers()
    if metadata.header is None:
        return Unknown("the header that holds the metadata could not be read")
    if not 0 < layers <= _MOST_LAYERS:
        return Unknown(f"{metadata.architecture}.block_count gives no number of layers")
    strange = next((key for key in _OTHER_KINDS if _has(metadata, key)), "")
    if strange:
        return Unknown(f"{metadata.architecture}.{strange}: holddown has no rule for such layers")
    recurrent = {layer_number(name) for name in tensor_names if _role(name).startswith("ssm_")}
    kinds: list[Attention] = []
    for number in range(layers):
        kind = _recurrent(metadata) if number in recurrent else _layer(metadata, number, layers)
        if isinstance(kind, str):
            return Unknown(kind)
        if kind is not None:
            kinds.append(kind)
    return derived(merge_attention(kinds), f"the metadata of {metadata.architecture}")


def layer_number(tensor_name: str) -> int:
    """Of `blk.3.ffn_up.weight` 3; -1 for a tensor of no layer."""
    number = tensor_name.removeprefix("blk.").partition(".")[0] if tensor_name.startswith("blk.") else ""
    return int(number) if number.isdecimal() and len(number) < 9 else -1


def _role(tensor_name: str) -> str:
    """Of `blk.3.ffn_up.weight` `ffn_up`; empty for a tensor of no layer."""
    steps = tensor_name.split(".")
    return steps[2] if len(steps) > 2 and steps[0] == "blk" else ""


def _has(metadata: Metadata, key: str) -> bool:
    name = f"{metadata.architecture}.{key}"
    header = metadata.header
    return header is not None and (bool(header.value(name)) or header.array(name) is not None)


def _layer(metadata: Metadata, number: int, layers: int) -> Attention | str | None:
    """The layer's attention; None where it has none (Nemotron-H's feed forward layers); why it is not known."""
    heads = metadata.by_layer("attention.head_count", layers)
    if heads is None:
        return f"no {metadata.architecture}.attention.head_count in the metadata"
    kv_heads = metadata.by_layer("attention.head_count_kv", layers) or heads
    if not heads[number] or not kv_heads[number]:
        return None
    if metadata.size("attention.kv_lora_rank"):
        return _latent(metadata, heads[number])
    dim = metadata.size("attention.key_length") or metadata.size("embedding_length") // heads[number]
    value = metadata.size("attention.value_length") or dim
    window = metadata.size("attention.sliding_window", "attention.chunk_size")
    if not window or metadata.architecture in _WINDOWLESS:
        return FullAttention(1, heads[number], kv_heads[number], dim, value)
    windowed = _windowed(metadata, number, layers)
    if windowed is None:
        return f"{metadata.architecture}.attention.sliding_window does not say which layers have it"
    if not windowed:
        return FullAttention(1, heads[number], kv_heads[number], dim, value)
    dim = metadata.size("attention.key_length_swa") or dim
    value = metadata.size("attention.value_length_swa") or value
    return SlidingWindow(1, heads[number], kv_heads[number], dim, value, window)


def _windowed(metadata: Metadata, number: int, layers: int) -> bool | None:
    header, key = metadata.header, f"{metadata.architecture}.attention.sliding_window_pattern"
    array = header.array(key) if header else None
    if array is not None:
        return bool(array.values[number]) if len(array.values) >= layers else None
    every = metadata.size("attention.sliding_window_pattern") or _WINDOWS.get(metadata.architecture, 0)
    return (number + 1) % every != 0 if every else None


def _latent(metadata: Metadata, heads: int) -> Mla | SparseMla | str:
    """`key_length` is of the latent cache in files that have `key_length_mla`, and of a head in older ones."""
    rank, rope = metadata.size("attention.kv_lora_rank"), metadata.size("rope.dimension_count")
    key = metadata.size("attention.key_length_mla", "attention.key_length")
    value = metadata.size("attention.value_length_mla", "attention.value_length")
    if not rope or key <= rope or not value:
        return f"the metadata of {metadata.architecture} does not give the head sizes of its latent attention"
    top = metadata.size("attention.indexer.top_k")
    if not top:
        return Mla(1, heads, rank, key - rope, rope, value)
    index = metadata.size("attention.indexer.head_count"), metadata.size("attention.indexer.key_length"), top
    return SparseMla(1, heads, rank, key - rope, rope, value, 1, *index)


def _recurrent(metadata: Metadata) -> LinearAttention | str:
    """llama.cpp keeps states in float32: (state_size, inner_size), and the last inputs of the convolution."""
    kernel = metadata.size("ssm.conv_kernel")
    kda, heads = metadata.size("kda.head_dim"), metadata.size("attention.head_count")
    if kda and kernel and heads:
        return LinearAttention(1, KIMI_DELTA, heads, 4 * heads * kda * (kda + 3 * (kernel - 1)))
    inner, state = metadata.size("ssm.inner_size"), metadata.size("ssm.state_size")
    heads, groups = metadata.size("ssm.time_step_rank"), metadata.size("ssm.group_count")
    if not (kernel and inner and state and heads):
        return f"the metadata of {metadata.architecture} does not give the sizes of its recurrent layers"
    name = GATED_DELTA_NET if metadata.architecture in _DELTA_NETS else MAMBA2
    return LinearAttention(1, name, heads, 4 * (inner * state + (kernel - 1) * (inner + 2 * groups * state)))


def gguf_moe(metadata: Metadata, tensor_names: Iterable[str]) -> Moe | None:
    """None for a dense model."""
    experts, used = metadata.size("expert_count"), metadata.size("expert_used_count")
    layers = {layer_number(name) for name in tensor_names if _role(name).endswith("_exps")}
    own = {number for number in layers if 0 <= number < metadata.layers()}
    if not experts or not used or not own:
        return None
    width = metadata.size("expert_feed_forward_length", "feed_forward_length")
    shared = metadata.size("expert_shared_feed_forward_length") or width * metadata.size("expert_shared_count")
    return Moe(len(own), experts, used, width, shared)
