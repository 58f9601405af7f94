"""Options one by one: whether the build has them, takes what they were given, and needs them at all."""

import shlex
from collections.abc import Iterator

from holddown.base.finding import Finding, Severity
from holddown.facts.engine import Flag
from holddown.lint.argv import Given
from holddown.lint.case import Case
from holddown.lint.gone import becomes, gone_flag, in_options
from holddown.lint.life import life_text
from holddown.lint.misfit import misfit
from holddown.lint.options import bare
from holddown.lint.refused import refused, stray_words
from holddown.lint.remark import Change, Remark
from holddown.tables.engine import GoneFlag


def flag_remarks(case: Case) -> Iterator[Remark]:
    """In the order of the command. Nothing where the build's options are not known."""
    if case.options is None:
        return
    seen: dict[tuple[str, str], Given] = {}
    for given in case.arguments.given:
        if given.fault is not None:
            yield refused(given, case, case.options)
            continue
        yield from _judged(given, case)
        before = seen.get((given.name, given.key))
        if before is not None and given.flag is not None and not given.flag.several:
            yield _twice(before, given, case)
        seen[given.name, given.key] = given
    yield from _overwritten(case)
    yield from stray_words(case, case.options)


def _judged(given: Given, case: Case) -> Iterator[Remark]:
    flag = given.flag
    if flag is None:
        return
    bad = misfit(given, flag, case)
    if bad is not None:
        yield bad
        return
    gone = gone_flag(case, bare(given.written))
    if given.option is not None and given.option.inverse_of:
        yield _inverse(given, case, gone)
    elif flag.deprecated or (gone is not None and gone.needless):
        yield _deprecated(given, flag, case, gone)
    elif _is_default(given, flag):
        what = f"{' '.join([given.written, *(value.text for value in given.values)])} is {case.build}'s own default"
        yield Remark(
            Finding("flag.default", Severity.NOTE, given.written, what, case.seen_of(given, ""), "may be left out"),
        )
    if given.option is not None and _is_short_for(given):
        what = f"{given.written} is short for {given.option.whole}: a newer build may have two that begin so"
        yield Remark(
            Finding("flag.abbreviated", Severity.NOTE, given.written, what, case.seen_of(given, ""), given.option.whole)
        )


def _is_short_for(given: Given) -> bool:
    written = given.written.partition(".")[0].replace("_", "-")
    whole = given.option.whole if given.option else ""
    return written.startswith("--") and written != whole and whole.startswith(written)


def _inverse(given: Given, case: Case, gone: GoneFlag | None) -> Remark:
    """`--disable-x` that the parser makes of `--enable-x`: there in some releases only."""
    assert given.option is not None
    history = life_text(case.command.kind, given.written)
    what = f"{case.build} takes {given.written} as the inverse of {given.option.inverse_of}"
    what += f": {history}" if history else ""
    source = case.engine.twins_source if case.engine else ""
    if gone is not None and gone.needless:
        finding = Finding(
            "flag.inverse",
            Severity.NOTE,
            given.written,
            what,
            case.seen_of(given, source),
            f"drop it: {gone.needless}",
        )
        return Remark(finding, (Change(*given.at),))
    plain = f"--no-{given.option.inverse_of.removeprefix('--')}"
    finding = Finding("flag.inverse", Severity.NOTE, given.written, what, case.seen_of(given, source), plain)
    return Remark(finding, (Change(*given.at, (plain,)),))


def _deprecated(given: Given, flag: Flag, case: Case, gone: GoneFlag | None) -> Remark:
    needless = gone.needless if gone else ""
    says = "" if flag.deprecated in ("", "deprecated") else flag.deprecated
    history = life_text(case.command.kind, given.written)
    state = " and ".join(filter(None, ("deprecated" if flag.deprecated else "", "needless" if needless else "")))
    what = f"{given.written} is {state} in {case.build}"
    what += f": {history}" if history else f": {says}" if says else ""
    evidence = gone.source if gone else says if history else ""
    words = becomes(gone, given, case.options) if gone and case.options and not needless else ()
    if needless:
        do = f"drop it: {needless}"
    else:
        do = " ".join(map(shlex.quote, words)) if words else f"use {in_options(gone.instead)}" if gone else ""
    severity = Severity.NOTE if needless else Severity.WARN
    changes = (Change(*given.at, words),) if needless or words else ()
    return Remark(Finding("flag.deprecated", severity, given.written, what, case.seen_of(given, evidence), do), changes)


def _is_default(given: Given, flag: Flag) -> bool:
    if flag.default is None or given.key:
        return False
    if not given.values:
        return flag.default.lower() == ("true" if given.on else "false")
    if len(given.values) > 1 or not given.values[0].certain:
        return False
    return _same(given.values[0].text, flag.default)


def _same(one: str, other: str) -> bool:
    if one == other:
        return True
    try:
        return float(one) == float(other)
    except ValueError:
        return False


def _twice(before: Given, given: Given, case: Case) -> Remark:
    first = " ".join(value.text for value in before.values) or before.written
    last = " ".join(value.text for value in given.values) or given.written
    same = first == last and before.on == given.on
    if same:
        what = f"{given.written} is given twice"
        finding = Finding("flag.twice", Severity.NOTE, given.written, what, case.seen_of(given, ""), "once is enough")
    else:
        what = f"{given.written} is given twice: {first} does not count, {last} does"
        finding = Finding("flag.twice", Severity.WARN, given.written, what, case.seen_of(given, ""), f"drop {first}")
    return Remark(finding, (Change(*before.at),))


def _overwritten(case: Case) -> Iterator[Remark]:
    """`--x '{...}' --x.key v`: the dotted ones become a JSON of their own, put last. Source: vLLM 0.32.0
    utils/argparse_utils.py `parse_args` adds its `dict_args` at the end."""
    for given in case.arguments.given:
        dotted = [each for each in case.arguments.given if each.name == given.name and each.key]
        if given.key or not dotted or given.flag is None or not given.values:
            continue
        keys = ", ".join(f"{each.written} {each.value.text if each.value else ''}".strip() for each in dotted)
        what = f"{given.written} does not count: {keys} makes a value of its own, which replaces all of it"
        finding = Finding(
            "flag.overwritten",
            Severity.BLOCK,
            given.written,
            what,
            case.seen_of(given, ""),
            "put all of it in one JSON",
        )
        yield Remark(finding)
