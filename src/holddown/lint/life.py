"""In which recorded releases an option or a variable is there."""

from collections.abc import Sequence
from functools import cache
from itertools import groupby

from holddown.facts.engine import EngineFacts
from holddown.lint.options import Option, Options, bare
from holddown.tables.load import command_table, engine_tables, recorded_build, recorded_versions

UNKNOWN = "unknown"
ACCEPTED = "accepted"


@cache
def options_of(kind: str, version: str) -> Options:
    """Of a recorded release."""
    return options_for(recorded_build(kind, version).facts)


def options_for(facts: EngineFacts) -> Options:
    engine = next((each for each in engine_tables() if each.kind == facts.kind), None)
    return Options(facts, command_table(facts.kind).grammar, engine.twins_since if engine else "")


def lives(kind: str, written: str) -> tuple[tuple[str, str], ...]:
    """Each recorded release with what the option is there: `unknown`, `accepted`, `deprecated`,
    `needless`, `deprecated and needless`."""
    versions = recorded_versions(kind)
    return tuple((version, _state(options_of(kind, version), written)) for version in versions)


def _state(options: Options, written: str) -> str:
    found = options.find(written.partition(".")[0])
    if not isinstance(found, Option):
        return UNKNOWN
    rows = next((each.gone_flags for each in engine_tables() if each.kind == options.facts.kind), ())
    row = next((each for each in rows if each.name == bare(written)), None)
    if found.inverse_of:
        return ACCEPTED
    needless = row is not None and bool(row.needless)
    said = [word for word, is_so in (("deprecated", bool(found.flag.deprecated)), ("needless", needless)) if is_so]
    return " and ".join(said) or ACCEPTED


def life_text(kind: str, written: str) -> str:
    """`new in 0.16.0`, `gone since 0.19.1`, `deprecated and needless in 0.16.0; unknown in 0.19.1; accepted again in
    0.33.0`; empty of a name that no recorded release knows, and of one that all know alike."""
    runs = [(state, [version for version, _ in group]) for state, group in groupby(lives(kind, written), _second)]
    states = [state for state, _ in runs]
    if len(runs) < 2:
        return ""
    if states == [UNKNOWN, ACCEPTED]:
        return f"new in {runs[1][1][0]}"
    if states == [ACCEPTED, UNKNOWN]:
        return f"gone since {runs[1][1][0]}"
    parts: list[str] = []
    for at, (state, versions) in enumerate(runs):
        before = set(states[:at]) - {UNKNOWN}
        if state == UNKNOWN and before and at == len(runs) - 1:
            parts.append(f"gone since {versions[0]}")
            continue
        again = " again" if state == ACCEPTED and before else ""
        parts.append(f"{state}{again} in {_and(versions)}")
    return "; ".join(parts)


def there_in(kind: str, written: str) -> tuple[str, ...]:
    """The recorded releases that have the option, oldest first."""
    return tuple(version for version, state in lives(kind, written) if state != UNKNOWN)


def _second(pair: tuple[str, str]) -> str:
    return pair[1]


def _and(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
