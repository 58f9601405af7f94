"""Obstacles. Answers ("it does not fit") are values: see `finding`.

    HolddownError            exit code
    ├── UsageError           2   the words given cannot be followed
    ├── FactError            3   a fact could not be had
    │   ├── CheckpointError      a checkpoint cannot be read
    │   ├── MachineError         the machine could not be asked
    │   └── EngineError          an engine environment cannot be installed, found or asked
    ├── LaunchError          4   an engine could not be started, or did not come up
    └── StoreError           5   the record store is locked, damaged, or of a newer version

70 is kept for bugs: anything that is not one of these.
"""

from typing import ClassVar


class HolddownError(Exception):
    """`what` is one sentence, `seen` the evidence, `do` a remedy that can be pasted. `code` is dotted and stable."""

    exit_code: ClassVar[int] = 70

    def __init__(self, what: str, *, code: str, seen: str = "", do: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.code = code
        self.seen = seen
        self.do = do


class UsageError(HolddownError):
    exit_code = 2


class FactError(HolddownError):
    exit_code = 3


class CheckpointError(FactError):
    """A checkpoint cannot be read at all; faults that leave the rest readable are findings."""


class MachineError(FactError):
    """The machine could not be asked."""


class EngineError(FactError):
    """An engine environment could not be installed, found or asked."""


class LaunchError(HolddownError):
    exit_code = 4


class StoreError(HolddownError):
    exit_code = 5
