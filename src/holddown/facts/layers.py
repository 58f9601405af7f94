"""What each layer of a model is, from config.json: its attention, or what stands in its place, and its feed forward."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from holddown.base.evidence import Fact, Unknown, derived
from holddown.facts.attention import (
    Attention,
    BlockSparse,
    CompressedAttention,
    FullAttention,
    Mla,
    SlidingWindow,
    SparseMla,
)
from holddown.facts.experts import FeedForward, feed_forward_rule, read_experts
from holddown.facts.hf_keys import (
    HEAD_DIM,
    HEADS,
    HIDDEN_SIZE,
    KV_HEADS,
    LAYERS,
    Keys,
    NotUnderstoodError,
    language_part,
)
from holddown.facts.model import Moe
from holddown.facts.recurrent import delta_net, kimi_delta, mamba2

# Keys of layers that this module has no rule for: better no answer than plain attention where there is none.
_OTHER_KINDS = (
    "attn_layer_period",  # Jamba
    "layer_group_size",  # Bailing linear
    "conv_L_cache",  # LFM2
    "mamba_d_state",  # Bamba, Falcon-H1, Granite 4
    "ssm_cfg",
    "state_size",
    "rescale_every",  # RWKV
    "num_kv_shared_layers",  # Gemma 3n: the last layers read the cache of earlier ones
    "cross_attention_layers",
)


@dataclass(frozen=True, slots=True)
class Layer:
    """attention: of this one layer, None where it has none. dense_width: of its plain feed forward, 0 for none.

    moe: its routed and shared experts. Gemma 4 has a plain feed forward and experts in one layer.
    """

    attention: Attention | None
    dense_width: int = 0
    moe: Moe | None = None


def attention_by_layer(config: Mapping[str, Any]) -> Fact[tuple[Attention, ...]]:
    """Each kind of attention with how many layers have it, in the order in which they first come."""
    try:
        merged = merge_attention(layer.attention for layer in read_layers(config))
    except ValueError as error:
        return Unknown(str(error))
    prefix, _ = language_part(config)
    return derived(merged, f"the layer kinds of config.json {prefix}".rstrip())


def read_moe(config: Mapping[str, Any]) -> Moe | None:
    """The routed experts of all layers that have them; None for a dense model, and where the config is not clear."""
    try:
        found = [layer.moe for layer in read_layers(config) if layer.moe is not None]
    except ValueError:
        return None
    return replace(found[0], layers=len(found)) if found else None


def read_layers(config: Mapping[str, Any]) -> tuple[Layer, ...]:
    """One for each layer, draft layers left out. Raises: MissingKeyError, NotUnderstoodError."""
    prefix, values = language_part(config)
    keys = Keys(values, prefix)
    blocks = keys.items("block_configs")
    if blocks:
        _bounded(keys, "block_configs", len(blocks))
        return tuple(_searched(keys, block) for block in blocks)
    pattern = _mixer_pattern(keys)
    if pattern:
        _bounded(keys, "hybrid_override_pattern", len(pattern))
        return tuple(_one_mixer(keys, kind) for kind in pattern)
    count = keys.size(*LAYERS)
    _bounded(keys, "num_hidden_layers", count)
    attention, feed_forward = _attention_rule(keys, count), feed_forward_rule(keys, count)
    return tuple(_both(attention(number), feed_forward(number)) for number in range(count))


def _both(attention: Attention, feed_forward: FeedForward) -> Layer:
    return Layer(attention, feed_forward.dense_width, feed_forward.moe)


# Far beyond any model. A file that claims more is damaged, and is not given the memory to list them.
_MOST_LAYERS = 10_000


def _bounded(keys: Keys, name: str, count: int) -> None:
    if count > _MOST_LAYERS:
        raise NotUnderstoodError(f"config.json {keys.prefix}{name} means {count} layers")


def merge_attention(kinds: Iterable[Attention | None]) -> tuple[Attention, ...]:
    """Layers of one kind counted together."""
    merged: list[Attention] = []
    for kind in kinds:
        if kind is None:
            continue
        place = next((i for i, one in enumerate(merged) if _same(one, kind)), None)
        if place is None:
            merged.append(kind)
        else:
            merged[place] = _sum(merged[place], kind)
    return tuple(merged)


def _same(one: Attention, other: Attention) -> bool:
    if isinstance(one, CompressedAttention) and isinstance(other, CompressedAttention):
        return True
    if isinstance(one, SparseMla) and isinstance(other, SparseMla):
        return replace(one, layers=1, index_layers=1) == replace(other, layers=1, index_layers=1)
    return type(one) is type(other) and replace(one, layers=1) == replace(other, layers=1)


def _sum(one: Attention, other: Attention) -> Attention:
    layers = one.layers + other.layers
    if isinstance(one, CompressedAttention) and isinstance(other, CompressedAttention):
        return replace(one, layers=layers, compress_ratios=(*one.compress_ratios, *other.compress_ratios))
    if isinstance(one, SparseMla) and isinstance(other, SparseMla):
        return replace(one, layers=layers, index_layers=one.index_layers + other.index_layers)
    return replace(one, layers=layers)


# --- layers that are a mixer or a feed forward, never both


def _mixer_pattern(keys: Keys) -> str:
    """Nemotron-H: `M` Mamba-2, `*` attention, `E` experts, `-` plain feed forward; each has a layer of its own.

    Source: transformers' NemotronHConfig, whose later configs spell the pattern out in `layers_block_type`.
    """
    if keys.text("hybrid_override_pattern"):
        return keys.text("hybrid_override_pattern").replace("|", "")
    letters = {"mamba": "M", "attention": "*", "moe": "E", "mlp": "-"}
    kinds = keys.items("layers_block_type")
    unknown = sorted({str(kind) for kind in kinds} - set(letters))
    if unknown:
        raise NotUnderstoodError(f"config.json {keys.prefix}layers_block_type has {', '.join(unknown)}")
    return "".join(letters[kind] for kind in kinds)


def _one_mixer(keys: Keys, kind: str) -> Layer:
    if kind == "M":
        return Layer(mamba2(keys))
    if kind == "*":
        return Layer(_full(keys))
    if kind == "E":
        return Layer(None, moe=read_experts(keys))
    if kind == "-":
        return Layer(None, dense_width=keys.size("intermediate_size"))
    raise NotUnderstoodError(f"config.json {keys.prefix}hybrid_override_pattern has {kind!r}")


def _searched(keys: Keys, block: Any) -> Layer:
    """A layer of NVIDIA's architecture search: attention and feed forward may each be missing or of another width.

    Source: `DeciLMConfig` of Llama-3.3-Nemotron-Super; vLLM's nemotron_nas.
    """
    attention, ffn = (block.get("attention"), block.get("ffn")) if isinstance(block, dict) else (None, None)
    if not isinstance(attention, dict) or not isinstance(ffn, dict):
        raise NotUnderstoodError(f"config.json {keys.prefix}block_configs has a row without attention and ffn")
    if attention.get("replace_with_linear") or ffn.get("replace_with_linear"):
        raise NotUnderstoodError(f"config.json {keys.prefix}block_configs has replace_with_linear")
    kind: Attention | None = None
    if not attention.get("no_op"):
        heads = keys.size(*HEADS)
        kv_heads = heads // (Keys(attention).size("n_heads_in_group"))
        kind = replace(_full(keys), num_key_value_heads=kv_heads)
    return Layer(kind, 0 if ffn.get("no_op") else _searched_width(keys, ffn))


def _searched_width(keys: Keys, ffn: dict[str, Any]) -> int:
    """`ffn_mult` of the hidden size, two thirds of it for the gate, in steps of 256."""
    mult = ffn.get("ffn_mult")
    if not isinstance(mult, int | float) or not 0 < mult < 1000:
        raise NotUnderstoodError(f"config.json {keys.prefix}block_configs has ffn_mult {mult!r}")
    width = int(2 * mult * keys.size(*HIDDEN_SIZE) / 3)
    return width if width % 256 == 0 else width + 256 - width % 256


# --- attention of layers that have both


def _attention_rule(keys: Keys, count: int) -> Callable[[int], Attention]:
    """Which attention layer `number` has. The keys that name kinds come first, the plain case last."""
    if keys.items("compress_ratios"):
        return lambda number: _compressed(keys, number)
    linear = keys.part("linear_attn_config")
    if linear is not None:
        full = linear.items("full_attn_layers")  # counted from 1
        return lambda number: _unwindowed(keys, number) if number + 1 in full else kimi_delta(linear)
    if keys.items("hybrid_layer_pattern"):
        pattern = _as_long(keys, "hybrid_layer_pattern", count)
        return lambda number: _own_window(keys) if pattern[number] else _full(keys)
    unknown = [key for key in _OTHER_KINDS if keys.has(key)]
    if unknown:
        raise NotUnderstoodError(f"config.json {keys.prefix}{unknown[0]}: holddown has no rule for such layers")
    kinds = _layer_types(keys, count)
    makers: dict[str, Callable[[int], Attention]] = {
        "full_attention": lambda number: _unwindowed(keys, number),
        "deepseek_sparse_attention": lambda number: _unwindowed(keys, number),
        "sliding_attention": lambda number: _windowed(keys, "sliding_window"),
        "chunked_attention": lambda number: _windowed(keys, "attention_chunk_size"),
        "linear_attention": lambda number: delta_net(keys),
    }
    strange = sorted(set(kinds) - set(makers))
    if strange:
        raise NotUnderstoodError(f"config.json {keys.prefix}layer_types has {', '.join(strange)}")
    return lambda number: makers[kinds[number]](number)


def _layer_types(keys: Keys, count: int) -> list[str]:
    """The kinds by name, as transformers spells them; worked out from older keys where `layer_types` is absent."""
    if keys.items("layer_types"):
        named = [str(kind) for kind in _as_long(keys, "layer_types", count)]
        # MiniMax-M3 says so of itself; `sparse_attention_config` tells the same
        return ["full_attention" if kind == "minimax_m3_sparse" else kind for kind in named]
    if keys.items("attn_type_list"):
        if any(kind != 1 for kind in keys.items("attn_type_list")):
            raise NotUnderstoodError(f"config.json {keys.prefix}attn_type_list has lightning attention")
        return ["full_attention"] * count
    every = keys.size_or(0, "full_attention_interval")
    if every:
        return ["linear_attention" if (number + 1) % every else "full_attention" for number in range(count)]
    if keys.size_or(0, "attention_chunk_size"):
        # Llama 4: 1 where the layer has RoPE and looks into its chunk only. Source: transformers' Llama4TextConfig.
        every = keys.size_or(4, "no_rope_layer_interval")
        rope = keys.items("no_rope_layers") or tuple(int((number + 1) % every != 0) for number in range(count))
        return ["chunked_attention" if rope[number % len(rope)] else "full_attention" for number in range(count)]
    return _windows(keys, count)


def _windows(keys: Keys, count: int) -> list[str]:
    """`use_sliding_window: false` and `sliding_window: null` mean that every layer sees everything.

    Source: transformers' Qwen2Config (off unless it says so), Gemma2Config (every other layer), Gemma3TextConfig.
    """
    model_type = keys.text("model_type")
    on = keys.flag("use_sliding_window", default=model_type not in _WINDOW_OFF)
    if not keys.size_or(0, "sliding_window") or not on:
        return ["full_attention"] * count
    every = keys.size_or(0, "sliding_window_pattern", "_sliding_window_pattern")
    if not every and model_type in _PATTERNS:
        every = _PATTERNS[model_type]
    if every:
        return ["sliding_attention" if (number + 1) % every else "full_attention" for number in range(count)]
    first = keys.size_or(0, "max_window_layers")
    return ["sliding_attention" if number >= first else "full_attention" for number in range(count)]


# They have a `sliding_window` that is off unless `use_sliding_window` says otherwise.
# Source: the defaults of transformers' configs.
_WINDOW_OFF = frozenset(
    {
        "qwen2", "qwen2_moe", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text", "qwen2_5_omni_text",
        "qwen3", "qwen3_moe", "qwen3_vl_text", "qwen3_vl_moe_text", "qwen3_omni_moe_text",
    }
)  # fmt: skip
# Every n-th layer is full where the config does not say. Source: the defaults of transformers' configs.
_PATTERNS = {"gemma2": 2, "gemma3_text": 6, "cohere2": 4}


def _as_long(keys: Keys, name: str, count: int) -> tuple[Any, ...]:
    """Draft layers may follow the model's own (Step 3.5 lists 48 kinds for 45 layers)."""
    found = keys.items(name)
    if len(found) < count:
        raise NotUnderstoodError(f"config.json {keys.prefix}{name} has {len(found)} entries for {count} layers")
    return found


def _unwindowed(keys: Keys, number: int) -> Attention:
    """An attention layer that sees every token: latent where there is a `kv_lora_rank`."""
    if keys.size_or(0, "kv_lora_rank"):
        return _latent(keys, number)
    if keys.size_or(0, "global_head_dim"):  # Gemma 4: its full layers have heads of their own
        kv_heads = keys.size_or(keys.size(*KV_HEADS), "num_global_key_value_heads")
        dim = keys.size("global_head_dim")
        return FullAttention(1, keys.size(*HEADS), kv_heads, dim, dim)
    sparse = keys.part("sparse_attention_config")
    if sparse is not None and sparse.flag("use_sparse_attention", default=True):
        on = sparse.items("sparse_attention_freq")
        if not on or (number < len(on) and on[number]):
            return _block_sparse(keys, sparse)
    return _full(keys)


def _full(keys: Keys) -> FullAttention:
    heads = keys.size(*HEADS)
    dim = keys.size_or(0, *HEAD_DIM) or keys.size(*HIDDEN_SIZE) // heads
    default = 1 if keys.flag("multi_query") else heads
    return FullAttention(1, heads, keys.size_or(default, *KV_HEADS), dim, keys.size_or(dim, "v_head_dim"))


def _windowed(keys: Keys, window: str) -> Attention:
    """Step 3.5 gives its window layers heads of their own in `attention_other_setting`."""
    other = keys.part("attention_other_setting")
    one = _full(keys)
    if other is not None and window == "sliding_window":
        one = _full(Keys({**keys.values, **other.values}, keys.prefix))
    size = keys.size_or(0, window)
    if not size:
        return one
    return SlidingWindow(1, one.num_attention_heads, one.num_key_value_heads, one.head_dim, one.v_head_dim, size)


def _own_window(keys: Keys) -> SlidingWindow:
    """MiMo-V2: window layers have keys of their own, all beginning `swa_`."""
    dim = keys.size("swa_head_dim")
    return SlidingWindow(
        1,
        keys.size("swa_num_attention_heads"),
        keys.size("swa_num_key_value_heads"),
        dim,
        keys.size_or(dim, "swa_v_head_dim"),
        keys.size("sliding_window", "sliding_window_size"),
    )


def _block_sparse(keys: Keys, sparse: Keys) -> BlockSparse:
    one = _full(keys)
    return BlockSparse(
        1,
        one.num_attention_heads,
        one.num_key_value_heads,
        one.head_dim,
        one.v_head_dim,
        sparse.size("sparse_num_index_heads"),
        sparse.size("sparse_index_dim"),
        sparse.size("sparse_topk_blocks") * sparse.size("sparse_block_size"),
    )


def _latent(keys: Keys, number: int) -> Mla | SparseMla:
    heads, rank = keys.size(*HEADS), keys.size("kv_lora_rank")
    nope, rope, value = keys.size("qk_nope_head_dim"), keys.size("qk_rope_head_dim"), keys.size("v_head_dim")
    if not keys.size_or(0, "index_topk"):
        return Mla(1, heads, rank, nope, rope, value)
    kinds = keys.items("indexer_types")
    own = 1 if not kinds or (number < len(kinds) and kinds[number] == "full") else 0
    index = keys.size("index_n_heads"), keys.size("index_head_dim"), keys.size("index_topk")
    return SparseMla(1, heads, rank, nope, rope, value, own, *index)


def _compressed(keys: Keys, number: int) -> CompressedAttention:
    ratios = keys.items("compress_ratios")
    ratio = ratios[number] if number < len(ratios) else None
    if type(ratio) is not int or ratio < 0:
        raise NotUnderstoodError(f"config.json {keys.prefix}compress_ratios has no whole number for layer {number}")
    index = keys.size("index_n_heads"), keys.size("index_head_dim"), keys.size("index_topk")
    heads, dim, window = keys.size(*HEADS), keys.size("head_dim"), keys.size("sliding_window")
    return CompressedAttention(1, heads, dim, (ratio,), window, *index)
