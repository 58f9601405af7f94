"""Runs on record: what was asked of a server, and what came of it. Append-only."""

from dataclasses import dataclass

from holddown.facts.served import Subject
from holddown.facts.workload import NO_SLO, Slo
from holddown.measure.run import Phase
from holddown.remember.record import Comparison
from holddown.verify.quality import Reference
from holddown.verify.verdict import Verdict


@dataclass(frozen=True, slots=True)
class BenchRun:
    """id: eight hex digits. at: seconds since the epoch. workload: chat, agent, rag, batch, or sizes as
    `IN:OUT`. cut: why it ended before its end, empty where it did not. source: the file it was imported from, empty for
    a run of ours. notes: what a reader must know of how it was asked. slo: the limits that its goodput was judged by.
    comparisons: what the plan of a deployment of ours would have predicted for the same load."""

    id: str
    at: float
    subject: Subject
    workload: str
    seed: int
    phases: tuple[Phase, ...]
    cut: str = ""
    source: str = ""
    notes: tuple[str, ...] = ()
    slo: Slo = NO_SLO
    comparisons: tuple[Comparison, ...] = ()


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
