"""`diagnose`: why an engine ended, from a log of whatever length and whoever wrote it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from holddown.verify.diagnose import Report
from holddown.verify.scan import scan


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """engine: whose log it is, empty where that is not known. exit_code: as given."""

    report: Report
    engine: str
    exit_code: int | None


def diagnose(
    blocks: Iterable[bytes], exit_code: int | None, engine: str = "", told: Callable[[int], None] | None = None
) -> Diagnosed:
    """told: hears how many bytes were read."""
    return Diagnosed(scan(blocks, engine, told).report(exit_code), engine, exit_code)
