"""A plan as the JSON document of `plan --json`: short names that scripts can rely on, plain numbers or null."""

from typing import Any

from holddown.base.codec import dump
from holddown.base.evidence import Known, Unknown
from holddown.launch.spec import LaunchSpec
from holddown.plan.memory import MemoryBudget
from holddown.plan.parallelism import Parallelism
from holddown.plan.plan import Alternative, Figures, NoPlan, Plan, Rejected, Setting

_NO_FIGURES = dict.fromkeys(
    ("weights_bytes", "context_length", "kv_cache_tokens", "single_stream_tok_s", "throughput_tok_s")
)


def plan_document(plan: Plan | NoPlan, spec: LaunchSpec | None = None) -> dict[str, Any]:
    """JSON-ready. spec: the exact command of a plan.

    plan: null when there is none; then why_not says why, and do what would do.
    """
    return {
        "plan": None if isinstance(plan, NoPlan) else _plan(plan, spec),
        "why_not": plan.what if isinstance(plan, NoPlan) else "",
        "do": plan.do if isinstance(plan, NoPlan) else "",
        "rejected": [_rejected(each) for each in plan.rejected],
    }


def _plan(plan: Plan, spec: LaunchSpec | None) -> dict[str, Any]:
    name, _, version = plan.engine.partition("@")
    env = spec.env if spec else ()
    return {
        "engine": {"name": name, "version": version, "because": plan.engine_because},
        "model": plan.model_path,
        "gpus": list(plan.gpus),
        "parallelism": _split(plan.parallelism),
        "parallelism_because": plan.parallelism_because,
        "context_length": plan.context or None,
        "settings": [_setting(each) for each in plan.settings],
        "env": {each.name: each.value for each in env},
        "env_because": {each.name: each.because for each in env},
        "argv": list(spec.argv) if spec else [],
        "attention_backends": list(plan.attention_backends),
        "experts_backend": plan.experts_backend or None,
        "selector": plan.selector or None,
        "memory": _memory(plan),
        "workload": dump(plan.workload),
        "speed": dump(plan.speed.value) if isinstance(plan.speed, Known) else None,
        "findings": [dump(finding) for finding in plan.findings],
        "alternatives": [_alternative(each) for each in plan.alternatives],
        "unknown": _unknown(plan),
    }


def _split(split: Parallelism) -> dict[str, int]:
    """Sizes; 1 where a dimension is not used."""
    return {
        "tp": split.tensor_parallel_size,
        "pp": split.pipeline_parallel_size,
        "dp": split.data_parallel_size,
        "ep": split.expert_parallel_size,
        "dcp": split.decode_context_parallel_size,
    }


def _setting(setting: Setting) -> dict[str, str]:
    """flag: as on the command line, or a variable's name in capitals."""
    return {
        "flag": setting.name if setting.name.isupper() else f"--{setting.name}",
        "value": setting.value,
        "because": setting.because,
        "source": str(setting.source),
        "alternative": setting.alternative,
    }


def _memory(plan: Plan) -> dict[str, Any]:
    """Of the fullest GPU, then of each. Tokens are those that its KV cache holds; null where that is not known."""
    kv = plan.kv_cache
    known = kv if kv is not None and kv.tokens else None
    per_token = kv.bytes_per_token if kv is not None else None
    return {
        **_budget(plan.budget),
        "kv_cache_dtype": kv.dtype if kv else None,
        "kv_bytes_per_token": per_token.value if isinstance(per_token, Known) else None,
        "kv_cache_tokens": known.tokens if known else None,
        "kv_cache_tokens_low": known.tokens_low if known else None,
        "kv_cache_tokens_high": known.tokens_high if known else None,
        "sequences": known.sequences if known else None,
        "per_gpu": [{"gpu": gpu, **_budget(each)} for gpu, each in zip(plan.gpus, plan.per_gpu, strict=False)],
    }


def _budget(budget: MemoryBudget) -> dict[str, Any]:
    return {
        "device_bytes": budget.device_bytes,
        "capacity_bytes": budget.capacity_bytes,
        "weights_bytes": budget.weights_bytes,
        "weights_by_component": {each.component: each.size_bytes for each in budget.weights},
        "kv_cache_bytes": budget.kv_cache_bytes,
        "activation_bytes": budget.activation_bytes,
        "graph_bytes": budget.graph_bytes,
        "communication_bytes": budget.communication_bytes,
        "runtime_bytes": budget.runtime_bytes,
        "beyond_bytes": budget.beyond_bytes,
        "free_bytes": budget.free_bytes,
    }


def _unknown(plan: Plan) -> dict[str, str]:
    facts = {"speed": plan.speed}
    unknown = {name: fact.why for name, fact in facts.items() if isinstance(fact, Unknown)}
    if plan.kv_cache is not None and isinstance(plan.kv_cache.bytes_per_token, Unknown):
        unknown["memory.kv_bytes_per_token"] = plan.kv_cache.bytes_per_token.why
    return unknown


def _rejected(each: Rejected) -> dict[str, Any]:
    return {
        "candidate": each.candidate,
        "parallelism": _split(each.parallelism) if each.parallelism else None,
        "code": each.code,
        "what": each.why,
        **(_figures(each.figures) if each.figures else _NO_FIGURES),
    }


def _alternative(each: Alternative) -> dict[str, Any]:
    return {
        "candidate": each.text,
        "parallelism": _split(each.parallelism),
        "replicas": each.replicas,
        **_figures(each.figures),
    }


def _figures(figures: Figures) -> dict[str, Any]:
    return {
        "weights_bytes": figures.weights_bytes,
        "context_length": figures.context,
        "kv_cache_tokens": figures.kv_cache_tokens,
        "single_stream_tok_s": figures.single_stream_tok_s,
        "throughput_tok_s": figures.throughput_tok_s,
    }
