"""Where memory goes, a bar for each GPU that differs from its neighbour."""

from holddown.base.units import count_text, size_text
from holddown.explain.plan_text import devices, memory_parts
from holddown.explain.report.markup import Html, joined, section, table, tag
from holddown.explain.report.told import Told
from holddown.plan.memory import MemoryBudget
from holddown.plan.plan import Plan


def memory(told: Told) -> Html:
    plan = told.deployment.birth.plan
    shown = [(f"GPU {name}", budget) for name, budget in devices(plan)] or [
        ("each GPU" if plan.gpus else "RAM", plan.budget)
    ]
    bars = [_bar(name, budget, _parts(plan, budget)) for name, budget in shown]
    budgets = [budget for _, budget in shown]
    parts = {label: None for budget in budgets for label, _ in _parts(plan, budget)}
    rows = [
        [_key(number, label), *(size_text(dict(_parts(plan, budget)).get(label, 0)) for budget in budgets)]
        for number, label in enumerate(parts)
    ]
    rows.append(["left of its share", *(size_text(budget.free_bytes) for budget in budgets)])
    figures = table("What is planned for each device", ("part", *(name for name, _ in shown)), rows)
    return section("memory", "Where memory goes", *bars, figures, _cache(told, plan))


def _parts(plan: Plan, budget: MemoryBudget) -> list[tuple[str, int]]:
    """What a GPU's runtime is called, a CPU engine's own processes are."""
    of_cpu = {"context and NCCL": "the engine's own processes"} if not plan.gpus else {}
    return [(of_cpu.get(label, label), size) for label, size in memory_parts(budget)]


def _bar(name: str, budget: MemoryBudget, parts: list[tuple[str, int]]) -> Html:
    whole = budget.device_bytes or budget.capacity_bytes
    spans = [
        tag("span", style=f"width:{size / whole:.2%};background:var(--part-{number})")
        for number, (_, size) in enumerate(parts)
        if whole
    ]
    said = ", ".join(f"{label} {size_text(size)}" for label, size in parts)
    bar = tag("div", *spans, class_="bar", role="img", aria_label=f"{name}, {size_text(whole)}: {said}")
    used = f"{size_text(budget.used_bytes)} of {size_text(whole)}, as planned"
    return joined([tag("div", tag("strong", name), " ", tag("span", used, class_="soft")), bar])


def _key(number: int, label: str) -> Html:
    return joined([tag("span", class_="key", style=f"background:var(--part-{number})", aria_hidden="true"), label])


def _cache(told: Told, plan: Plan) -> Html:
    """How many tokens the KV cache holds: planned, and by the engine's own word."""
    kv, report = plan.kv_cache, told.deployment.status.report
    said = report.setting("cache_config.kv_cache_size_tokens") if report is not None else ""
    texts = []
    if kv is not None and kv.tokens:
        band = f" ({count_text(kv.tokens_low)} to {count_text(kv.tokens_high)})" if kv.tokens_low < kv.tokens else ""
        texts.append(f"The KV cache ({kv.dtype}) was planned to hold {count_text(kv.tokens)} tokens{band}.")
    if said.isdecimal():
        texts.append(f"The engine says that it holds {count_text(int(said))}.")
    return tag("p", " ".join(texts)) if texts else Html()
