"""Runs on record: what was asked of a server, and what came of it. Append-only."""

from dataclasses import dataclass

from holddown.facts.served import Subject
from holddown.measure.run import Phase
from holddown.verify.quality import Reference
from holddown.verify.verdict import Verdict


@dataclass(frozen=True, slots=True)
class BenchRun:
    """id: eight hex digits. at: seconds since the epoch. workload: chat, agent, rag, batch, or sizes as
    `IN:OUT`. cut: why it ended before its end, empty where it did not. source: the file it was imported from, empty for
    a run of ours."""

    id: str
    at: float
    subject: Subject
    workload: str
    seed: int
    phases: tuple[Phase, ...]
    cut: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class VerifyRun:
    """cut: as above. reference: what later runs can be compared with; None where it was not asked for."""

    id: str
    at: float
    subject: Subject
    verdicts: tuple[Verdict, ...]
    cut: str = ""
    reference: Reference | None = None


Run = BenchRun | VerifyRun
