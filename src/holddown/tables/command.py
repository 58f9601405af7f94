"""Rows about how one engine's command is written, beside what its builds say of themselves."""

from dataclasses import dataclass
from enum import StrEnum

from holddown.facts.command.launch import Grammar


@dataclass(frozen=True, slots=True)
class Roles:
    """Which options mean what everybody means: names without dashes, the engine's own first. Empty: it has none."""

    tensor_parallel: tuple[str, ...] = ()
    pipeline_parallel: tuple[str, ...] = ()
    data_parallel: tuple[str, ...] = ()
    decode_context_parallel: tuple[str, ...] = ()
    expert_parallel: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    memory_share: tuple[str, ...] = ()
    kv_cache_dtype: tuple[str, ...] = ()
    attention_backend: tuple[str, ...] = ()
    tool_parser: tuple[str, ...] = ()
    reasoning_parser: tuple[str, ...] = ()
    remote_code: tuple[str, ...] = ()
    eager: tuple[str, ...] = ()
    host: tuple[str, ...] = ()
    api_key: tuple[str, ...] = ()


class Bond(StrEnum):
    """What two options have to do with each other.

    NEEDS: without the other it does not start. IDLE: without the other it does nothing. EXCLUDES: with the other it
    does not start.
    """

    NEEDS = "needs"
    IDLE = "idle"
    EXCLUDES = "excludes"


@dataclass(frozen=True, slots=True)
class Together:
    """option, others: names without dashes; any one of `others` is enough. since, until: first and last version, empty
    for all."""

    option: str
    bond: Bond
    others: tuple[str, ...]
    what: str
    source: str
    since: str = ""
    until: str = ""


@dataclass(frozen=True, slots=True)
class Clash:
    """An option that does not go with some values of a key of a JSON option. since, until: as `Together` has them."""

    option: str
    config: str
    key: str
    values: tuple[str, ...]
    what: str
    source: str
    since: str = ""
    until: str = ""


@dataclass(frozen=True, slots=True)
class Order:
    """Two numbers of which one may not exceed the other. only_without: it holds where this switch is turned off, empty
    for always."""

    smaller: str
    larger: str
    what: str
    source: str
    only_without: str = ""


@dataclass(frozen=True, slots=True)
class Range:
    """What a number may be. also: words that are taken all the same."""

    option: str
    least: float
    most: float
    also: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True)
class CommandTable:
    """open_by_default: the server listens on all addresses unless told otherwise. planned: the planner can be asked in
    this engine's words. ruled: how it can be divided, and which attention backend takes what, is known apart from a
    plan."""

    grammar: Grammar
    roles: Roles
    open_by_default: bool
    planned: bool
    ruled: bool
    together: tuple[Together, ...] = ()
    clashes: tuple[Clash, ...] = ()
    orders: tuple[Order, ...] = ()
    ranges: tuple[Range, ...] = ()


@dataclass(frozen=True, slots=True)
class LibraryValue:
    """What a variable may be. pattern: a regular expression for all of it. what: the same in words."""

    name: str
    pattern: str
    what: str


@dataclass(frozen=True, slots=True)
class LibraryVariables:
    """The documented variables of a library below the engine."""

    prefix: str
    title: str
    names: tuple[str, ...]
    source: str
    values: tuple[LibraryValue, ...] = ()
