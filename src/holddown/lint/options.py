"""The options of one build, looked up as its own parser looks them up."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from holddown.facts.command.launch import Grammar
from holddown.facts.engine import EngineFacts, Flag, Takes, version_key


@dataclass(frozen=True)
class Option:
    """What a name means. on: False for `--no-x`, and for the inverse of a switch. inverse_of: the option of which the
    parser makes this name, empty for a name of its own. whole: the name in full."""

    flag: Flag
    on: bool = True
    inverse_of: str = ""
    whole: str = ""


@dataclass(frozen=True)
class Unclear:
    """A beginning that fits several names."""

    names: tuple[str, ...]


def bare(name: str) -> str:
    """`--compilation_config.mode` -> `compilation-config`: dotted parts reach into a JSON option."""
    return name.lstrip("-").partition(".")[0].replace("_", "-")


_ON_OFF = ("true", "false")


def is_switch(flag: Flag) -> bool:
    """Whether it takes no value: choices say whether it can be turned off again (`facts.engine.Flag`)."""
    return flag.takes is Takes.NOTHING or (bool(flag.choices) and set(flag.choices) <= set(_ON_OFF))


@dataclass(frozen=True)
class Options:
    """facts: of the build. twins_since: as the engine's table has it, empty where its parser never makes inverses."""

    facts: EngineFacts
    grammar: Grammar
    twins_since: str

    def find(self, name: str) -> Option | Unclear | None:
        """`--max-model-len` or `-tp`, without its value: the option, or several that it may begin, or none."""
        if name.startswith("--"):
            head, dot, _ = name.partition(".")
            name = (head.replace("_", "-") if self.grammar.underscores else head) if dot else name
            name = name.replace("_", "-") if self.grammar.underscores else name
        exact = self._by_name.get(name)
        if exact is not None or not self.grammar.abbreviations or not name.startswith("--") or len(name) < 3:
            return exact
        fitting = {whole: option for whole, option in self._by_name.items() if whole.startswith(name)}
        meant = {(each.flag.name, each.on) for each in fitting.values()}
        if len(meant) == 1:
            return next(iter(fitting.values()))
        return Unclear(tuple(sorted(fitting))) if fitting else None

    @cached_property
    def knows_short(self) -> bool:
        """Whether short names were read from this build: without them nothing can be said of one."""
        return any(alias for flag in self.facts.flags for alias in flag.aliases if not alias.startswith("--"))

    @property
    def rests_on(self) -> str:
        """What an answer about a name rests on."""
        count = f"the {len(self.facts.flags)} options of {self.facts.kind} {self.facts.version}"
        return f"{count} ({self.facts.package_dir})" if self.facts.package_dir else count

    @cached_property
    def sharp(self) -> bool:
        """Whether it was read how many values an option takes: without that no word is too many."""
        return any(flag.takes is not Takes.UNKNOWN for flag in self.facts.flags)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Long names without dashes, for a near one."""
        return tuple(sorted({bare(flag.name) for flag in self.facts.flags}))

    @cached_property
    def _by_name(self) -> dict[str, Option]:
        found: dict[str, Option] = {}
        for name, option in self._inverses():
            found[name] = option
        for flag in self.facts.flags:
            for name in (flag.name, *flag.aliases):
                found[name] = Option(flag, whole=name)
                if flag.choices == _ON_OFF and name.startswith("--"):
                    found[f"--no-{name[2:]}"] = Option(flag, on=False, whole=f"--no-{name[2:]}")
        return found

    def _inverses(self) -> Iterator[tuple[str, Option]]:
        if not self.twins_since or version_key(self.facts.version) < version_key(self.twins_since):
            return
        for flag in self.facts.flags:
            for one, other in (("--enable-", "--disable-"), ("--disable-", "--enable-")):
                if flag.name.startswith(one) and is_switch(flag):
                    name = other + flag.name.removeprefix(one)
                    yield name, Option(flag, on=False, inverse_of=flag.name, whole=name)
