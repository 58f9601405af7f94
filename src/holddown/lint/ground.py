"""The command on its machine with its checkpoint: what the build can run, and how it can be divided."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from holddown.base.evidence import known_or
from holddown.base.finding import Finding, Severity
from holddown.facts.engine import EngineFacts
from holddown.facts.model import ModelFacts
from holddown.lint.case import Case
from holddown.lint.memory import Room, room_remarks
from holddown.lint.planner_words import as_words
from holddown.lint.remark import Change, Remark
from holddown.lint.together import visible_gpus
from holddown.plan.build_fit import build_findings
from holddown.plan.compat import KvAnswer, Wish, kv_choices
from holddown.plan.limits import Limit, parallel_limits
from holddown.plan.parallelism import Parallelism
from holddown.plan.site import Site
from holddown.plan.wishes import Candidate

_EXPERTS = "enable-expert-parallel"


def ground_remarks(
    case: Case, model: ModelFacts | None, site: Site | None, candidate: Candidate | None
) -> Iterator[Remark]:
    """model: None where the checkpoint was not read. site: None where no machine with GPUs is named or here."""
    if model is None or candidate is None or not case.table.planned:
        return
    gpus = site.machine.gpus if site is not None else ()
    capability = known_or(gpus[0].compute_capability, "") if gpus else ""
    on_cpu = known_or(candidate.facts.device, "") == "cpu"
    found = [Remark(as_words(each)) for each in build_findings(model, candidate.facts, "cpu" if on_cpu else capability)]
    split = _split(case)
    if split is None or found:
        yield from found
        return
    asking = _Asking(case, model, candidate.facts, split)
    if case.table.ruled:
        found += asking.limits()
        found += asking.attention(capability) if capability else []
    yield from found
    hopeless = any(each.finding.blocks and not each.changes for each in found)
    if site is None or hopeless or (gpus and split.world_size > visible_gpus(case, len(gpus))):
        return
    yield from room_remarks(Room(case, model, site, candidate, asking.mended, asking.fixes))


def _split(case: Case) -> Parallelism | None:
    """None where a size is not known here, or they contradict each other, which is said elsewhere."""
    roles = case.roles
    names = (roles.tensor_parallel, roles.pipeline_parallel, roles.data_parallel, roles.decode_context_parallel)
    tp, pp, dp, dcp = (case.count(each) for each in names)
    if not tp or not pp or not dp or not dcp or tp % dcp:
        return None
    experts = case.role(roles.expert_parallel)
    size = case.count(roles.expert_parallel)  # None of a switch: the engine divides them over all ranks
    divided = experts is not None and experts.on and size != 1
    return Parallelism(tp, pp, dp, tp * dp if divided else 1, dcp)


@dataclass(frozen=True, slots=True)
class _Asking:
    """fixes: settings that are found to be needed."""

    case: Case
    model: ModelFacts
    facts: EngineFacts
    split: Parallelism
    fixes: dict[str, str] = field(default_factory=dict)

    @property
    def mended(self) -> Parallelism:
        """The split with experts divided, where that is among the fixes."""
        ranks = self.split.tensor_parallel_size * self.split.data_parallel_size
        return replace(self.split, expert_parallel_size=ranks) if _EXPERTS in self.fixes else self.split

    def limits(self) -> list[Remark]:
        return [self._limit(limit) for limit in parallel_limits(self.model, self.facts, self.split)]

    def _limit(self, limit: Limit) -> Remark:
        severity = Severity.BLOCK if limit.blocks else Severity.WARN
        given = self.case.role(self.case.roles.expert_parallel)
        do, changes = "", tuple[Change, ...]()
        if limit.code == "ep.dense" and given is not None:
            do, changes = f"leave {given.written} out", (Change(*given.at),)
            self.fixes[_EXPERTS] = "false"
        elif limit.code in ("tp.block", "tp.group") and given is None and self._whole_experts_do():
            do, changes = f"--{_EXPERTS}", self.case.added(f"--{_EXPERTS}")
            self.fixes[_EXPERTS] = "true"
        return Remark(
            Finding("fit.split", severity, self.split.text, f"{self.split.text}: {limit.what}", limit.source, do),
            changes,
        )

    def _whole_experts_do(self) -> bool:
        """Whether nothing forbids the same split with every expert on one rank."""
        ranks = self.split.tensor_parallel_size * self.split.data_parallel_size
        whole = replace(self.split, expert_parallel_size=ranks)
        return not any(limit.blocks for limit in parallel_limits(self.model, self.facts, whole))

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
