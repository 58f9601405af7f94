"""Whether the command's settings fit its machine: the planner is asked for exactly these, and then for the nearest that
do."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from holddown.base.evidence import Known, SourceKind
from holddown.base.finding import Finding, Severity
from holddown.facts.model import ModelFacts
from holddown.lint.case import Case
from holddown.lint.options import Option, is_switch
from holddown.lint.planner_words import as_words, in_words
from holddown.lint.remark import Change, Remark
from holddown.plan.choose import plan as choose
from holddown.plan.parallelism import Parallelism
from holddown.plan.plan import NoPlan, Plan
from holddown.plan.site import Site
from holddown.plan.wishes import Candidate, Wishes

_NO_SETTINGS = ("port", "served-model-name", "config")
_Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Room:
    """fixes: settings that are needed for other reasons, taken as made."""

    case: Case
    model: ModelFacts
    site: Site
    candidate: Candidate
    split: Parallelism
    fixes: Mapping[str, str]

    @property
    def context(self) -> _Names:
        return self.case.roles.context

    def sizes(self, split: Parallelism) -> dict[_Names, str]:
        """Each option that says how the model is split, with its value for this split."""
        roles = self.case.roles
        sizes = {
            roles.tensor_parallel: split.tensor_parallel_size,
            roles.pipeline_parallel: split.pipeline_parallel_size,
            roles.data_parallel: split.data_parallel_size,
            roles.decode_context_parallel: split.decode_context_parallel_size,
        }
        found = {names: str(size) for names, size in sizes.items() if names}
        if roles.expert_parallel:
            found[roles.expert_parallel] = self._experts(split.expert_parallel_size)
        return found

    def _experts(self, size: int) -> str:
        """A switch with some engines, a number of ranks with others."""
        options = self.case.options
        found = options.find(f"--{self.case.roles.expert_parallel[0]}") if options else None
        if isinstance(found, Option) and is_switch(found.flag):
            return "true" if size > 1 else "false"
        return str(size)


def room_remarks(room: Room) -> Iterator[Remark]:
    settings = _settings(room)
    outcome = _planned(room, settings, _gpus(room))
    if isinstance(outcome, NoPlan):
        yield _too_large(room, outcome, _instead(room, settings))
        return
    too_long = [each for each in outcome.findings if each.subject in room.context and each.blocks]
    if too_long:
        yield _too_long(room, too_long[0], _instead(room, settings))
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
    there = [gpu.index for gpu in room.site.machine.gpus]
    if not there:
        return None
    variable = room.case.command.variable("CUDA_VISIBLE_DEVICES")
    named = [int(each) for each in variable.value.text.split(",") if each.strip().isdecimal()] if variable else there
    return tuple([each for each in named if each in there][: room.split.world_size])


def _settings(room: Room) -> dict[str, str]:
    """Every option as a wish, and what the engine does where it is not told."""
    case, sizes = room.case, room.sizes(room.split)
    left_out = {*case.grammar.model_flags, *case.roles.host, *case.roles.api_key, *_NO_SETTINGS}
    left_out |= {name for names in sizes for name in names}
    wished: dict[str, str] = {}
    for given in case.arguments.given:
        judged = given.fault is None and given.flag is not None and not given.key
        if judged and given.name not in left_out and all(each.certain for each in given.values):
            wished[given.name] = given.values[0].text if given.values else "true" if given.on else "false"
    wished |= {names[0]: value for names, value in sizes.items()}
    own = room.model.max_position_embeddings
    if isinstance(own, Known) and case.role(room.context) is None:
        wished[room.context[0]] = str(own.value)
    if wished.get(room.context[0]) in ("-1", "auto"):
        del wished[room.context[0]]
    return {**wished, **room.fixes}


def _instead(room: Room, settings: Mapping[str, str]) -> dict[_Names, str]:
    """The settings with which it would fit, the fewest of them changed; none where nothing does. A context that nobody
    asked for is not kept."""
    sizes = tuple(room.sizes(room.split))
    asked = room.case.role(room.context) is not None
    for let_go in ((room.context,), *((sizes,) if asked else ()), (*sizes, room.context)):
        names = {name for each in let_go for name in each}
        kept = {name: value for name, value in settings.items() if name not in names}
        outcome = _planned(room, kept, _gpus(room) if let_go == (room.context,) else None)
        if isinstance(outcome, Plan) and not any(each.blocks for each in outcome.findings):
            found = _found(room, outcome, let_go)
            return {each: value for each, value in found.items() if settings.get(each[0]) != value}
    return {}


def _found(room: Room, outcome: Plan, let_go: Sequence[_Names]) -> dict[_Names, str]:
    found = {names: value for names, value in room.sizes(outcome.parallelism).items() if names in let_go}
    context = next((each for each in outcome.settings if each.name in room.context), None)
    if room.context in let_go and context is not None:
        found[room.context] = context.value
    return found


def _changes(case: Case, instead: Mapping[_Names, str]) -> tuple[Change, ...]:
    return tuple(change for names, value in instead.items() for change in case.put(names, value))


def _do(instead: Mapping[_Names, str]) -> str:
    words = {"true": "--{}", "false": "without --{}"}
    return " ".join(words.get(value, f"--{{}} {value}").format(names[0]) for names, value in instead.items())


def _too_long(room: Room, finding: Finding, instead: Mapping[_Names, str]) -> Remark:
    given, name = room.case.role(room.context), f"--{room.context[0]}"
    what = in_words(finding.what)
    what = what if given else f"without {name} it takes all that the model was made for: {what}"
    seen = room.case.seen(given.line if given else 0, "" if finding.seen.startswith("--set") else finding.seen)
    said = Finding("fit.context", Severity.BLOCK, name, what, seen, _do(instead))
    return Remark(said, _changes(room.case, instead))


def _too_large(room: Room, outcome: NoPlan, instead: Mapping[_Names, str]) -> Remark:
    reasons = [each for each in outcome.rejected if each.parallelism is not None] or list(outcome.rejected)
    gpus = room.site.machine.gpus
    what = f"it does not fit: {in_words(reasons[0].why if reasons else outcome.what)}"
    seen = f"{room.split.text} on {len(gpus)} x {gpus[0].name}" if gpus else room.site.machine.hostname
    do = _do(instead) or in_words("; ".join(outcome.do.splitlines()[:2]))
    return Remark(Finding("fit.memory", Severity.BLOCK, room.split.text, what, seen, do), _changes(room.case, instead))
