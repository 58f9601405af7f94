"""A user's setting stays as it was given; what it contradicts is said."""

from holddown.base.evidence import Known, known_or
from holddown.base.finding import Finding, Severity
from holddown.base.units import size_text
from holddown.facts.model import ModelFacts
from holddown.plan.fit import Fit
from holddown.plan.plan import Setting
from holddown.plan.wishes import fraction_in, number_in
from holddown.tables.load import engine_table

_COUNTS = (
    "max-model-len",
    "tensor-parallel-size",
    "pipeline-parallel-size",
    "data-parallel-size",
    "decode-context-parallel-size",
    "kv-cache-memory-bytes",
    "max-num-seqs",
    "max-num-batched-tokens",
)
_AS_LONG_AS_FITS = ("-1", "auto")
"""Of max-model-len. Source: vLLM config/model.py."""


def contradiction(setting: Setting, model: ModelFacts, fit: Fit, kind: str) -> Finding | None:
    """What a setting of the user's says against a fact, or against itself. Blocks where the engine, of this kind, will
    refuse."""
    if setting.name in _COUNTS:
        count = number_in(setting.value)
        if setting.name == "max-model-len" and setting.value in _AS_LONG_AS_FITS:
            return None
        if not count:
            what = f"{setting.value!r} is no count"
            return _said(setting, what, str(setting.source), Severity.BLOCK)
        return _count(setting, count, model, fit, kind)
    if setting.name == "gpu-memory-utilization" and fraction_in(setting.value) is None:
        what = f"{setting.value!r} is no share of a GPU's memory: above 0, at most 1"
        return _said(setting, what, str(setting.source), Severity.BLOCK)
    return None


def _count(setting: Setting, count: int, model: ModelFacts, fit: Fit, kind: str) -> Finding | None:
    heads = known_or(model.num_attention_heads, 0)
    if setting.name == "max-model-len":
        return _context(setting, count, model, fit, kind)
    if setting.name == "tensor-parallel-size" and heads % count:
        what = f"{heads} attention heads cannot be split over {count} GPUs; the engine will refuse"
        return _said(setting, what, "config.json num_attention_heads", Severity.BLOCK)
    if setting.name == "kv-cache-memory-bytes" and count > fit.budget.capacity_bytes:
        free = f"{size_text(fit.budget.capacity_bytes)} free"
        return _said(setting, f"{size_text(count)} are more than is free", free)
    return None


def _context(setting: Setting, tokens: int, model: ModelFacts, fit: Fit, kind: str) -> Finding | None:
    limit, shorter = model.max_position_embeddings, engine_table(kind).shorter_source
    if fit.context < tokens and shorter:
        return _said(setting, f"{fit.why_context}: longer requests will be refused", shorter)
    if fit.context < tokens:
        # on a CPU the KV cache is ours to size, so it is certain; on a GPU the engine's profiling has the last word,
        # within the band
        certain = not fit.gpus or tokens > fit.kv_cache.tokens_high
        return _said(setting, fit.why_context, str(setting.source), Severity.BLOCK if certain else Severity.WARN)
    if isinstance(limit, Known) and tokens > limit.value:
        return _said(setting, f"{tokens} tokens are more than the {limit.value} it was made for", limit.source.where)
    return None


def _said(setting: Setting, what: str, seen: str, severity: Severity = Severity.WARN) -> Finding:
    return Finding(f"plan.{setting.name}", severity, setting.name, what, seen, f"leave out --set {setting.name}")
