"""Names that a build keeps in its registries: tool and reasoning parsers, and attention backends."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from holddown.base.evidence import Fact, Known
from holddown.base.finding import Finding, Severity
from holddown.facts.engine import EngineFacts
from holddown.facts.model import ModelFacts
from holddown.lint.argv import Given
from holddown.lint.case import Case
from holddown.lint.remark import Change, Remark
from holddown.plan.parsers import parser_settings
from holddown.tables.load import recorded_build, recorded_versions

_PLUGINS = ("tool-parser-plugin", "reasoning-parser-plugin")


def parser_remarks(case: Case, model: ModelFacts | None) -> Iterator[Remark]:
    """model: None where the checkpoint was not read."""
    facts = case.facts
    if facts is None:
        return
    wanted = {each.name: each.value for each in parser_settings(model, facts).settings} if model else {}
    roles = (
        (case.roles.tool_parser, facts.tool_parsers, "tool"),
        (case.roles.reasoning_parser, facts.reasoning_parsers, "reasoning"),
    )
    for names, known, kind in roles:
        given = case.role(names)
        if given is None or given.value is None or not given.value.certain or given.fault is not None:
            continue
        right = wanted.get(given.name, "")
        if isinstance(known, Known) and given.value.text not in known.value:
            if case.role(_PLUGINS) is None:
                yield _lacking(given, known.value, kind, right, case, facts)
        elif right and given.value.text != right:
            what = f"this model writes for the {kind} parser {right}, not {given.value.text}"
            finding = Finding(
                "parser.model",
                Severity.WARN,
                given.written,
                what,
                case.seen_of(given, "its chat format"),
                f"{given.written} {right}",
            )
            yield Remark(finding, (Change(*given.at, (given.written, right)),))


def backend_remarks(case: Case) -> Iterator[Remark]:
    """An attention backend that this build does not have. Source: vLLM 0.16.0 to 0.33.0 AttentionBackendEnum: names are
    taken in any case."""
    given = case.role(case.roles.attention_backend)
    facts = case.facts
    if given is None or given.value is None or not given.value.certain or facts is None:
        return
    known = facts.attention_backends
    if given.fault is not None or not isinstance(known, Known):
        return
    names = (*(each.name for each in known.value.backends), *known.value.others)
    if not names or given.value.text.upper() in (*names, "CUSTOM"):
        return
    near = get_close_matches(given.value.text.upper(), names, n=1, cutoff=0.85)
    what = f"{case.build} has no attention backend {given.value.text}"
    do = f"{given.written} {near[0]}" if near else f"leave {given.written} out: it chooses one by itself"
    finding = Finding(
        "flag.backend", Severity.BLOCK, given.written, what, case.seen_of(given, f"it has {', '.join(names)}"), do
    )
    yield Remark(finding, (Change(*given.at, (given.written, near[0]) if near else ()),))


def _lacking(given: Given, known: tuple[str, ...], kind: str, right: str, case: Case, facts: EngineFacts) -> Remark:
    name = given.value.text if given.value else ""
    others = [
        each for each in recorded_versions(facts.kind) if _has(recorded_build(facts.kind, each).facts, kind, name)
    ]
    near = [right] if right else [] if others else get_close_matches(name, known, n=1, cutoff=0.6)
    what = f"{case.build} has no {kind} parser {name}"
    what += f"; of the releases on record {_span(others)}" if others else ""
    alike = get_close_matches(name, known, n=6, cutoff=0.3) or known[:6]
    seen = case.seen_of(given, f"it has {len(known)}, among them {', '.join(alike)}")
    if near:
        finding = Finding("parser.unknown", Severity.BLOCK, given.written, what, seen, f"{given.written} {near[0]}")
        return Remark(finding, (Change(*given.at, (given.written, near[0])),))
    do = f"leave {given.written} out: answers come unparsed"
    auto = case.role(("enable-auto-tool-choice",)) if kind == "tool" else None
    changes = (Change(*given.at), *((Change(*auto.at),) if auto is not None else ()))
    return Remark(Finding("parser.unknown", Severity.BLOCK, given.written, what, seen, do), changes)


def _span(versions: Sequence[str]) -> str:
    return f"{versions[0]} has" if len(versions) == 1 else f"{versions[0]} to {versions[-1]} have"


def _has(facts: EngineFacts, kind: str, name: str) -> bool:
    parsers: Fact[tuple[str, ...]] = facts.tool_parsers if kind == "tool" else facts.reasoning_parsers
    return isinstance(parsers, Known) and name in parsers.value
