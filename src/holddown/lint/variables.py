"""Environment variables that the command sets: whether the build reads them at all. What it does not read it ignores,
most of the time in silence."""

import re
import shlex
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import pairwise

from holddown.base.finding import Finding, Severity
from holddown.facts.command.launch import Variable
from holddown.facts.engine import EngineFacts
from holddown.lint.case import Case
from holddown.lint.options import Option, Options, bare
from holddown.lint.remark import Change, Remark
from holddown.lint.values import fits
from holddown.tables.command import LibraryVariables
from holddown.tables.engine import GoneVariable
from holddown.tables.load import library_variables, recorded_build, recorded_versions

_MOST_NAMES = 6


def variable_remarks(case: Case) -> Iterator[Remark]:
    for variable in case.command.variables:
        library = next((row for row in library_variables() if variable.name.startswith(row.prefix)), None)
        if library is not None:
            yield from _of_library(variable, library, case)
        elif variable.name.startswith(_prefixes(case)) and case.facts is not None and case.facts.environment:
            yield from _of_engine(variable, case.facts, case)


def _prefixes(case: Case) -> tuple[str, ...]:
    return (*case.grammar.prefixes, *filter(None, [case.grammar.old_prefix]))


def _without(variable: Variable, *more: Change) -> tuple[tuple[Change, ...], tuple[str, ...]]:
    """The changes that leave it out, and its name where a line of its own sets it."""
    if variable.at is not None:
        return (Change(*variable.at), *more), ()
    return more, (variable.name,)


# --- the engine's own ------------------------------------------------------------------------------------------------


def _of_engine(variable: Variable, facts: EngineFacts, case: Case) -> Iterator[Remark]:
    known = next((each for each in facts.environment if each.name == variable.name), None)
    if known is not None:
        if known.deprecated:
            what = f"{variable.name} is deprecated in {case.build}"
            finding = Finding(
                "env.deprecated", Severity.NOTE, variable.name, what, case.seen(variable.value.line, known.deprecated)
            )
            yield Remark(finding)
        return
    rows = case.engine.gone_variables if case.engine else ()
    fitting = [row for row in rows if row.name == variable.name and row.where_value in ("", variable.value.text)]
    if fitting:
        yield _gone(variable, fitting[-1], case)
        return
    old = case.grammar.old_prefix
    new = case.grammar.prefixes[0] + variable.name.removeprefix(old) if old else ""
    if new and variable.name.startswith(old) and any(each.name == new for each in facts.environment):
        what = f"{variable.name} is an old name of {new}"
        finding = Finding(
            "env.deprecated",
            Severity.NOTE,
            variable.name,
            what,
            case.seen(variable.value.line, case.grammar.source),
            new,
        )
        yield _renamed(variable, new, finding)
        return
    yield _unread(variable, facts, case)


def _renamed(variable: Variable, name: str, finding: Finding) -> Remark:
    """The same value under another name, where it stood."""
    if variable.at is None:
        return Remark(finding, (), (variable.name,), ((name, variable.value.text),))
    stop = variable.at[1]
    return Remark(finding, (Change(stop - 1, stop, (f"{name}={variable.value.text}",)),))


def _gone(variable: Variable, row: GoneVariable, case: Case) -> Remark:
    evidence = case.seen(variable.value.line, row.source)
    if row.needless:
        changes, unset = _without(variable)
        what = f"{variable.name} is not read by {case.build} and not needed"
        finding = Finding("env.gone", Severity.NOTE, variable.name, what, evidence, f"drop it: {row.needless}")
        return Remark(finding, changes, unset)
    words = _option_instead(variable, row, case)
    what = f"{case.build} does not read {variable.name}: it is ignored in silence"
    if not words:
        changes, unset = _without(variable)
        finding = Finding("env.gone", Severity.WARN, variable.name, what, evidence, "leave it out")
        return Remark(finding, changes, unset)
    if case.role((bare(words[0].partition("=")[0]),)) is not None:
        changes, unset = _without(variable)
        do = f"leave it out: {words[0]} is given"
        return Remark(Finding("env.gone", Severity.NOTE, variable.name, what, evidence, do), changes, unset)
    end = len(case.command.words)
    changes, unset = _without(variable, Change(end, end, words))
    do = " ".join(map(shlex.quote, words))
    return Remark(Finding("env.gone", Severity.BLOCK, variable.name, what, evidence, do), changes, unset)


def _option_instead(variable: Variable, row: GoneVariable, case: Case) -> tuple[str, ...]:
    """The row's option with this value, where this build has it."""
    if not row.becomes or not case.options or not variable.value.certain:
        return ()
    words = tuple(part.replace("{}", variable.value.text) for part in shlex.split(row.becomes))
    return words if _taken(words, case.options) else ()


def _taken(words: Sequence[str], options: Options) -> bool:
    """Whether this build has these options and takes these values."""
    for name, value in pairwise((*words, "")):
        if not name.startswith("--"):
            continue
        option = options.find(name)
        if not isinstance(option, Option) or ("." not in name and not fits(option.flag, value)):
            return False
    return True


def _unread(variable: Variable, facts: EngineFacts, case: Case) -> Remark:
    names = [each.name for each in facts.environment]
    near = get_close_matches(variable.name, names, n=1, cutoff=0.88)
    readers = [each for each in recorded_versions(facts.kind) if _reads(facts.kind, each, variable.name)]
    strict = case.role(("fail-on-environ-validation",)) is not None
    severity = Severity.BLOCK if strict else Severity.WARN
    effect = "and refuses to start for it" if strict else "it is ignored"
    what = f"{case.build} does not read {variable.name}: {effect}"
    changes, unset = _without(variable)
    if readers:
        evidence = case.seen(variable.value.line, f"read by {', '.join(readers)}")
        return Remark(
            Finding("env.unread", severity, variable.name, what, evidence, "leave it out, or take that release"),
            changes,
            unset,
        )
    evidence = f"none of the {len(names)} variables of {case.build}, nor of any release on record"
    evidence = case.seen(variable.value.line, evidence)
    if near and case.command.variable(near[0]) is None:
        finding = Finding("env.unread", severity, variable.name, what, evidence, f"{near[0]}={_shown(variable)}")
        return _renamed(variable, near[0], finding)
    # what nobody on record reads may be a patched build's: it is said, and stays
    do = "leave it out, unless a plug-in or a patched build reads it"
    return Remark(Finding("env.unread", severity, variable.name, what, evidence, do))


def _shown(variable: Variable) -> str:
    return shlex.quote(variable.value.text)


def _reads(kind: str, version: str, name: str) -> bool:
    return any(each.name == name for each in recorded_build(kind, version).facts.environment)


# --- libraries below it -----------------------------------------------------------------------------------------------


def _of_library(variable: Variable, library: LibraryVariables, case: Case) -> Iterator[Remark]:
    if variable.name in library.names:
        yield from _library_value(variable, library, case)
        return
    near = get_close_matches(variable.name, library.names, n=1, cutoff=0.8)
    what = f"{library.title} does not document {variable.name}"
    evidence = case.seen(variable.value.line, library.source)
    if not near:
        yield Remark(Finding("env.library", Severity.NOTE, variable.name, what, evidence))
        return
    assignment = f"{near[0]}={_shown(variable)}"
    finding = Finding(
        "env.library", Severity.WARN, variable.name, f"{what}: it is ignored in silence", evidence, assignment
    )
    yield _renamed(variable, near[0], finding)


def _library_value(variable: Variable, library: LibraryVariables, case: Case) -> Iterator[Remark]:
    row = next((row for row in library.values if row.name == variable.name), None)
    if row is None or not variable.value.certain or re.fullmatch(row.pattern, variable.value.text):
        return
    what = f"{variable.name}={variable.value.text[:40]} is none of {row.what}"
    finding = Finding("env.value", Severity.WARN, variable.name, what, case.seen(variable.value.line, library.source))
    yield Remark(finding)
