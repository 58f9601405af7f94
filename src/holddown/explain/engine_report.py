"""What a running engine says of itself, beside what was planned."""

from collections.abc import Iterator

from holddown.base.units import count_text, size_text
from holddown.facts.engine_report import EngineReport
from holddown.plan.plan import Plan


def report_lines(report: EngineReport | None, plan: Plan) -> Iterator[str]:
    """A line each for the kernels and the KV cache; nothing of an engine that says nothing."""
    if report is None:
        return
    if report.attention:
        yield f"  attention {', '.join(report.attention)}{_planned(report.attention, plan.attention_backends)}"
    if report.experts:
        planned = (plan.experts_backend,) if plan.experts_backend else ()
        yield f"  experts   {', '.join(report.experts)}{_planned(report.experts, planned)}"
    tokens = report.setting("cache_config.kv_cache_size_tokens")
    parts = [
        f"{count_text(int(tokens))} tokens" if tokens.isdecimal() else "",
        size_text(report.kv_bytes) if report.kv_bytes else "",
        report.setting("cache_config.cache_dtype"),
    ]
    if report.kv_blocks:
        yield f"  KV cache  {', '.join(filter(None, (*parts, f'{report.kv_blocks} blocks')))} (the engine's own word)"


def _planned(said: tuple[str, ...], planned: tuple[str, ...]) -> str:
    return f" (planned: {', '.join(planned)})" if planned and set(said) != set(planned) else ""
