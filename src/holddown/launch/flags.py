"""What a build's own facts say about a plan's settings: the same for every engine."""

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from holddown.base.evidence import SourceKind
from holddown.base.finding import Finding, Severity
from holddown.facts.engine import EngineFacts, Flag
from holddown.plan.plan import Setting
from holddown.tables.load import engine_table

_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")


def is_variable(name: str) -> bool:
    """A name in capitals is an environment variable, no option."""
    return _VARIABLE.fullmatch(name) is not None


def bare(name: str) -> str:
    """`--compilation_config.mode` -> `compilation-config`: dotted parts reach into a JSON option."""
    return name.lstrip("-").replace("_", "-").split(".")[0]


def owned_by_holddown(kind: str, name: str) -> str:
    """What to use in place of a setting that holddown itself gives to this kind of engine; empty for every other."""
    return next((row.instead for row in engine_table(kind).owned_flags if row.name == bare(name).lower()), "")


def refused(setting: Setting, flag: Flag | None, facts: EngineFacts) -> Iterator[Finding]:
    """Why this build does not take the setting. flag: the option that it is, None where the build has none."""
    name = bare(setting.name)
    if flag is None:
        yield _unknown(name, setting, facts)
    elif "." not in setting.name and not flag.allows(setting.value):
        yield Finding(
            "flag.choice",
            Severity.BLOCK,
            name,
            f"{facts.kind} {facts.version} does not take {setting.value!r} for --{name}",
            seen=f"its choices: {', '.join(flag.choices)}{_where(facts)}",
            do=_say_set(setting, name, _nearest(setting.value, flag.choices)),
        )


def _unknown(name: str, setting: Setting, facts: EngineFacts) -> Finding:
    gone = next((row for row in engine_table(facts.kind).gone_flags if row.name == name), None)
    near = _nearest(name, [bare(flag.name) for flag in facts.flags])
    if gone is not None:
        seen, do = gone.source, f"use {gone.instead}"
    else:
        seen = f"its parser has {len(facts.flags)} options{_where(facts)}"
        do = " or ".join(f"--set {each}={setting.value}" for each in near) or "leave it out"
    if setting.source.kind is not SourceKind.USER:
        seen = f"{seen}; set by {setting.source}"
    return Finding(
        "flag.unknown", Severity.BLOCK, name, f"{facts.kind} {facts.version} has no option --{name}", seen=seen, do=do
    )


def _where(facts: EngineFacts) -> str:
    return f" ({facts.package_dir})" if facts.package_dir else ""


def _nearest(word: str, words: Sequence[str]) -> list[str]:
    return get_close_matches(word, words, n=2, cutoff=0.7)


def _say_set(setting: Setting, name: str, values: list[str]) -> str:
    return " or ".join(f"--set {name}={value}" for value in values) or f"leave {setting.name} out"
