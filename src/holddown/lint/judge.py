"""One command before one build, and before every release on record."""

from collections.abc import Sequence
from dataclasses import dataclass

from holddown.base.finding import Finding, Severity
from holddown.facts.command.launch import LaunchCommand
from holddown.facts.model import ModelFacts
from holddown.lint.case import Case, case_of
from holddown.lint.corrected import Corrected, corrected
from holddown.lint.flags import flag_remarks
from holddown.lint.ground import ground_remarks
from holddown.lint.parsers import backend_remarks, parser_remarks
from holddown.lint.remark import Remark
from holddown.lint.risks import risk_remarks
from holddown.lint.together import together_remarks
from holddown.lint.variables import variable_remarks
from holddown.plan.site import Site
from holddown.plan.wishes import Candidate
from holddown.tables.load import recorded_build, recorded_versions

_WEIGHT = {Severity.BLOCK: 0, Severity.WARN: 1, Severity.NOTE: 2}


@dataclass(frozen=True, slots=True)
class Ground:
    """What the command will stand on. model: None where the checkpoint was not read, because: why. site: None where no
    machine with GPUs is named or here."""

    model: ModelFacts | None = None
    because: str = ""
    site: Site | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """build: its ref, or the engine's name where no facts are known. findings: what forbids it first. mended: nothing
    that is known forbids the corrected command."""

    build: str
    findings: tuple[Finding, ...]
    corrected: Corrected
    mended: bool

    @property
    def starts(self) -> bool:
        return not any(finding.blocks for finding in self.findings)


@dataclass(frozen=True, slots=True)
class OnRelease:
    """What one recorded release's options and variables say to it. against: subjects of what forbids it."""

    version: str
    against: tuple[str, ...]


def judged(command: LaunchCommand, candidate: Candidate | None, ground: Ground) -> Judged:
    """candidate: None where nothing is known of this kind of engine: then only what needs no build is judged."""
    case = case_of(command, candidate.facts if candidate else None)
    machine = ground.site.machine if ground.site else None
    grounded = tuple(ground_remarks(case, ground.model, ground.site, candidate))
    remarks = [
        *flag_remarks(case),
        *parser_remarks(case, ground.model),
        *backend_remarks(case),
        *variable_remarks(case),
        *together_remarks(case, machine),
        *grounded,
        *risk_remarks(case, ground.model),
        *_unjudged(case, ground),
    ]
    ordered = sorted(remarks, key=lambda remark: _WEIGHT[remark.finding.severity])
    unique = dict.fromkeys(remark.finding for remark in ordered)
    build = candidate.engine.ref if candidate else case.grammar.title
    # the last word on a size counts: it was worked out for what the rules and the machine leave of it
    fixed = corrected(command, (*reversed(grounded), *ordered))
    return Judged(build, tuple(unique), fixed, all(each.mends for each in remarks if each.finding.blocks))


def on_releases(command: LaunchCommand) -> tuple[OnRelease, ...]:
    """By the options, parsers and variables alone: no machine, no checkpoint. Oldest first."""
    found = []
    for version in recorded_versions(command.kind):
        case = case_of(command, recorded_build(command.kind, version).facts)
        remarks = (*flag_remarks(case), *parser_remarks(case, None), *backend_remarks(case), *variable_remarks(case))
        against = dict.fromkeys(each.finding.subject for each in remarks if each.finding.blocks)
        found.append(OnRelease(version, tuple(against)))
    return tuple(found)


def _unjudged(case: Case, ground: Ground) -> Sequence[Remark]:
    """What could not be looked at, so that silence is not taken for a yes."""
    notes = []
    if case.facts is None:
        what = f"the options of {case.grammar.title} were not judged: no release of it is on record"
        notes.append(Finding("lint.no-facts", Severity.NOTE, case.grammar.title, what))
    elif not case.facts.environment and case.command.variables:
        what = f"environment variables were not judged: those that {case.build} reads are not on record"
        notes.append(Finding("lint.no-variables", Severity.NOTE, case.build, what))
    if case.arguments.unread:
        words = ", ".join(word.text for word in case.arguments.unread[:3])
        what = f"{words} was not judged: only the shell knows what it holds"
        notes.append(Finding("lint.unread", Severity.NOTE, words, what, case.seen(case.arguments.unread[0].line)))
    config = case.role((case.grammar.config_flag,)) if case.grammar.config_flag else None
    if config is not None:
        what = f"what stands in {config.value.text if config.value else 'its file'} was not judged: it is not here"
        notes.append(Finding("lint.config-file", Severity.NOTE, config.written, what, case.seen(config.line)))
    if ground.model is None:
        model = case.model
        name = model.text if model else ""
        what = f"the checkpoint was not judged{f': {ground.because}' if ground.because else ''}"
        do = "--model PATH; its config.json is enough"
        notes.append(Finding("lint.no-checkpoint", Severity.NOTE, name or "model", what, "", do))
    if ground.site is None:
        what = "what fits was not judged: no GPU is here, and none was named"
        notes.append(
            Finding("lint.no-machine", Severity.NOTE, "GPUs", what, "", "--gpus '8x H200 SXM', or --node FILE")
        )
    return [Remark(finding) for finding in notes]
