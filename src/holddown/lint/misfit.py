"""Values that the parser, or the config behind it, refuses."""

from collections.abc import Sequence
from difflib import get_close_matches

from holddown.base.evidence import Known
from holddown.base.finding import Finding, Severity
from holddown.facts.command.launch import Word
from holddown.facts.engine import Flag
from holddown.lint.argv import Given
from holddown.lint.case import Case
from holddown.lint.remark import Change, Remark
from holddown.lint.values import fits, wanted_text

_SOME_CHOICES = 12


def misfit(given: Given, flag: Flag, case: Case) -> Remark | None:
    """A value that the parser, or the config behind it, refuses."""
    if given.key:
        return None  # reaches into a JSON option, whose keys are not known here
    for value in given.values:
        if not value.certain:
            continue
        if flag.choices and not fits(flag, value.text) and not _is_registered(given, case):
            return _no_choice(given, value, flag, case)
        if not flag.choices and not fits(flag, value.text):
            what = f"{given.written} wants {wanted_text(flag)}, not {value.short!r}"
            return Remark(
                Finding(
                    "flag.value",
                    Severity.BLOCK,
                    given.written,
                    what,
                    case.seen_of(given, case.options.rests_on if case.options else ""),
                    f"{given.written} with {wanted_text(flag)}",
                ),
                (Change(*given.at),),
            )
        outside = _outside(given, value, case)
        if outside is not None:
            return outside
    return None


def _is_registered(given: Given, case: Case) -> bool:
    """Parsers: what the build has of them is said in lint/parsers.py, with the release that has it."""
    roles, facts = case.roles, case.facts
    kinds = (
        (roles.tool_parser, facts and facts.tool_parsers),
        (roles.reasoning_parser, facts and facts.reasoning_parsers),
    )
    return any(given.name in names and isinstance(known, Known) for names, known in kinds)


def _no_choice(given: Given, value: Word, flag: Flag, case: Case) -> Remark:
    near = get_close_matches(value.text, flag.choices, n=1, cutoff=0.6)
    same = [choice for choice in flag.choices if choice.lower() == value.text.lower()]
    best = (same or near or [""])[0]
    what = f"{case.build} does not take {value.short!r} for {given.written}"
    seen = case.seen_of(given, f"its choices: {_listed(flag.choices)}")
    do = f"{given.written} {best}" if best else f"leave {given.written} out"
    words = (given.written, best) if best else ()
    return Remark(Finding("flag.choice", Severity.BLOCK, given.written, what, seen, do), (Change(*given.at, words),))


def _listed(choices: Sequence[str]) -> str:
    more = len(choices) - _SOME_CHOICES
    return ", ".join(choices[:_SOME_CHOICES]) + (f", and {more} more" if more > 0 else "")


def _outside(given: Given, value: Word, case: Case) -> Remark | None:
    row = next((row for row in case.table.ranges if row.option == given.name), None)
    if row is None or value.text in row.also:
        return None
    try:
        number = float(value.text)
    except ValueError:
        return None  # `8k`: whether it is a number at all was asked before
    if row.least <= number <= row.most:
        return None
    what = f"{given.written} {value.text} is out of range: it goes from {row.least:g} to {row.most:g}"
    finding = Finding(
        "flag.range",
        Severity.BLOCK,
        given.written,
        what,
        case.seen_of(given, row.source),
        "a value within, or leave it out",
    )
    return Remark(finding, (Change(*given.at),))
