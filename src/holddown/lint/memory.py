"""Whether the command's settings fit its machine: the planner is asked for exactly these, and then for the nearest that
do."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from holddown.base.evidence import Known, SourceKind
from holddown.base.finding import Finding, Severity
from holddown.facts.machine import Gpu
from holddown.facts.model import ModelFacts
from holddown.lint.case import Case
from holddown.lint.planner_words import as_words, in_words
from holddown.lint.remark import Remark
from holddown.lint.sizes import Names, as_options, changes_of, sizes
from holddown.plan.choose import plan as choose
from holddown.plan.memory import batch_defaults
from holddown.plan.parallelism import Parallelism
from holddown.plan.plan import NoPlan, Plan
from holddown.plan.site import Site
from holddown.plan.wishes import Candidate, Wishes

_NO_SETTINGS = ("port", "served-model-name", "config")
_TOO_LONG = "plan.max-model-len"


@dataclass(frozen=True, slots=True)
class Room:
    """gpus: of the machine; none for a build for the CPU. fixes: settings that are needed for other reasons, taken as
    made."""

    case: Case
    model: ModelFacts
    site: Site
    gpus: tuple[Gpu, ...]
    candidate: Candidate
    split: Parallelism
    fixes: Mapping[str, str]

    @property
    def context(self) -> Names:
        return self.case.roles.context

    @property
    def share(self) -> Names:
        return self.case.roles.memory_share


def room_remarks(room: Room) -> Iterator[Remark]:
    settings = _settings(room)
    outcome = _planned(room, settings, _gpus(room))
    if isinstance(outcome, NoPlan):
        yield _too_large(room, outcome, _instead(room, settings))
        return
    too_long = [each for each in outcome.findings if each.code == _TOO_LONG]
    for each in too_long:
        yield _too_long(room, each, _instead(room, settings))
    if any(each.blocks for each in too_long):
        return
    users = {each.name for each in outcome.settings if each.source.kind is SourceKind.USER}
    for each in outcome.findings:
        if each.code.startswith("plan.remote-code"):
            yield Remark(replace(each, severity=Severity.WARN, do="read that code, then --trust-remote-code"))
        elif each not in too_long and each.subject in users and each.code.startswith("plan."):
            yield Remark(as_words(each))


def _planned(room: Room, settings: Mapping[str, str], gpus: tuple[int, ...] | None) -> Plan | NoPlan:
    wishes = Wishes(served_model_name=room.model.name, settings=tuple(settings.items()), gpus=gpus)
    return choose(room.model, room.site, (room.candidate,), wishes)


def _gpus(room: Room) -> tuple[int, ...] | None:
    """Those that the engine will take: the first that it sees."""
    there = [gpu.index for gpu in room.gpus]
    if not there:
        return None
    variable = room.case.command.variable("CUDA_VISIBLE_DEVICES")
    named = [int(each) for each in variable.value.text.split(",") if each.strip().isdecimal()] if variable else there
    return tuple([each for each in named if each in there][: room.split.world_size])


def _settings(room: Room) -> dict[str, str]:
    """Every option as a wish, and what the engine does where it is not told."""
    case, split = room.case, sizes(room.case, room.split)
    left_out = {*case.grammar.model_flags, *case.roles.host, *case.roles.api_key, *_NO_SETTINGS}
    left_out |= {name for names in split for name in names}
    wished: dict[str, str] = {}
    for given in case.arguments.given:
        judged = given.fault is None and given.flag is not None and not given.key
        if judged and given.name not in left_out and all(each.certain for each in given.values):
            wished[given.name] = given.values[0].text if given.values else "true" if given.on else "false"
    wished |= {names[0]: value for names, value in split.items()}
    wished = {**_untold(room), **wished}
    if wished.get(room.context[0]) in ("-1", "auto"):
        del wished[room.context[0]]
    return {**wished, **room.fixes}


def _untold(room: Room) -> dict[str, str]:
    """What the engine itself takes of that which the planner would choose."""
    facts, gpus = room.candidate.facts, room.gpus
    found: dict[str, str] = {}
    if isinstance(own := room.model.max_position_embeddings, Known):
        found[room.context[0]] = str(own.value)
    if room.share and isinstance(usual := facts.gpu_memory_utilization, Known):
        found[room.share[0]] = f"{usual.value:g}"
    if gpus and facts.knows_flag("max-num-seqs"):
        found["max-num-seqs"] = str(batch_defaults(gpus[0].total_bytes, gpus[0].name).max_num_seqs)
    if facts.knows_flag("speculative-config"):
        found["speculative-config"] = ""
    return {name: value for name, value in found.items() if room.case.role((name,)) is None}


def _instead(room: Room, settings: Mapping[str, str]) -> dict[Names, str]:
    """The settings with which it would fit, the fewest of them changed; none where nothing does. GPUs are only added
    for a context that somebody asked for."""
    split = tuple(sizes(room.case, room.split))
    asked = room.case.role(room.context) is not None
    share = tuple(each for each in (room.share,) if set(each) & set(settings))
    shorter = (room.context, *share)
    here = (share, shorter)
    elsewhere = (split, (*split, *share)) if asked else ()
    for let_go in (*here, *elsewhere, (*split, *shorter)):
        names = {name for each in let_go for name in each}
        kept = {name: value for name, value in settings.items() if name not in names}
        outcome = _planned(room, kept, _gpus(room) if let_go in here else None)
        if isinstance(outcome, Plan) and not any(each.blocks or each.code == _TOO_LONG for each in outcome.findings):
            found = _found(room, outcome, let_go)
            return {each: value for each, value in found.items() if settings.get(each[0]) != value}
    return {}


def _found(room: Room, outcome: Plan, let_go: Sequence[Names]) -> dict[Names, str]:
    """What the plan has for them; the engine's own share where it sets none."""
    found = sizes(room.case, outcome.parallelism)
    if isinstance(usual := room.candidate.facts.gpu_memory_utilization, Known):
        found[room.share] = f"{usual.value:g}"
    for names in (room.context, room.share):
        found.update((names, each.value) for each in outcome.settings if each.name in names)
    return {names: value for names, value in found.items() if names in let_go}


def _too_long(room: Room, finding: Finding, instead: Mapping[Names, str]) -> Remark:
    given, name = room.case.role(room.context), f"--{room.context[0]}"
    what = in_words(finding.what)
    what = what if given else f"without {name} it takes all that the model was made for: {what}"
    seen = room.case.seen(given.line if given else 0, "" if finding.seen.startswith("--set") else finding.seen)
    said = Finding("fit.context", finding.severity, name, what, seen, as_options(instead) or f"a shorter {name}")
    # where it may yet fit, the command stays as it was meant
    return Remark(said, changes_of(room.case, instead) if finding.blocks else ())


def _too_large(room: Room, outcome: NoPlan, instead: Mapping[Names, str]) -> Remark:
    reasons = [each for each in outcome.rejected if each.parallelism is not None] or list(outcome.rejected)
    gpus = room.gpus
    what = f"it does not fit: {in_words(reasons[0].why if reasons else outcome.what)}"
    seen = f"{room.split.text} on {len(gpus)} x {gpus[0].name}" if gpus else room.site.machine.hostname
    do = as_options(instead) or in_words("; ".join(outcome.do.splitlines()[:2]))
    return Remark(
        Finding("fit.memory", Severity.BLOCK, room.split.text, what, seen, do), changes_of(room.case, instead)
    )
