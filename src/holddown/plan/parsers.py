"""Which tool and reasoning parser a model needs, and whether the build has it."""

from collections.abc import Sequence
from dataclasses import dataclass

from holddown.base.evidence import Fact, Known, Source, SourceKind, known_or
from holddown.base.finding import Finding, Severity
from holddown.facts.engine import EngineFacts, version_key
from holddown.facts.model import ModelFacts
from holddown.plan.plan import Setting
from holddown.tables.family import Family
from holddown.tables.load import engine_table, families_of, recorded_build, recorded_versions, to_have

_AUTO = "enable-auto-tool-choice"
"""vLLM's; other engines let the model call tools as soon as there is a parser."""


@dataclass(frozen=True, slots=True)
class Parsers:
    """settings: `tool-call-parser` with `enable-auto-tool-choice`, `reasoning-parser`. findings: notes on what is left
    out and why."""

    settings: tuple[Setting, ...]
    findings: tuple[Finding, ...]


def parser_settings(model: ModelFacts, facts: EngineFacts) -> Parsers:
    """What the model's chat format calls for, as far as this build has it; nothing where its family is not known."""
    architectures: tuple[str, ...] = known_or(model.architectures, ())
    rows = families_of(architectures, known_or(model.model_type, ""))
    template = model.chat_template
    if isinstance(template, Known):
        rows = tuple(row for row in rows if _is_of(row, template.value))
    if len(rows) != 1 or (_marked(rows[0]) and not isinstance(template, Known)):
        return Parsers((), _which(rows, facts))
    return _of_family(rows[0], model, facts)


def _is_of(row: Family, template: str) -> bool:
    has = not row.template_has or row.template_has in template
    return has and (not row.template_lacks or row.template_lacks not in template)


def _marked(row: Family) -> bool:
    return bool(row.template_has or row.template_lacks)


def _which(rows: Sequence[Family], facts: EngineFacts) -> tuple[Finding, ...]:
    """There is no chat template to tell releases of one architecture apart."""
    if len(rows) < 2:
        return ()  # not known, or one family of many that share the architecture
    tools = [f"{called(facts, 'tool', row.tool_parser) or 'none'} ({row.name})" for row in rows]
    reasoning = [f"{called(facts, 'reasoning', row.reasoning_parser) or 'none'} ({row.name})" for row in rows]
    first = called(facts, "tool", rows[0].tool_parser)
    auto = f" --set {_AUTO}" if facts.knows_flag(_AUTO) else ""
    return (
        Finding(
            "plan.parsers",
            Severity.NOTE,
            "tool-call-parser",
            "which tool and reasoning parser it needs is told by its chat template, and there is none here",
            f"tool parser {' or '.join(tools)}; reasoning parser {' or '.join(reasoning)}",
            f"--set tool-call-parser={first}{auto}" if first else "",
        ),
    )


def _of_family(row: Family, model: ModelFacts, facts: EngineFacts) -> Parsers:
    settings: list[Setting] = []
    findings: list[Finding] = []
    source = Source(SourceKind.TABLE, f"{row.name}: {row.source}")
    tool, reasoning = called(facts, "tool", row.tool_parser), called(facts, "reasoning", row.reasoning_parser)
    if tool:
        because = f"{row.name} writes tool calls in the form that this parser reads"
        if _has(facts.tool_parsers, tool):
            settings.append(Setting("tool-call-parser", tool, because, source))
            if facts.knows_flag(_AUTO):
                auto = "the model decides by itself when to call a tool; the parser is only used with it"
                settings.append(Setting(_AUTO, "true", auto, source))
        else:
            findings.append(_lacks(facts, "tool", "tool-call-parser", tool))
    if row.reasoning_needs and not isinstance(model.chat_template, Known):
        findings.append(_maybe(row, reasoning))
    elif reasoning and _reasons(row, model.chat_template):
        because = f"{row.name} thinks before it answers; without it the thinking is part of the answer"
        if _has(facts.reasoning_parsers, reasoning):
            settings.append(Setting("reasoning-parser", reasoning, because, source))
        else:
            findings.append(_lacks(facts, "reasoning", "reasoning-parser", reasoning))
    return Parsers(tuple(settings), tuple(findings))


def called(facts: EngineFacts, of: str, name: str) -> str:
    """What this build calls a parser that families are recorded with by vLLM's name. of: `tool` or `reasoning`."""
    rows = engine_table(facts.kind).parser_names
    here = next((row.here for row in rows if (row.of, row.name) == (of, name)), (name,))
    parsers = facts.tool_parsers if of == "tool" else facts.reasoning_parsers
    return next((each for each in here if _has(parsers, each)), here[0])


def _maybe(row: Family, parser: str) -> Finding:
    """Some releases of the family think and some do not, and there is no chat template to tell."""
    what = "whether this release thinks before it answers is told by its chat template, and there is none here"
    do = f"--set reasoning-parser={parser}"
    return Finding("plan.reasoning-parser", Severity.NOTE, "reasoning-parser", what, row.name, do)


def _reasons(row: Family, template: Fact[str]) -> bool:
    return not row.reasoning_needs or row.reasoning_needs in known_or(template, "")


def _has(parsers: Fact[tuple[str, ...]], name: str) -> bool:
    return isinstance(parsers, Known) and name in parsers.value


def _lacks(facts: EngineFacts, kind: str, flag: str, name: str) -> Finding:
    """A note: the model runs, its answers come unparsed."""
    parsers = facts.tool_parsers if kind == "tool" else facts.reasoning_parsers
    build = f"{facts.kind} {facts.version}"
    if not isinstance(parsers, Known):
        seen, command = parsers.why, ""
    else:
        newer = _first_with(facts, kind, name)
        seen = f"it has {', '.join(parsers.value)}"
        command = to_have(facts.kind, newer) if newer else ""
    what = f"this model's {kind} parser, {name}, is not among those of {build}: its answers come unparsed"
    return Finding(f"plan.{flag}", Severity.NOTE, flag, what, seen, command)


def _first_with(facts: EngineFacts, kind: str, name: str) -> str:
    for version in recorded_versions(facts.kind):
        if version_key(version) > version_key(facts.version):
            newer = recorded_build(facts.kind, version).facts
            if _has(newer.tool_parsers if kind == "tool" else newer.reasoning_parsers, name):
                return version
    return ""
