"""The words of a record. A deployment's birth never changes; its status does; its events are only ever appended."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from holddown.base.evidence import SourceKind
from holddown.base.finding import Finding
from holddown.facts.engine import Engine
from holddown.facts.engine_report import EngineReport
from holddown.facts.model import ModelFacts
from holddown.launch.events import Exit
from holddown.launch.lifecycle import ProcessRef, State
from holddown.launch.ownership import ShmSegment
from holddown.launch.phases import Phase
from holddown.launch.restart import SERVED_S, Restart
from holddown.launch.spec import Binding, LaunchSpec
from holddown.measure.metrics import Measurement
from holddown.plan.estimate import Estimate
from holddown.plan.plan import Plan
from holddown.verify.verdict import Outcome, Verdict

_FAILED_STARTS_KEPT = 10


@dataclass(frozen=True, slots=True)
class Birth:
    """All that was decided before the launch.

    id: eight hex digits, part of its folders' names. environment: what the engine inherited, secrets redacted.
    run_dir: its private TMPDIR and working directory. log_path: the engine's log. skip_checks: as the user named them.
    gpus_by_user: named with --gpus, so that others' claims on them do not count. after: id of the start that failed
    before this one and taught it something; empty for none. restart: what becomes of it where its engine fails.
    """

    id: str
    name: str
    created_at: float
    boot_id: str
    plan: Plan
    spec: LaunchSpec
    model: ModelFacts
    engine: Engine
    environment: tuple[tuple[str, str], ...]
    skip_checks: tuple[str, ...]
    run_dir: str
    log_path: str
    gpus_by_user: bool = False
    after: str = ""
    restart: Restart = Restart.NEVER

    @property
    def up_again(self) -> str:
        """The command that asks for the same once more, with all that the user said of it, quoted for a shell."""
        said = [("--name", self.name)]
        said += [
            ("--set", f"{one.name}={one.value}") for one in self.plan.settings if one.source.kind is SourceKind.USER
        ]
        said += [("--skip-check", check) for check in self.skip_checks]
        said += [("--api-key-file", secret.path) for secret in self.spec.secrets]
        if self.spec.host != Binding().host:
            said.append(("--host", self.spec.host))
        if self.restart is not Restart.NEVER:
            said.append(("--restart", self.restart))
        return shlex.join(["holddown", "up", self.plan.model_path, *(word for pair in said for word in pair)])


def in_the_way(there: Birth, of: Birth) -> bool:
    """Whether a deployment that is up keeps another from starting: by its name, its port, or a GPU of its plan."""
    same_gpus = not of.gpus_by_user and bool(set(there.plan.gpus) & set(of.plan.gpus))
    return there.name == of.name or there.spec.port == of.spec.port or same_gpus


@dataclass(frozen=True, slots=True)
class PhaseTime:
    """When an engine entered a phase, in seconds since its start."""

    phase: Phase
    at_s: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Output tokens per second of all requests together: as predicted for the load that was measured, and measured."""

    concurrency: int
    input_tokens: int
    output_tokens: int
    predicted: Estimate
    measured: float


@dataclass(frozen=True, slots=True)
class FailedStart:
    """After which it was to be started again. in_a_row: which one it is, since it last served for long enough."""

    at: float
    why: str
    cause: Finding | None
    exit: Exit | None
    in_a_row: int


@dataclass(frozen=True, slots=True)
class Status:
    """How a deployment is now. cause: why it failed, where it did. adopted: its supervisor is not the one that
    started it. stop_asked: a person asked for the stop. segments: its shared memory, so that who takes it over knows
    what to remove. report: what the engine itself says that it resolved; None where it says nothing. edits: settings
    with which it would not have failed so. starts: of its engine so far. failures: the last ten before this start, of
    which alone all else tells. stacks: file of what its processes were at when it stood still."""

    state: State
    since: float
    why: str = ""
    supervisor: ProcessRef | None = None
    engine: ProcessRef | None = None
    adopted: bool = False
    phases: tuple[PhaseTime, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    notes: tuple[Finding, ...] = ()
    cause: Finding | None = None
    exit: Exit | None = None
    stop_asked: bool = False
    segments: tuple[ShmSegment, ...] = ()
    report: EngineReport | None = None
    edits: tuple[tuple[str, str], ...] = ()
    starts: int = 1
    failures: tuple[FailedStart, ...] = ()
    stacks: str = ""

    @property
    def unverified(self) -> tuple[str, ...]:
        """Checks that were skipped, or showed nothing either way: every view says so."""
        nothing = (Outcome.SKIPPED, Outcome.INCONCLUSIVE)
        return tuple(verdict.check for verdict in self.verdicts if verdict.outcome in nothing)


@dataclass(frozen=True, slots=True)
class Deployment:
    birth: Birth
    status: Status

    @property
    def label(self) -> str:
        """`released`, or `released (coherence unverified)`."""
        unverified = ", ".join(self.status.unverified)
        return f"{self.status.state} ({unverified} unverified)" if unverified else str(self.status.state)


# --- events ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StateChanged:
    state: State
    why: str


@dataclass(frozen=True, slots=True)
class PhaseEntered:
    """phase with its count and details; `at_s` since the engine's start."""

    phase: Phase
    at_s: float
    done: int = 0
    total: int = 0
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Growing:
    """The engine prints nothing; this grows: resident memory and bytes read from disk, of its whole session."""

    rss_bytes: int
    read_bytes: int


@dataclass(frozen=True, slots=True)
class Doing:
    """What our own part of a start is at, for whoever watches it."""

    text: str


@dataclass(frozen=True, slots=True)
class VerdictGiven:
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class MeasurementTaken:
    measurements: tuple[Measurement, ...]


@dataclass(frozen=True, slots=True)
class Noted:
    """Something to know about the deployment: an adoption, a fallback, its cause of death."""

    finding: Finding


Happening = StateChanged | PhaseEntered | Growing | Doing | VerdictGiven | MeasurementTaken | Noted


@dataclass(frozen=True, slots=True)
class Entry:
    """One happening on record. seq grows by one per record store, so a reader asks for all after the last it saw."""

    seq: int
    at: float
    happening: Happening


def gpu_claims(active: Iterable[Deployment]) -> dict[int, str]:
    """GPU index -> the deployment of ours that uses it."""
    return {gpu: each.birth.name for each in active for gpu in each.birth.plan.gpus}


@dataclass(frozen=True, slots=True)
class Past:
    """What happened to a deployment, for who takes it over. started_at: its engine, last; 0 where it is not told.
    released: that engine. served: it or one before it."""

    started_at: float
    released: bool
    served: bool


def past_of(entries: Iterable[Entry]) -> Past:
    started_at, released, served, before = 0.0, False, False, State.WAITING
    for entry in entries:
        if not isinstance(entry.happening, StateChanged):
            continue
        state = entry.happening.state
        if state is State.STARTING and before is State.WAITING:  # not one that moves again
            started_at, released = entry.at, False
        released |= state is State.RELEASED
        served |= released
        before = state
    return Past(started_at, released, served)


def in_a_row(status: Status, now: float) -> int:
    """How many of its starts have failed one after the other."""
    served = status.state is State.RELEASED and now - status.since >= SERVED_S
    return 0 if served or not status.failures else status.failures[-1].in_a_row


def between_starts(status: Status, failed: FailedStart) -> Status:
    """Of a deployment whose engine is gone and comes again: nothing is left of what was said of that one."""
    return Status(
        state=State.WAITING,
        since=failed.at,
        supervisor=status.supervisor,
        adopted=status.adopted,
        starts=status.starts,
        failures=(*status.failures, failed)[-_FAILED_STARTS_KEPT:],
    )
