"""How an SGLang build would run a checkpoint: its memory rule, its limits, and the settings in its own words.

The search over splits, the sizes of weights and KV cache and the model of speed are the ones that vLLM's planner uses.
Source: SGLang 0.5.8 and 0.5.23; files are named at each rule.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from holddown.base.evidence import Known, Source, SourceKind, known_or
from holddown.base.finding import Finding, Severity
from holddown.base.units import GIB, size_text
from holddown.facts.engine import EngineFacts
from holddown.facts.kv_cache import KvDtype
from holddown.facts.machine import Gpu
from holddown.facts.model import ModelFacts
from holddown.facts.weight_groups import Component
from holddown.plan.build import Build
from holddown.plan.fit import Fit, Rules
from holddown.plan.limits import Limit
from holddown.plan.parallelism import Parallelism
from holddown.plan.plan import Setting
from holddown.plan.search import LimitsOf
from holddown.plan.settings import consent_settings, fabric_settings, findings_of, with_wishes
from holddown.plan.site import Site
from holddown.plan.wishes import Candidate, Wishes, number_in
from holddown.tables.load import engine_table

_OWN = {
    "max-model-len": "context-length",
    "gpu-memory-utilization": "mem-fraction-static",
    "max-num-seqs": "max-running-requests",
    "max-num-batched-tokens": "chunked-prefill-size",
    "tensor-parallel-size": "tp-size",
    "pipeline-parallel-size": "pp-size",
    "enable-expert-parallel": "ep-size",
    "enforce-eager": "disable-cuda-graph",
}
"""The search's words, which are vLLM's -> SGLang's. `tp-size` is an alias in 0.5.8 and the first name in 0.5.23."""
_SEARCHED_AROUND = frozenset(_OWN.values())
_NOT_COUNTED = (
    *("dp-size", "attn-dp-size", "enable-dp-attention", "attn-cp-size", "dcp-size", "moe-dp-size", "nnodes"),
    *("speculative-algorithm", "max-total-tokens", "enable-hierarchical-cache"),
)
"""Settings that change how many GPUs or how much memory it takes, in ways that the search does not know."""
_MOST_SHARE = 0.93
"""Source: launch commands published with measurements of NVFP4 models on GPUs of 96 GB have 0.93 to 0.95
(local-inference-lab/rtx6kpro)."""
_PLAIN = ("bf16", "f16", "f32")


@dataclass(frozen=True, slots=True)
class SglangBuild(Build):
    """wishes: in the search's words. asked: as the user said them."""

    asked: Wishes

    def limits(self, split: Parallelism) -> Sequence[Limit]:
        return (*Build.limits(self, split), *_limits(self.model, split))

    def rules(self, gpus: tuple[Gpu, ...], kv_of: Callable[[Parallelism], KvDtype], limits_of: LimitsOf) -> Rules:
        total = min(gpu.total_bytes for gpu in gpus)
        return Rules(
            kv_of,
            usual_share=usual_share(total),
            graphs_beyond=True,
            second_runner=False,
            profiled=False,
            limits_of=limits_of,
            static_share=True,
            most_share=_MOST_SHARE,
            batch_tokens=chunked_prefill_tokens(total),
        )

    def settings(self, fit: Fit) -> tuple[Setting, ...]:
        return with_wishes(tuple(self._ours(fit)), _canonical(self.asked, self.candidate.facts), _SEARCHED_AROUND)

    def findings(self, settings: Sequence[Setting], fit: Fit) -> tuple[Finding, ...]:
        words = {own: name for name, own in _OWN.items()}
        searched = tuple(replace(each, name=words.get(each.name, each.name)) for each in settings)
        found = findings_of(self.model, self.candidate, searched, fit, self.wishes)
        own = tuple(_in_own_words(each) for each in found)
        return (*own, *_not_counted(settings), *_no_drafts(self.model, settings), self._any_model())

    def _any_model(self) -> Finding:
        what = "SGLang answers under any model name: a client that asks for another model is not told"
        seen = engine_table(self.candidate.engine.kind).any_model_source
        return Finding("endpoint.any-model", Severity.NOTE, self.asked.served_model_name, what, seen)

    def _ours(self, fit: Fit) -> Iterator[Setting]:
        budget = Source(SourceKind.DERIVED, "memory budget")
        if fit.context:
            limit = self.model.max_position_embeddings
            source = limit.source if isinstance(limit, Known) and limit.value == fit.context else budget
            yield Setting("context-length", str(fit.context), fit.why_context, source)
        yield from _split(fit, budget)
        if fit.gpus:
            yield _share(fit)
            yield Setting("max-running-requests", str(fit.max_num_seqs), fit.why_seqs, budget)
        else:
            yield from _on_cpu(fit, budget)
        yield from fit.settings
        yield from _apart(self.model)
        yield from fabric_settings(fit)
        yield from consent_settings(self.model, self.asked)
        if self.candidate.facts.knows_flag("uvicorn-access-log-exclude-prefixes"):
            because = "the supervisor asks /health all along; a log line for each would bury the others"
            source = Source(SourceKind.PROBE, f"the flags of {self.candidate.engine.ref}")
            yield Setting("uvicorn-access-log-exclude-prefixes", "/health /metrics", because, source)


def sglang_build(model: ModelFacts, site: Site, candidate: Candidate, wishes: Wishes) -> SglangBuild:
    """Its planner: the user's settings may be called by any of their names."""
    return SglangBuild(model, site, candidate, _searched(_canonical(wishes, candidate.facts)), wishes)


# --- names -------------------------------------------------------------------------------------------------------


def _canonical(wishes: Wishes, facts: EngineFacts) -> Wishes:
    """`tensor-parallel-size` and `tp` are `tp-size`: what is one option is one setting."""
    ours = {flag.name: own for own in (*_OWN.values(), *_NOT_COUNTED) if (flag := facts.flag(own))}
    named = tuple((_called(name, ours, facts), value) for name, value in wishes.settings)
    return replace(wishes, settings=named)


def _called(name: str, ours: dict[str, str], facts: EngineFacts) -> str:
    flag = facts.flag(name)
    return ours.get(flag.name, name) if flag else name


def _searched(wishes: Wishes) -> Wishes:
    """In the search's words; what it does not know is left out."""
    words = {own: name for name, own in _OWN.items()}
    settings = []
    for own, value in wishes.settings:
        name = words.get(own, own)
        if name == "enable-expert-parallel":
            settings.append((name, "true" if (number_in(value) or 1) > 1 else "false"))
        elif own not in _NOT_COUNTED:
            settings.append((name, value))
    return replace(wishes, settings=tuple(settings))


def _in_own_words(finding: Finding) -> Finding:
    """A finding about one of the search's settings names SGLang's instead."""
    subject, do = _OWN.get(finding.subject, finding.subject), finding.do
    for name, own in _OWN.items():
        do = do.replace(name, own)
    return replace(finding, subject=subject, do=do)


def _not_counted(settings: Sequence[Setting]) -> Iterator[Finding]:
    for each in settings:
        by_user = each.source.kind is SourceKind.USER
        if by_user and each.name in _NOT_COUNTED and each.value not in ("0", "1", "false"):
            what = f"holddown does not count with {each.name}: memory, speed and GPUs are those without it"
            yield Finding("plan.not-counted", Severity.WARN, each.name, what, str(each.source))


def _no_drafts(model: ModelFacts, settings: Sequence[Setting]) -> Iterator[Finding]:
    if model.draft_layers and not any(each.name == "speculative-algorithm" for each in settings):
        what = "the checkpoint has a draft layer, and holddown does not plan SGLang's speculative decoding"
        do = (
            "--set speculative-algorithm=EAGLE --set speculative-num-steps=3 --set speculative-eagle-topk=1 "
            "--set speculative-num-draft-tokens=4"
        )
        seen = "a published launch of GLM-5.1 has these values (voipmonitor/rtx6kpro models/glm5.1)"
        yield Finding("plan.drafts", Severity.NOTE, model.name, what, seen, do)


# --- rules -------------------------------------------------------------------------------------------------------


_BY_SIZE = ((20, 2048, 8), (35, 2048, 80), (60, 4096, 160), (160, 8192, 512))
"""Below so many GiB: tokens of one step and the largest batch with a CUDA graph, unasked, on four GPUs or more.

Source: 0.5.8 srt/server_args.py _handle_gpu_memory_settings; 0.5.23 arg_groups/memory_hook.py has more below 35 GiB.
"""
_LARGER = (16384, 512)


def chunked_prefill_tokens(total_bytes: int) -> int:
    """Of one step, unasked."""
    return _unasked(total_bytes)[0]


def _unasked(total_bytes: int) -> tuple[int, int]:
    return next(((tokens, batch) for below, tokens, batch in _BY_SIZE if total_bytes < below * GIB), _LARGER)


def usual_share(total_bytes: int) -> float:
    """`--mem-fraction-static` as SGLang works it out for a GPU of this size under eight-fold parallelism.

    Activations of a chunk, the CUDA graphs of its largest batch and a constant are kept free, 10 GiB at least on large
    GPUs. Source: as `_BY_SIZE`; 0.5.23 takes another rule where it sizes the KV cache after its graphs.
    """
    mib = total_bytes / 2**20
    tokens, batch = _unasked(total_bytes)
    reserved = 512 + 1.5 * tokens + 2 * batch + 1024
    if total_bytes > 60 * GIB:
        reserved = max(reserved, 10 * 1024)
    return round(max(0.05, (mib - reserved) / mib), 3)


def _limits(model: ModelFacts, split: Parallelism) -> Iterator[Limit]:
    ep = split.expert_parallel_size
    if model.moe is not None and ep > 1 and model.moe.num_experts % ep:
        what = f"{model.moe.num_experts} experts cannot be divided by {ep} ranks"
        yield Limit("ep.experts", what, "0.5.8 srt/layers/moe/fused_moe_triton/layer.py")
    if split.data_parallel_size > 1:
        what = "holddown does not plan SGLang's data parallelism, in which attention alone is divided"
        yield Limit("dp.not-planned", what, "")
    if split.decode_context_parallel_size > 1:
        yield Limit("dcp.not-planned", "holddown does not plan SGLang's decode context parallelism", "")


# --- settings ----------------------------------------------------------------------------------------------------


def _split(fit: Fit, source: Source) -> Iterator[Setting]:
    split = fit.parallelism
    because = f"{split.text}: {fit.why_parallel}"
    sizes = (
        ("tp-size", split.tensor_parallel_size),
        ("pp-size", split.pipeline_parallel_size),
        ("ep-size", split.expert_parallel_size),
    )
    for name, size in sizes:
        if size > 1:
            yield Setting(name, str(size), because, source)


def _share(fit: Fit) -> Setting:
    budget = fit.budget
    usual = usual_share(budget.device_bytes)
    share = usual if fit.share is None else fit.share
    left = size_text(int(budget.capacity_bytes * (1 - share) / share))
    rule = "SGLang's own rule for a GPU of this size" if share == usual else fit.why_share
    because = (
        f"{rule}: of what is free before loading, weights and KV cache take this share; {left} stay for activations "
        "and CUDA graphs"
    )
    source = Source(SourceKind.TABLE, "0.5.8 srt/server_args.py, 0.5.23 arg_groups/memory_hook.py")
    return Setting("mem-fraction-static", f"{share:g}", because, source, "left out, it is worked out at start")


def _on_cpu(fit: Fit, source: Source) -> Iterator[Setting]:
    yield Setting("device", "cpu", "a build for the CPU", Source(SourceKind.DERIVED, "the engine's environment"))
    if fit.kv_cache.tokens:
        otherwise = "left out, the engine takes most of the RAM"
        yield Setting("max-total-tokens", str(fit.kv_cache.tokens), fit.why_kv, source, otherwise)


def _apart(model: ModelFacts) -> Iterator[Setting]:
    """Shared experts that are kept in another format than the routed ones cannot run in their kernel.

    Source: 0.5.8 models/deepseek_v2.py fuses them without a look at their format; 0.5.23
    layers/quantization/modelopt_quant.py can_fuse_shared_expert looks at the names that ModelOpt left out.
    """
    shared = _formats(model, Component.SHARED_EXPERTS)
    routed = _formats(model, Component.ROUTED_EXPERTS)
    if shared and routed and shared <= set(_PLAIN) and not routed & set(_PLAIN):
        because = (
            f"the shared experts are {_said(shared)} in this checkpoint and the routed ones {_said(routed)}: "
            "one kernel cannot run both, so their fusion must be off"
        )
        where = known_or(model.quantization, "") or "its tensors"
        source = Source(SourceKind.FILE, f"formats of the checkpoint's tensors ({where})")
        yield Setting("disable-shared-experts-fusion", "true", because, source, "left out, releases differ")


def _formats(model: ModelFacts, component: Component) -> set[str]:
    return {group.format for group in model.weights if group.component is component}


def _said(formats: set[str]) -> str:
    return " and ".join(sorted(each.upper() for each in formats))
