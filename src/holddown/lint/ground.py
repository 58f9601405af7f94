"""The command on its machine with its checkpoint: what the build can run, and how it can be divided."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from holddown.base.evidence import known_or
from holddown.base.finding import Finding, Severity
from holddown.facts.engine import EngineFacts
from holddown.facts.model import ModelFacts
from holddown.lint.case import Case
from holddown.lint.memory import Room, room_remarks
from holddown.lint.planner_words import as_words
from holddown.lint.remark import Remark
from holddown.lint.sizes import as_options, changes_of, resized, split_of, unlike, within
from holddown.lint.together import elsewhere, visible_gpus
from holddown.plan.build_fit import build_findings
from holddown.plan.choose import build_unfit
from holddown.plan.compat import KvAnswer, Wish, kv_choices
from holddown.plan.limits import NO_EXPERTS, Limit, parallel_limits
from holddown.plan.parallelism import Parallelism
from holddown.plan.site import Site
from holddown.plan.wishes import Candidate


def ground_remarks(
    case: Case, model: ModelFacts | None, site: Site | None, candidate: Candidate | None
) -> Iterator[Remark]:
    """model: None where the checkpoint was not read. site: None where no machine with GPUs is named or here."""
    if model is None or candidate is None or not case.table.planned:
        return
    if site is not None and (unfit := build_unfit(candidate, site.machine)):
        yield _unfit(candidate, unfit)
        return
    on_cpu = known_or(candidate.facts.device, "") == "cpu"
    gpus = site.machine.gpus if site is not None and not on_cpu else ()
    capability = known_or(gpus[0].compute_capability, "") if gpus else ""
    found = [Remark(as_words(each)) for each in build_findings(model, candidate.facts, "cpu" if on_cpu else capability)]
    split = split_of(case)
    if split is None or found:
        yield from found
        return
    there = visible_gpus(case, len(gpus))
    if gpus and not elsewhere(case):
        split = within(split, there)
    asking = _Asking(case, model, candidate.facts, split, _mended(split, model, candidate.facts))
    if case.table.ruled:
        found += asking.limits()
        found += asking.attention(capability) if capability else []
    yield from found
    hopeless = any(each.finding.blocks and not each.changes for each in found)
    if site is not None and not hopeless and (not gpus or split.world_size <= there):
        yield from room_remarks(Room(case, model, site, gpus, candidate, asking.mended, asking.fixes))


def _unfit(candidate: Candidate, unfit: str) -> Remark:
    """What is on record is one of a release's packages, and the command may be for another."""
    ref = candidate.engine.ref
    if not candidate.engine.recorded:
        return Remark(Finding("fit.build", Severity.BLOCK, ref, f"{ref} cannot run here: it is {unfit}"))
    return Remark(Finding("lint.other-package", Severity.NOTE, ref, f"what fits was not judged: {ref} is {unfit}"))


def _mended(split: Parallelism, model: ModelFacts, facts: EngineFacts) -> Parallelism:
    """The nearest that the engine's rules allow: with experts whole, or cut, or on fewer GPUs; unchanged for none."""
    tp, dp, given = split.tensor_parallel_size, split.data_parallel_size, split.expert_parallel_size > 1
    ways = dict.fromkeys((given, model.moe is not None and not given))
    smaller = [each for each in range(tp, 0, -1) if each % split.decode_context_parallel_size == 0]
    for tried in (resized(split, each, dp, experts_whole=way) for each in smaller for way in ways):
        limits = parallel_limits(model, facts, tried)
        # of other sizes, none that works but works less well
        if not any(limit.blocks or tried.tensor_parallel_size != tp for limit in limits):
            return tried
    return split


@dataclass(frozen=True, slots=True)
class _Asking:
    """mended: the split as the rules allow it. fixes: other settings that are found to be needed."""

    case: Case
    model: ModelFacts
    facts: EngineFacts
    split: Parallelism
    mended: Parallelism
    fixes: dict[str, str] = field(default_factory=dict)

    def limits(self) -> list[Remark]:
        found = list(parallel_limits(self.model, self.facts, self.split))
        experts = self.case.role(self.case.roles.expert_parallel)
        if self.model.moe is None and experts is not None and experts.on and self.split.expert_parallel_size == 1:
            found.append(NO_EXPERTS)  # of one rank, too
        return [self._limit(limit) for limit in found]

    def _limit(self, limit: Limit) -> Remark:
        severity = Severity.BLOCK if limit.blocks else Severity.WARN
        instead = unlike(self.case, self.split, self.mended) if limit.blocks else {}
        if limit is NO_EXPERTS:
            instead[self.case.roles.expert_parallel] = "false"
        what, do = f"{self.split.text}: {limit.what}", as_options(instead)
        changes = changes_of(self.case, instead)
        return Remark(Finding("fit.split", severity, self.split.text, what, limit.source, do), changes)

    def attention(self, capability: str) -> list[Remark]:
        """Whether a backend takes the KV cache that was asked for, or that `auto` would be."""
        dtype = self.case.text(self.case.roles.kv_cache_dtype)
        if dtype and self.facts.kv_cache_dtypes and dtype not in self.facts.kv_cache_dtypes:
            return []  # said of the option itself
        wished = "" if dtype == "auto" else dtype
        wish = Wish(wished, self.case.text(self.case.roles.attention_backend))
        answer = kv_choices(self.model, self.facts, capability, wish, self.split)
        return [self._raised(answer)] if not wished and answer.setting is not None else self._refused(answer)

    def _refused(self, answer: KvAnswer) -> list[Remark]:
        given = self.case.role(self.case.roles.kv_cache_dtype)
        works = answer.choices[0].dtype if answer.choices else ""
        change = self.case.put(self.case.roles.kv_cache_dtype, works) if given is not None and works else ()
        refused = any(each.code == "compat.kv-cache-dtype" for each in answer.findings)
        if refused and change:
            self.fixes["kv-cache-dtype"] = works
        return [
            Remark(as_words(each), change if each.code == "compat.kv-cache-dtype" else ())
            for each in answer.findings
            if each.code != "compat.kv-narrowed"
        ]

    def _raised(self, answer: KvAnswer) -> Remark:
        setting = answer.setting
        assert setting is not None
        self.fixes[setting.name] = setting.value
        words = f"--{setting.name} {setting.value}"
        what = f"it does not start without {words}: {setting.because}"
        given = self.case.role(self.case.roles.kv_cache_dtype)
        seen = "; ".join(filter(None, (str(setting.source), setting.alternative)))
        seen = self.case.seen(given.line if given else 0, seen)
        finding = Finding("fit.kv-cache-dtype", Severity.BLOCK, f"--{setting.name}", what, seen, words)
        return Remark(finding, self.case.put((setting.name,), setting.value))
