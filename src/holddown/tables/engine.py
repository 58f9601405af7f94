"""Rows about one kind of engine. Every row names its source."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to install one build. name: what the user asks for. version: what is installed unless another is named.

    distribution: what pip calls it. torch_index: where its torch is had when pip's own places have none (empty: it
    never needs that). unusable_unless_imports: this import is tried afterwards; when it fails, `unusable` is removed.
    needs_gib: free disk space below which installing is not begun.
    """

    name: str
    version: str
    distribution: str
    torch_index: str
    unusable_unless_imports: str
    unusable: tuple[str, ...]
    needs_gib: int
    source: str


@dataclass(frozen=True, slots=True)
class GoneFlag:
    """An option that some builds do not have. instead: what does the same where it is gone."""

    name: str
    instead: str
    source: str


@dataclass(frozen=True, slots=True)
class OwnedFlag:
    """An option that holddown sets itself, so `--set` may not. instead: what to say to holddown."""

    name: str
    instead: str
    source: str


@dataclass(frozen=True, slots=True)
class PhaseLine:
    """A log line that tells the phase. fragment: a regular expression that is searched in the message.

    Groups named done and total are counts; a group named detail is what a person wants to read of it.
    """

    phase: str
    fragment: str
    source: str


@dataclass(frozen=True, slots=True)
class EngineTable:
    """kind: the adapter. package: what Python imports. cpu_kv_bytes_since: the first version whose CPU build takes
    the KV cache size in bytes from a flag; earlier ones take whole GiB from a variable. twins_since: the first version
    whose parser adds `--disable-x` to every `--enable-x` and the other way round."""

    kind: str
    package: str
    cpu_kv_bytes_since: str
    cpu_kv_bytes_source: str
    twins_since: str
    twins_source: str
    recipes: tuple[Recipe, ...]
    gone_flags: tuple[GoneFlag, ...]
    owned_flags: tuple[OwnedFlag, ...]
    phases: tuple[PhaseLine, ...]
