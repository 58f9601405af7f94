"""What a report is made of."""

from dataclasses import dataclass
from datetime import UTC, datetime

from holddown.remember.record import Deployment
from holddown.remember.run import BenchRun, VerifyRun


@dataclass(frozen=True, slots=True)
class Told:
    """Of one deployment. starts: those that led to it, itself last. bench, verify: the newest of each on record, None
    where there is none. at: seconds since the epoch, when this was put together. version: of holddown."""

    deployment: Deployment
    starts: tuple[Deployment, ...]
    bench: BenchRun | None
    verify: VerifyRun | None
    at: float
    version: str


def date_text(at: float) -> str:
    """`2026-11-30 01:22 UTC`: a page goes to other places than the machine it tells of."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
