"""The feed forward of each layer, from config.json: plain, or routed and shared experts."""

from collections.abc import Callable
from dataclasses import dataclass

from holddown.facts.hf_keys import Keys, NotUnderstoodError
from holddown.facts.model import Moe

_EXPERTS = ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts")
_TOP_K = ("num_experts_per_tok", "num_experts_per_token", "moe_top_k", "experts_per_token", "top_k_experts")
# Far beyond any model. A file that claims more is damaged, and is not given the memory to list them.
_MOST_EXPERTS = 100_000


@dataclass(frozen=True, slots=True)
class FeedForward:
    """Of one layer. dense_width: of the plain one, 0 for none. Gemma 4 has both in one layer."""

    dense_width: int = 0
    moe: Moe | None = None


def feed_forward_rule(keys: Keys, count: int) -> Callable[[int], FeedForward]:
    """Which feed forward layer `number` has. Raises: MissingKeyError, NotUnderstoodError."""
    if not keys.size_or(0, *_EXPERTS) or not keys.flag("enable_moe_block", default=True):
        return lambda number: FeedForward(_dense_width(keys))
    moe = read_experts(keys)
    if keys.flag("enable_moe_block"):  # Gemma 4
        return lambda number: FeedForward(_dense_width(keys), moe)
    sparse = _sparse_layers(keys, count)
    return lambda number: FeedForward(moe=moe) if number in sparse else FeedForward(_dense_width(keys))


def _dense_width(keys: Keys) -> int:
    return keys.size("intermediate_size_mlp", "dense_intermediate_size", "intermediate_size", "n_inner", "ffn_dim")


def _sparse_layers(keys: Keys, count: int) -> frozenset[int]:
    """The layers with routed experts.

    Source: GLM's `mlp_layer_types`, MiMo's and MiniMax-M3's `moe_layer_freq` as a list, Step's `moe_layers_enum`,
    Llama 4's `moe_layers` and `interleave_moe_layer_step`, Qwen's `decoder_sparse_step` and `mlp_only_layers`,
    DeepSeek's `first_k_dense_replace` with `moe_layer_freq`; as in transformers' and vLLM's models.
    """
    types, freq = keys.items("mlp_layer_types"), keys.items("moe_layer_freq")
    if types:
        return frozenset(number for number, kind in enumerate(types[:count]) if kind in ("sparse", "moe"))
    if freq:
        return frozenset(number for number, on in enumerate(freq[:count]) if on)
    if keys.values.get("moe_layers_enum") is not None:
        return frozenset(_numbered(keys, count))
    if keys.items("moe_layers"):
        return frozenset(number for number in keys.items("moe_layers") if type(number) is int)
    step = keys.size_or(1, "interleave_moe_layer_step", "decoder_sparse_step")
    only = keys.items("mlp_only_layers")
    first, every = keys.size_or(0, "first_k_dense_replace"), keys.size_or(1, "moe_layer_freq")
    return frozenset(
        number
        for number in range(count)
        if (number + 1) % step == 0 and number not in only and number >= first and number % every == 0
    )


def _numbered(keys: Keys, count: int) -> list[int]:
    """`3,4,5` or `3..44`."""
    text = str(keys.values["moe_layers_enum"])
    found: list[int] = []
    try:
        for piece in text.split(","):
            first, _, last = piece.strip().partition("..")
            found.extend(range(max(int(first), 0), min(int(last or first), count - 1) + 1))
    except ValueError as error:
        raise NotUnderstoodError(f"config.json {keys.prefix}moe_layers_enum is {text[:40]!r}") from error
    return found


def read_experts(keys: Keys) -> Moe:
    """One layer's experts. Raises: MissingKeyError, NotUnderstoodError."""
    width, experts = keys.size("moe_intermediate_size", "intermediate_size"), keys.size(*_EXPERTS)
    if experts > _MOST_EXPERTS:
        raise NotUnderstoodError(f"config.json {keys.prefix}has {experts} experts")
    return Moe(1, experts, min(keys.size(*_TOP_K), experts), width, _shared_width(keys, width))


def _shared_width(keys: Keys, width: int) -> int:
    named = keys.size_or(
        0,
        "moe_shared_expert_intermediate_size",
        "shared_expert_intermediate_size",
        "share_expert_dim",
        "shared_intermediate_size",
    )
    if named:
        return named
    if keys.text("model_type") == "llama4_text":
        # one in every layer with experts, of the experts' width. Source: transformers' Llama4TextMoe
        return keys.size("intermediate_size")
    return width * keys.size_or(0, "n_shared_experts", "num_shared_experts")
