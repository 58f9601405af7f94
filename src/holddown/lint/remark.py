"""What is said of a command: findings, and what each changes in it."""

from dataclasses import dataclass

from holddown.base.finding import Finding


@dataclass(frozen=True, slots=True)
class Change:
    """The words from start to stop (of `LaunchCommand.words`) become these; start = stop inserts."""

    start: int
    stop: int
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Remark:
    """A finding, and what would end it. unset: variables, set by a line of their own, that are left out. set: variables
    that are set instead."""

    finding: Finding
    changes: tuple[Change, ...] = ()
    unset: tuple[str, ...] = ()
    set: tuple[tuple[str, str], ...] = ()

    @property
    def mends(self) -> bool:
        """Whether it says what to write instead."""
        return bool(self.changes or self.unset or self.set)
