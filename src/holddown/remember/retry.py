"""What a start that failed teaches the next: a safe change of the plan, or why there is none."""

from dataclasses import dataclass

from holddown.base.evidence import SourceKind
from holddown.plan.plan import Plan, Setting
from holddown.plan.wishes import Edit, fraction_in
from holddown.remember.record import Deployment

MOST_RETRIES = 2
# What may be changed without a word of the user's: how much is held and by which code it is computed. Not what the
# weights are, what of the checkpoint is trusted, or who may ask; not a parser, which would read wrongly in silence.
_SAFE = frozenset({
    "max-model-len", "context-length", "ctx-size", "max-num-seqs", "max-running-requests", "max-num-batched-tokens",
    "chunked-prefill-size", "gpu-memory-utilization", "mem-fraction-static", "kv-cache-dtype", "block-size",
    "tensor-parallel-size", "attention-backend", "moe-backend", "moe-runner-backend", "enforce-eager",
    "disable-cuda-graph", "cuda-graph-max-bs", "disable-custom-all-reduce", "flash-attn",
    "enable-expert-parallel", "disable-shared-experts-fusion", "disable-flashinfer-autotune",
})  # fmt: skip
_KV = "kv-cache-dtype"
_SHARES = frozenset({"gpu-memory-utilization", "mem-fraction-static"})
_USUAL_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class Refused:
    """why: for a person, empty where no change is known at all. by_user: settings that are the user's own."""

    why: str
    by_user: tuple[str, ...] = ()


def next_edits(failed: Deployment, tried: tuple[Edit, ...], *, consent: bool) -> tuple[Edit, ...] | Refused:
    """The change that its diagnosis names. tried: by the starts before, each of which was another one. consent: also of
    what the user set."""
    status, plan = failed.status, failed.birth.plan
    if not status.edits or status.cause is None:
        return Refused("")
    words = " ".join(f"--set {name}={value}" for name, value in status.edits)
    if len({each.where for each in tried}) >= MOST_RETRIES:
        return Refused(f"it was changed and started again {MOST_RETRIES} times; {words} is left to you")
    if any((each.name, each.value) in status.edits for each in tried):
        return Refused(f"{words} was tried already")
    for name, value in status.edits:
        if why := _against(name, value, plan) or _wrong_way(name, value, plan, status.cause.code):
            return Refused(why)
    own = tuple(name for name, _ in status.edits if _by_user(plan.setting(name)))
    if own and not consent:
        return Refused(f"{', '.join(f'--set {name}' for name in own)} is yours: it is not changed unasked", own)
    where = f"start {failed.birth.id}, which failed ({status.cause.code})"
    return tuple(Edit(name, value, status.cause.what, where) for name, value in status.edits)


def _by_user(setting: Setting | None) -> bool:
    return setting is not None and setting.source.kind is SourceKind.USER


def _against(name: str, value: str, plan: Plan) -> str:
    """What forbids the change, empty for nothing."""
    there = plan.setting(name)
    if name not in _SAFE:
        return f"--set {name}={value} is left to you: it changes more than how the model is held"
    if there is not None and there.value == value:
        return f"{name} was {value} already"
    if name == _KV and _bits(value) <= _bits(there.value if there is not None else "auto"):
        return f"--set {name}={value} is left to you: the KV cache's precision is only ever raised"
    return ""


def _wrong_way(name: str, value: str, plan: Plan, code: str) -> str:
    """A share that is larger after memory ran out, or smaller where the KV cache had too little."""
    there = plan.setting(name)
    was = (fraction_in(there.value) if there is not None else None) or _USUAL_SHARE
    more, share = code == "engine.kv-cache-too-small", fraction_in(value)
    if name not in _SHARES or share is None or (share > was) == more:
        return ""
    return f"--set {name}={value} is left to you: it was {was:g}, and that is the wrong way"


def _bits(kv_cache_dtype: str) -> int:
    """auto is the model's own, or what the checkpoint asks for: more than any that is narrower by name."""
    if "fp4" in kv_cache_dtype or kv_cache_dtype.startswith("q4"):
        return 4
    return 8 if "8" in kv_cache_dtype else 16
