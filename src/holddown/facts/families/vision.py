"""The tensors of vision towers and their projectors, by the keys of `vision_config`."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from holddown.facts.families.module import Module, bare, linear, norm, under
from holddown.facts.hf_keys import Keys, NotUnderstoodError, language_part


def vision_modules(config: Mapping[str, Any]) -> tuple[tuple[Module, ...], str]:
    """The tower and what joins it to the language model; beside it a note where there is more than was counted.

    Raises: MissingKeyError, NotUnderstoodError.
    """
    prefix, part = language_part(config)
    keys, top = Keys(config), Keys(config).text("model_type")
    vision, build = keys.part("vision_config"), _TOWERS.get(top)
    more = "; an audio tower is not counted" if keys.part("audio_config") is not None else ""
    if vision is None:
        told = "config.json has no vision_config: what is around the language model is not counted" if prefix else ""
        return (), told
    if build is None:
        return (), f"holddown does not know the vision tower of {top[:60]!r}: it is not counted{more}"
    return tuple(build(vision, keys, Keys(part, prefix).size("hidden_size"))), more.removeprefix("; ")


_MOST_LAYERS = 1000


def _span(keys: Keys, *names: str) -> tuple[int, ...]:
    count = keys.size(*names)
    if count > _MOST_LAYERS:
        raise NotUnderstoodError(f"config.json {keys.prefix}{names[0]} is {count}")
    return tuple(range(count))


def _qwen3_vl(vision: Keys, _top: Keys, hidden: int) -> Iterator[Module]:
    """Qwen3-VL and Qwen3.5. Source: transformers' modeling_qwen3_vl.py."""
    width, inner = vision.size("hidden_size"), vision.size("intermediate_size")
    patch, frames = vision.size("patch_size"), vision.size_or(2, "temporal_patch_size")
    channels = vision.size_or(3, "in_channels")
    block = (
        linear("attn.qkv", 3 * width, width, True),
        linear("attn.proj", width, width, True),
        linear("mlp.linear_fc1", inner, width, True),
        linear("mlp.linear_fc2", width, inner, True),
        norm("norm1", width, True),
        norm("norm2", width, True),
    )
    yield from under("model.visual.blocks.*.", block, _span(vision, "depth"))
    yield Module("model.visual.patch_embed.proj", (width, channels, frames, patch, patch), bias=(width,))
    yield Module("model.visual.pos_embed", (vision.size("num_position_embeddings"), width))
    merged, out = width * vision.size_or(2, "spatial_merge_size") ** 2, vision.size_or(hidden, "out_hidden_size")
    both = (linear("linear_fc1", merged, merged, True), linear("linear_fc2", out, merged, True))
    yield from under("model.visual.merger.", (*both, norm("norm", width, True)))
    deep = tuple(range(len(vision.items("deepstack_visual_indexes"))))
    if deep:
        yield from under("model.visual.deepstack_merger_list.*.", (*both, norm("norm", merged, True)), deep)


def _moonvit(vision: Keys, _top: Keys, hidden: int) -> Iterator[Module]:
    """Kimi K2.5 and K3. Source: vLLM's kimi_k25_vit.py; names as the checkpoints' own quantisation lists have them."""
    width, inner = vision.size("vt_hidden_size"), vision.size("vt_intermediate_size")
    wide, patch = vision.size_or(width, "qkv_hidden_size"), vision.size("patch_size")
    biased, attention_biased = vision.flag("linear_bias", True), vision.flag("attn_bias", True)
    centred = vision.text("norm_type") != "rmsnorm"
    block = (
        linear("wqkv", 3 * wide, width, attention_biased),
        linear("wo", width, wide, attention_biased),
        linear("mlp.fc0", inner, width, biased),
        linear("mlp.fc1", width, inner, biased),
        norm("norm0", width, centred),
        norm("norm1", width, centred),
    )
    yield from under("vision_tower.encoder.blocks.*.", block, _span(vision, "vt_num_hidden_layers"))
    yield norm("vision_tower.encoder.final_layernorm", width, centred)
    patch_bias = (width,) if vision.flag("patch_embed_proj_bias", True) else ()
    yield Module("vision_tower.patch_embed.proj", (width, 3, patch, patch), bias=patch_bias)
    grid = vision.size("init_pos_emb_height"), vision.size("init_pos_emb_width"), width
    yield Module("vision_tower.patch_embed.pos_emb", grid)
    if vision.items("merge_kernel_size") not in ((), (2, 2)):
        raise NotUnderstoodError(f"config.json {vision.prefix}merge_kernel_size is not [2, 2]")
    merged = 4 * vision.size_or(width, "mm_hidden_size")
    out = vision.size_or(hidden, "text_hidden_size")
    second = vision.text("mm_projector_type") == "patchmergerv2"
    yield linear("mm_projector.proj.*", merged, merged, not second).under("", (0,))
    yield linear("mm_projector.proj.*", out, merged, not second).under("", (2,))
    yield norm("mm_projector.post_norm", out) if second else norm("mm_projector.pre_norm", width, True)


def _clip_block(width: int, inner: int) -> tuple[Module, ...]:
    """SigLIP's and CLIP's encoder layer."""
    return (
        *(linear(f"self_attn.{name}_proj", width, width, True) for name in ("q", "k", "v", "out")),
        linear("mlp.fc1", inner, width, True),
        linear("mlp.fc2", width, inner, True),
        norm("layer_norm1", width, True),
        norm("layer_norm2", width, True),
    )


def _siglip(vision: Keys, _top: Keys, hidden: int) -> Iterator[Module]:
    """Gemma 3: SigLIP without its pooling head (`vision_use_head: false`). Source: transformers' modeling_gemma3.py."""
    width, inner, patch = vision.size("hidden_size"), vision.size("intermediate_size"), vision.size("patch_size")
    place = "vision_tower.vision_model."
    yield from under(f"{place}encoder.layers.*.", _clip_block(width, inner), _span(vision, "num_hidden_layers"))
    yield Module(f"{place}embeddings.patch_embedding", (width, 3, patch, patch), bias=(width,))
    positions = (vision.size("image_size") // patch) ** 2
    yield Module(f"{place}embeddings.position_embedding", (positions, width))
    yield norm(f"{place}post_layernorm", width, True)
    yield Module("multi_modal_projector.mm_input_projection_weight", (width, hidden), part="")
    yield norm("multi_modal_projector.mm_soft_emb_norm", width)


def _minimax_m3(vision: Keys, top: Keys, hidden: int) -> Iterator[Module]:
    """CLIP with rotary positions; two projections, then four patches to one. Source: transformers' minimax_m3_vl."""
    width, inner, patch = vision.size("hidden_size"), vision.size("intermediate_size"), vision.size("patch_size")
    place = "vision_tower.vision_model."
    yield from under(f"{place}encoder.layers.*.", _clip_block(width, inner), _span(vision, "num_hidden_layers"))
    packing = vision.part("img_token_compression_config") or Keys({})
    frames, merge = packing.size_or(2, "temporal_patch_size"), packing.size_or(2, "spatial_merge_size")
    yield Module(f"{place}embeddings.patch_embedding", (width, 3, frames, patch, patch))
    yield norm(f"{place}pre_layrnorm", width, True)
    middle = top.size_or(hidden, "projector_hidden_size")
    yield linear("multi_modal_projector.linear_1", middle, width, True)
    yield linear("multi_modal_projector.linear_2", hidden, middle, True)
    yield linear("patch_merge_mlp.linear_1", middle, hidden * merge**2, True)
    yield linear("patch_merge_mlp.linear_2", hidden, middle, True)


def _gemma4(vision: Keys, _top: Keys, hidden: int) -> Iterator[Module]:
    """Source: transformers' modeling_gemma4.py."""
    width, inner, patch = vision.size("hidden_size"), vision.size("intermediate_size"), vision.size("patch_size")
    heads, dim = vision.size("num_attention_heads"), vision.size("head_dim")
    kv_heads = vision.size_or(heads, "num_key_value_heads")
    block = (
        linear("self_attn.q_proj.linear", heads * dim, width),
        linear("self_attn.k_proj.linear", kv_heads * dim, width),
        linear("self_attn.v_proj.linear", kv_heads * dim, width),
        linear("self_attn.o_proj.linear", width, heads * dim),
        norm("self_attn.q_norm", dim),
        norm("self_attn.k_norm", dim),
        linear("mlp.gate_proj.linear", inner, width),
        linear("mlp.up_proj.linear", inner, width),
        linear("mlp.down_proj.linear", width, inner),
        *(norm(f"{name}_layernorm", width) for name in ("input", "post_attention")),
        *(norm(f"{name}_feedforward_layernorm", width) for name in ("pre", "post")),
    )
    yield from under("model.vision_tower.encoder.layers.*.", block, _span(vision, "num_hidden_layers"))
    yield linear("model.vision_tower.patch_embedder.input_proj", width, 3 * patch * patch)
    table = (2, vision.size("position_embedding_size"), width)
    yield bare("model.vision_tower.patch_embedder.position_embedding_table", *table)
    if vision.flag("standardize"):
        yield bare("model.vision_tower.std_bias", width)
        yield bare("model.vision_tower.std_scale", width)
    yield linear("model.embed_vision.embedding_projection", hidden, width)


def _pixtral(vision: Keys, top: Keys, hidden: int) -> Iterator[Module]:
    """Mistral Small 3.1 and Devstral Small 2. Source: transformers' modeling_pixtral.py and modeling_mistral3.py."""
    width, inner, patch = vision.size("hidden_size"), vision.size("intermediate_size"), vision.size("patch_size")
    heads = vision.size("num_attention_heads")
    dim = vision.size_or(width // heads, "head_dim")
    block = (
        *(linear(f"attention.{name}_proj", heads * dim, width) for name in ("q", "k", "v")),
        linear("attention.o_proj", width, heads * dim),
        linear("feed_forward.gate_proj", inner, width),
        linear("feed_forward.up_proj", inner, width),
        linear("feed_forward.down_proj", width, inner),
        norm("attention_norm", width),
        norm("ffn_norm", width),
    )
    yield from under("vision_tower.transformer.layers.*.", block, _span(vision, "num_hidden_layers"))
    yield norm("vision_tower.ln_pre", width)
    yield Module("vision_tower.patch_conv", (width, 3, patch, patch))
    merge = top.size_or(2, "spatial_merge_size")
    yield norm("multi_modal_projector.norm", width)
    yield linear("multi_modal_projector.patch_merger.merging_layer", width, width * merge**2)
    yield linear("multi_modal_projector.linear_1", hidden, width)
    yield linear("multi_modal_projector.linear_2", hidden, hidden)


def _llama4(vision: Keys, _top: Keys, hidden: int) -> Iterator[Module]:
    """Source: transformers' modeling_llama4.py."""
    width, inner, patch = vision.size("hidden_size"), vision.size("intermediate_size"), vision.size("patch_size")
    block = (
        *(linear(f"self_attn.{name}_proj", width, width, True) for name in ("q", "k", "v", "o")),
        linear("mlp.fc1", inner, width, True),
        linear("mlp.fc2", width, inner, True),
        norm("input_layernorm", width, True),
        norm("post_attention_layernorm", width, True),
    )
    yield from under("vision_model.model.layers.*.", block, _span(vision, "num_hidden_layers"))
    yield linear("vision_model.patch_embedding.linear", width, 3 * patch * patch)
    yield bare("vision_model.class_embedding", width)
    positions = (vision.size("image_size") // patch) ** 2 + 1
    yield bare("vision_model.positional_embedding_vlm", positions, width)
    yield norm("vision_model.layernorm_pre", width, True)
    yield norm("vision_model.layernorm_post", width, True)
    middle = vision.size("projector_input_dim")
    shuffled = vision.size_or(inner, "intermediate_size")
    yield linear("vision_model.vision_adapter.mlp.fc1", middle, shuffled)
    yield linear("vision_model.vision_adapter.mlp.fc2", vision.size("projector_output_dim"), middle)
    yield linear("multi_modal_projector.linear_1", hidden, vision.size("vision_output_dim"))


_TOWERS: Mapping[str, Callable[[Keys, Keys, int], Iterator[Module]]] = {
    "qwen3_vl": _qwen3_vl,
    "qwen3_vl_moe": _qwen3_vl,
    "qwen3_5": _qwen3_vl,
    "qwen3_5_moe": _qwen3_vl,
    "kimi_k25": _moonvit,
    "kimi_k3": _moonvit,
    "gemma3": _siglip,
    "gemma4": _gemma4,
    "minimax_m3_vl": _minimax_m3,
    "mistral3": _pixtral,
    "llama4": _llama4,
}
