"""The tensors of one layer's feed forward: plain, or a router with its experts. Names are relative to the layer."""

from collections.abc import Iterator
from dataclasses import replace

from holddown.facts.families.family import Family, Fused
from holddown.facts.families.module import Module, bare, linear, norm, under
from holddown.facts.hf_keys import Keys
from holddown.facts.model import Moe


def dense_modules(keys: Keys, family: Family, width: int) -> Iterator[Module]:
    return under(f"{family.mlp}.", gated_mlp(family, keys.size("hidden_size"), width, keys.flag("mlp_bias")))


def gated_mlp(family: Family, hidden: int, width: int, biased: bool = False) -> Iterator[Module]:
    """Nemotron-H squares a ReLU and has no gate."""
    if family.joined_mlp:
        yield linear("gate_up_proj", 2 * width, hidden, biased)
    else:
        if family.gated:
            yield linear("gate_proj", width, hidden, biased)
        yield linear("up_proj", width, hidden, biased)
    yield linear("down_proj", hidden, width, biased)


def moe_modules(keys: Keys, family: Family, moe: Moe, split_experts: bool, hashed: bool = False) -> Iterator[Module]:
    """split_experts: each expert in modules of its own, as quantised checkpoints have it even where the trained one
    keeps a layer's experts in one tensor. hashed: DeepSeek V4's first layers pick experts by token, from a table.
    """
    place = f"{family.moe}." if family.moe else ""
    hidden = keys.size("hidden_size")
    latent = keys.size_or(hidden, "moe_latent_size", "routed_expert_hidden_size")
    yield from under(place, _router(keys, family, moe, hashed))
    yield from under(place, _experts(keys, family, moe, latent, split_experts))
    if latent != hidden:
        yield from under(place, _latent(keys, hidden, latent))
    if moe.shared_intermediate_size:
        yield from under("" if family.shared_beside else place, _shared(keys, family, moe.shared_intermediate_size))


def _router(keys: Keys, family: Family, moe: Moe, hashed: bool) -> Iterator[Module]:
    hidden, experts = keys.size("hidden_size"), moe.num_experts
    yield linear(family.router, experts, hidden, family.router_with_bias and not hashed)
    if hashed:
        yield bare("gate.tid2eid", keys.size("vocab_size"), moe.num_experts_per_tok, dtype="I32")
    elif family.router_bias and _picks_with_bias(keys):
        yield bare(family.router_bias, experts, dtype="F32")
    if family.router_scales:
        yield bare("router.scale", hidden)
        yield bare("router.per_expert_scale", experts)


def _picks_with_bias(keys: Keys) -> bool:
    """Each of these keys can say no; where there is none, the family does it always."""
    if keys.text("topk_method") not in ("", "noaux_tc"):
        return False
    return keys.flag("use_routing_bias", default=True) and keys.flag("use_moe_router_bias", default=True)


def _experts(keys: Keys, family: Family, moe: Moe, features: int, split_experts: bool) -> Iterator[Module]:
    width, count = moe.moe_intermediate_size, moe.num_experts
    gate, up, down = family.expert
    if family.fused is Fused.EACH or (split_experts and family.fused is not Fused.SPLIT):
        every = tuple(range(count))
        if family.gated:
            yield linear(gate, width, features).under("experts.*.", every)
        yield linear(up, width, features).under("experts.*.", every)
        yield linear(down, features, width).under("experts.*.", every)
    elif family.fused is Fused.SPLIT:
        yield Module(gate, (count, width, features), linear=True, fused=True)
        yield Module(up, (count, width, features), linear=True, fused=True)
        yield Module(down, (count, features, width), linear=True, fused=True)
    else:
        both, back = (count, 2 * width, features), (count, features, width)
        if family.fused is Fused.IN_OUT:
            both, back = (count, features, 2 * width), (count, width, features)
        biases = ((count, 2 * width), (count, features)) if family.router_with_bias else ((), ())
        for name, shape, bias in (("gate_up_proj", both, biases[0]), ("down_proj", back, biases[1])):
            yield Module(f"experts.{name}", shape, bias=bias, linear=True, part="", fused=True)


def _latent(keys: Keys, hidden: int, latent: int) -> Iterator[Module]:
    """Routed experts work in a smaller space. Source: Nemotron 3 Super, Kimi K3; both in vLLM's models."""
    if keys.has("moe_latent_size"):
        yield linear("fc1_latent_proj", latent, hidden)
        yield linear("fc2_latent_proj", hidden, latent)
        return
    yield linear("routed_expert_down_proj", latent, hidden)
    if keys.flag("latent_moe_use_norm"):
        yield norm("routed_expert_norm", latent)
    yield linear("routed_expert_up_proj", hidden, latent)


def _shared(keys: Keys, family: Family, width: int) -> Iterator[Module]:
    hidden = keys.size("hidden_size")
    names = dict(zip(("gate_proj", "up_proj", "down_proj"), family.shared_expert, strict=True))
    modules = (replace(module, name=names.get(module.name, module.name)) for module in gated_mlp(family, hidden, width))
    yield from under(f"{family.shared}.", modules)
    if family.shared_gate:
        yield linear("shared_expert_gate", 1, hidden)
