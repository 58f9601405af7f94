"""`holddown inspect`."""

from collections.abc import Iterable
from typing import Any

import click

from holddown import wiring
from holddown.app.inspect import Inspected, Share, inspect
from holddown.base.evidence import Fact, Known
from holddown.base.finding import blocking, some_text
from holddown.base.units import count_text, size_text
from holddown.cli.output import answer, bold, fact_text, findings_text, json_option
from holddown.explain.drawing import bar, columns, wrapped
from holddown.facts.attention import (
    Attention,
    BlockSparse,
    CompressedAttention,
    FullAttention,
    LinearAttention,
    Mla,
    SlidingWindow,
    SparseMla,
)
from holddown.facts.model import ModelFacts


@click.command()
@click.argument("path")
@json_option
@click.pass_context
def command(ctx: click.Context, path: str, as_json: bool) -> None:
    """What a checkpoint directory or GGUF file is, and whether it is whole.

    PATH is a directory with config.json and *.safetensors, a .gguf file (any part of a split one), a repository
    ORG/NAME in the local Hugging Face cache, or `demo`. Only headers are read, so size does not matter. A directory
    that holds only config.json is computed from shapes.

    Exit code 1 when a finding says that it cannot be served as it is.
    """
    inspected = inspect(wiring.checkpoints(), wiring.checkpoint_path(path))
    answer(document(inspected), card(inspected), as_json=as_json)
    if blocking(inspected.faults):
        ctx.exit(1)


def document(inspected: Inspected) -> dict[str, Any]:
    """The answer for scripts: plain numbers, null where there is none, with the reason under `unknown`."""
    from holddown.base.codec import dump

    model = inspected.model
    facts: dict[str, Fact[int]] = {
        "parameters.total": model.parameters,
        "parameters.active": model.active_parameters,
        "kv_bytes_per_token": inspected.cache.bytes_per_token,
        "kv_bytes_per_sequence": inspected.cache.bytes_per_sequence,
        "context_length": model.max_position_embeddings,
    }
    plain = {name: fact.value if isinstance(fact, Known) else None for name, fact in facts.items()}
    return {
        "path": model.path,
        "format": model.format,
        "parameters": {
            "total": plain["parameters.total"],
            "active": plain["parameters.active"],
            "draft": model.draft_parameters,
        },
        "bytes": {
            "total": model.weights_bytes,
            "by_component": _sizes(inspected.by_component),
            "by_dtype": _sizes(inspected.by_dtype),
            "by_format": _sizes(inspected.by_format),
        },
        "kv_bytes_per_token": plain["kv_bytes_per_token"],
        "kv_bytes_per_sequence": plain["kv_bytes_per_sequence"],
        "context_length": plain["context_length"],
        "from_shapes": model.from_shapes,
        "faults": [dump(finding) for finding in inspected.faults],
        "unknown": {name: fact.why for name, fact in facts.items() if not isinstance(fact, Known)},
        "model": dump(model),
    }


def _sizes(shares: Iterable[Share]) -> dict[str, int]:
    return {share.name: share.size_bytes for share in shares}


def card(inspected: Inspected) -> str:
    """The facts in one screen: what it is, what it needs, where its bytes are; faults last."""
    model = inspected.model
    rows = [
        ("architecture", fact_text(model.architectures, ", ".join)),
        ("weights", _weights(model)),
        ("parameters", _parameters(model)),
        ("quantisation", _quantisation(model)),
        ("attention", fact_text(model.attention, lambda kinds: " + ".join(_layers(kind) for kind in kinds))),
        ("KV cache", _caches(inspected)),
        ("context", _context(model)),
        ("shape", _shape(model)),
        ("tokenizer", fact_text(model.tokenizer)),
        ("chat template", "yes" if isinstance(model.chat_template, Known) else f"no: {model.chat_template.why}"),
        ("sampling", fact_text(model.generation_config)),
        ("remote code", _remote_code(model)),
        ("digest", model.digest[:16]),
    ]
    lines = [bold(model.path), *(line for name, value in rows for line in wrapped(f"{name:<14} ", value, 2))]
    if inspected.by_component:
        lines += ["", *_bars(inspected)]
    if inspected.faults:
        lines += ["", findings_text(inspected.faults)]
    return "\n".join(lines)


def _weights(model: ModelFacts) -> str:
    if model.from_shapes:
        return f"none here; {size_text(model.weights_bytes)} as config.json has them"
    parts = ", ".join(f"{part.dtype} {size_text(part.size_bytes)}" for part in model.by_dtype[:4])
    more = f", {len(model.by_dtype) - 4} more" if len(model.by_dtype) > 4 else ""
    files = f"{model.shards} {model.format} file{'' if model.shards == 1 else 's'}"
    return f"{size_text(model.weights_bytes)} in {files}" + (f": {parts}{more}" if parts else "")


def _parameters(model: ModelFacts) -> str:
    if not isinstance(model.parameters, Known):
        return fact_text(model.parameters)
    total = model.parameters.value
    # trillions with two digits after the point: a percent of them is more than most models
    text = f"{total / 10**12:.2f} T" if total >= 10**12 else count_text(total)
    if isinstance(model.active_parameters, Known):
        text += f", {count_text(model.active_parameters.value)} active per token"
    if model.moe is not None:
        text += f" ({model.moe.num_experts_per_tok} of {model.moe.num_experts} experts, {model.moe.layers} layers)"
    if model.draft_parameters:
        text += f"; {count_text(model.draft_parameters)} more in {_counted(model.draft_layers, 'draft layer')}"
    return text


def _quantisation(model: ModelFacts) -> str:
    text = fact_text(model.quantization)
    if model.group_size:
        text += f", groups of {model.group_size}"
    if model.weight_block:
        text += f", blocks of {' x '.join(map(str, model.weight_block))}"
    if isinstance(model.dtype, Known):
        text += f"; computes in {model.dtype.value}"
    if isinstance(model.kv_cache_quantization, Known) and model.kv_cache_quantization.value != "none":
        text += f"; asks for a KV cache in {model.kv_cache_quantization.value}"
    return text


def _layers(kind: Attention) -> str:
    """`45 linear`, `15 full (8 of 64 heads x 128)`."""
    match kind:
        case FullAttention():
            return f"{kind.layers} full ({_heads(kind)})"
        case SlidingWindow():
            return f"{kind.layers} sliding window of {kind.window} ({_heads(kind)})"
        case BlockSparse():
            return f"{kind.layers} block-sparse, top {kind.topk_tokens} tokens ({_heads(kind)})"
        case Mla():
            return f"{kind.layers} MLA ({_latent(kind)})"
        case SparseMla():
            return f"{kind.layers} sparse MLA, top {kind.index_topk} tokens ({_latent(kind)})"
        case CompressedAttention():
            return (
                f"{kind.layers} compressed, window {kind.window} ({kind.num_attention_heads} heads x {kind.head_dim})"
            )
        case LinearAttention():
            return f"{kind.layers} linear ({kind.name.replace('_', ' ')}, {size_text(kind.state_bytes)} of state each)"


def _heads(kind: FullAttention | SlidingWindow | BlockSparse) -> str:
    return f"{kind.num_attention_heads} heads, {kind.num_key_value_heads} KV x {kind.head_dim}"


def _latent(kind: Mla | SparseMla) -> str:
    return f"{kind.num_attention_heads} heads, latent {kind.kv_lora_rank} + {kind.qk_rope_head_dim}"


def _caches(inspected: Inspected) -> str:
    if not isinstance(inspected.cache.bytes_per_token, Known):
        return fact_text(inspected.cache.bytes_per_token)
    words = []
    for cache in inspected.caches:
        each, fixed = cache.bytes_per_token, cache.bytes_per_sequence
        if isinstance(each, Known) and isinstance(fixed, Known):
            more = f" + {size_text(fixed.value)} a sequence" if fixed.value else ""
            words.append(f"{size_text(each.value)} a token{more} in {cache.kv_dtype}")
    return "; ".join(words)


def _context(model: ModelFacts) -> str:
    text = fact_text(model.max_position_embeddings, lambda tokens: f"{tokens} tokens")
    if isinstance(model.rope_scaling, Known) and model.rope_scaling.value != "none":
        text += f", RoPE {model.rope_scaling.value}"
    return text


def _remote_code(model: ModelFacts) -> str:
    if not model.remote_code:
        return "none"
    return some_text([file.name if file.sha256 else f"{file.name} (not here)" for file in model.remote_code])


def _shape(model: ModelFacts) -> str:
    def number(fact: Fact[int]) -> str:
        return str(fact.value) if isinstance(fact, Known) else "?"

    layers, hidden = number(model.num_hidden_layers), number(model.hidden_size)
    return f"{layers} layers x {hidden}, vocabulary {number(model.vocab_size)}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


_BAR = 30
_FIGURES = frozenset({1, 2})


def _bars(inspected: Inspected) -> list[str]:
    """A line per component: bytes, share, bar, how it is stored."""
    total = sum(share.size_bytes for share in inspected.by_component)
    rows = []
    for share in inspected.by_component:
        part = share.size_bytes / total if total else 0.0
        name, drawn = share.name.replace("_", " "), bar(part, _BAR) or "▏"
        rows.append((name, size_text(share.size_bytes), f"{part:.1%}", drawn, ", ".join(share.formats[:4])))
    return [f"  {line}" for line in columns(rows, _FIGURES)]
