"""What the parser does not take at all: options that it does not have, and words that belong to none."""

import shlex
from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from holddown.base.finding import Finding, Severity
from holddown.facts.engine import version_key
from holddown.lint.argv import Fault, Given
from holddown.lint.case import Case
from holddown.lint.gone import becomes, gone_flag, in_options
from holddown.lint.life import life_text, there_in
from holddown.lint.options import Option, Options, bare
from holddown.lint.remark import Change, Remark
from holddown.lint.values import fits, wanted_text


def refused(given: Given, case: Case, options: Options) -> Remark:
    """What to say of an option that the parser ends at."""
    match given.fault:
        case Fault.UNCLEAR if gone_flag(case, bare(given.written)) is None:
            return _ambiguous(given, case, options)
        case Fault.NO_VALUE:
            return _valueless(given, case)
        case Fault.NEEDS_NO_VALUE:
            return _switch_with_value(given, case, options)
        case _:  # also what was a name of its own once, and is now the beginning of others
            return _unknown(given, case, options)


def _ambiguous(given: Given, case: Case, options: Options) -> Remark:
    what = f"{given.written} may be the beginning of {' or '.join(given.candidates[:4])}"
    seen, do = case.seen_of(given, options.rests_on), f"write {given.candidates[0]} in full"
    return Remark(Finding("flag.ambiguous", Severity.BLOCK, given.written, what, seen, do))


def _valueless(given: Given, case: Case) -> Remark:
    what = f"{given.written} wants a value, and none follows"
    seen = case.seen_of(given, wanted_text(given.flag) if given.flag else "")
    do = f"{given.written} VALUE, or leave it out"
    return Remark(Finding("flag.value-missing", Severity.BLOCK, given.written, what, seen, do), (Change(*given.at),))


def _switch_with_value(given: Given, case: Case, options: Options) -> Remark:
    """`--enforce-eager=true`; what is meant by `=false` is said as the parser wants it."""
    what = f"{given.written} is a switch and takes no value"
    off = bool(given.values) and given.values[0].text.lower() in ("false", "0", "no")
    turned_off = (f"--no-{given.name}",) if options.find(f"--no-{given.name}") else ()
    words = turned_off if off else (given.written,)
    seen = case.seen_of(given, options.rests_on)
    do = words[0] if words else f"leave {given.written} out"
    return Remark(Finding("flag.value", Severity.BLOCK, given.written, what, seen, do), (Change(*given.at, words),))


def _unknown(given: Given, case: Case, options: Options) -> Remark:
    name = bare(given.written)
    gone = gone_flag(case, name)
    history = life_text(case.command.kind, given.written)
    what = f"{case.build} has no option {given.written}"
    what += f": {history}" if history else ""
    if gone is not None and gone.needless:
        return Remark(
            Finding(
                "flag.unknown",
                Severity.BLOCK,
                given.written,
                what,
                case.seen_of(given, gone.source),
                f"drop it: {gone.needless}",
            ),
            (Change(*given.at),),
        )
    if gone is not None:
        words = becomes(gone, given, options)
        do = " ".join(map(shlex.quote, words)) if words else f"use {in_options(gone.instead)}"
        return Remark(
            Finding("flag.unknown", Severity.BLOCK, given.written, what, case.seen_of(given, gone.source), do),
            (Change(*given.at, words),),
        )
    there = there_in(case.command.kind, given.written)
    if there:
        do = f"{case.command.kind}@{_nearest(there, options.facts.version)} has it; or leave it out"
        return Remark(
            Finding("flag.unknown", Severity.BLOCK, given.written, what, case.seen_of(given, options.rests_on), do),
            (Change(*given.at),),
        )
    near = [f"--{each}" for each in get_close_matches(name, options.names, n=2, cutoff=0.75)]
    do = f"{' or '.join(near)}, or leave it out" if near else "leave it out"
    sure = get_close_matches(name, options.names, n=1, cutoff=0.88)
    words = _renamed(given, f"--{sure[0]}", options) if sure else ()
    return Remark(
        Finding("flag.unknown", Severity.BLOCK, given.written, what, case.seen_of(given, options.rests_on), do),
        (Change(*given.at, words),),
    )


def _nearest(versions: Sequence[str], version: str) -> str:
    """The first after this one, else the last before it."""
    return next((each for each in versions if version_key(each) > version_key(version)), versions[-1])


def _renamed(given: Given, name: str, options: Options) -> tuple[str, ...]:
    """The same value under a near name, where that takes it."""
    found = options.find(name)
    if not isinstance(found, Option) or not all(fits(found.flag, value.text) for value in given.values):
        return ()
    return (name + (f".{given.key}" if given.key else ""), *(value.text for value in given.values))


def stray_words(case: Case, options: Options) -> Iterator[Remark]:
    """Words that no option takes, beside the model."""
    positional = list(case.arguments.positional)
    if case.grammar.model_positional and case.role(case.grammar.model_flags) is None:
        positional = positional[1:]
    if not options.sharp:
        return
    for at, word in positional:
        before = case.command.words[at - 1].text
        what = f"{word.short!r} belongs to no option"
        what += f": {before} takes no value" if before.startswith("--") else ""
        finding = Finding(
            "flag.stray", Severity.BLOCK, word.text[:60], what, case.seen(word.line, options.rests_on), "leave it out"
        )
        yield Remark(finding, (Change(at, at + 1),))
