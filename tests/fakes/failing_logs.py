"""Logs of engines that failed: real excerpts, and composed ones where nobody of us could make it fail so."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

CAPTURES = Path(__file__).parents[1] / "captures"


@dataclass(frozen=True)
class FailingLog:
    """run: of which real run it is an excerpt. composed: or whose words it is made of. exit: the status, or minus the
    signal. code, what, do: of the finding, the latter two in part. signs: the failures that it shows, in order."""

    name: str
    exit: int
    code: str
    what: str
    do: str
    signs: tuple[str, ...]
    log: str
    run: str = ""
    composed: str = ""

    def __post_init__(self) -> None:
        assert bool(self.run) != bool(self.composed), f"{self.name}: either run or composed"

    @property
    def lines(self) -> list[str]:
        return self.log.splitlines()

    @property
    def diagnosis(self) -> str:
        """The code without its first word; empty where no sign tells it, but the exit."""
        return self.code.removeprefix("engine.")


def failing_logs() -> list[FailingLog]:
    files = [*sorted(CAPTURES.glob("*/failures.toml")), *sorted((CAPTURES / "composed").glob("*.toml"))]
    rows = [row for file in files for row in tomllib.loads(file.read_text(encoding="utf-8"))["failure"]]
    return [FailingLog(**{**row, "signs": tuple(row["signs"])}) for row in rows]
