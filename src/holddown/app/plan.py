"""`plan`: how a checkpoint should run on a machine, and with which command. Starts nothing and writes nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from holddown import ports
from holddown.app.ask import AskedPlan, asked_plan
from holddown.base.errors import EngineError, UsageError
from holddown.base.finding import Finding
from holddown.facts.machine import MachineFacts
from holddown.facts.model import Inspection, ModelFacts
from holddown.launch.engines import ADAPTERS, adapter
from holddown.launch.spec import Binding, LaunchSpec
from holddown.plan.choose import plan as choose
from holddown.plan.plan import NoPlan, Plan, Rejected
from holddown.plan.site import Site
from holddown.plan.wishes import Candidate, Wishes
from holddown.remember.trust import TrustedCode, consent
from holddown.tables.load import recorded_engine, recorded_engines


@dataclass(frozen=True, slots=True)
class Doors:
    checkpoints: ports.Checkpoints
    engines: ports.Engines
    probe: ports.EngineProbe
    say: ports.Progress
    selector: ports.EngineSelector | None = None


@dataclass(frozen=True, slots=True)
class Planned:
    """plan.findings: of the plan and the flags; nothing of the ground it would stand on."""

    inspection: Inspection
    machine: MachineFacts
    candidate: Candidate
    plan: Plan

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The checkpoint's own first."""
        return (*self.inspection.findings, *self.plan.findings)

    def command(self, binding: Binding) -> LaunchSpec:
        """The exact command that listens there."""
        return adapter(self.candidate.engine.kind).command(
            self.plan, self.candidate.engine, self.candidate.facts, binding
        )


def plan(
    path: str,
    site: Site,
    wishes: Wishes,
    doors: Doors,
    trusted: Sequence[TrustedCode] = (),
    *,
    ask: bool | None = False,
) -> Planned | NoPlan:
    """Also with builds that are only recorded. trusted: code that the user allowed. ask: as in `plan_of`.

    Raises: UsageError, FactError.
    """
    recorded = recorded_candidates(wishes.engine)
    _known(wishes.engine, doors, recorded)
    doors.say(f"inspecting {path}")
    inspection = doors.checkpoints.inspect(path)
    wishes = replace(wishes, consent=consent(inspection.model, trusted))
    return plan_of(inspection, site, wishes, doors, recorded, ask=ask)


def _known(wanted: str, doors: Doors, recorded: Sequence[Candidate]) -> None:
    """Raises: UsageError when no build is called so."""
    registered = doors.engines.all()
    if not wanted or recorded or any(wanted in (engine.name, engine.ref) for engine in registered):
        return
    raise UsageError(
        f"no engine is called {wanted}",
        code="usage.engine",
        seen=f"registered here: {', '.join(each.ref for each in registered) or 'none'}; "
        f"recorded: {', '.join(each.ref for each in recorded_engines())}",
        do="name one of these, or leave --engine out",
    )


def plan_of(
    inspection: Inspection,
    site: Site,
    wishes: Wishes,
    doors: Doors,
    recorded: Sequence[Candidate] = (),
    *,
    ask: bool | None = False,
) -> Planned | NoPlan:
    """recorded: builds that may be planned for though they are not installed here. ask: the chosen build's own
    selectors, which takes about 20 s once per build and question; None: where that makes sense. Raises: FactError."""
    # for GPUs of another machine, what happens to be installed here says nothing unless it is named
    elsewhere = not site.here and site.machine.gpus and not wishes.engine
    candidates, broken = ([], ()) if elsewhere else _candidates(wishes.engine, doors)
    known = {each.engine.ref for each in candidates}
    candidates += [each for each in recorded if each.engine.ref not in known]
    asked = _asked(inspection.model, site, candidates, wishes, broken, doors, ask)
    planned = asked.plan
    if isinstance(planned, NoPlan):
        return planned
    candidate = next(each for each in asked.candidates if each.engine.ref == planned.engine)
    engine = adapter(candidate.engine.kind)
    unknown_flags = engine.unknown_flags(planned, candidate.facts)
    findings: tuple[Finding, ...] = (*planned.findings, *asked.findings, *unknown_flags)
    return Planned(inspection, site.machine, candidate, replace(planned, findings=findings))


def _asked(
    model: ModelFacts,
    site: Site,
    candidates: Sequence[Candidate],
    wishes: Wishes,
    broken: Sequence[Rejected],
    doors: Doors,
    ask: bool | None,
) -> AskedPlan:
    if ask is False or doors.selector is None:
        return AskedPlan(choose(model, site, candidates, wishes, broken), tuple(candidates), ())
    return asked_plan(model, site, candidates, wishes, broken, doors.selector, doors.say, by_hand=ask is True)


def recorded_candidates(wanted: str) -> tuple[Candidate, ...]:
    """Builds that are not installed here but known from their published packages: the one that `wanted` names, or the
    newest of each engine."""
    engines = [engine for engine in recorded_engines() if engine.kind in ADAPTERS]
    named = [engine for engine in engines if engine.ref == wanted]
    newest = {engine.name: engine for engine in engines if wanted in ("", engine.name)}
    return tuple(Candidate(*recorded_engine(each.name, each.version)) for each in named or newest.values())


def _candidates(wanted: str, doors: Doors) -> tuple[list[Candidate], tuple[Rejected, ...]]:
    """Every registered build with its facts, or those that are called as was asked for; the others need no asking. One
    that is broken is no reason to refuse the others."""
    candidates: list[Candidate] = []
    broken: list[Rejected] = []
    for engine in doors.engines.all():
        if wanted not in ("", engine.name, engine.ref):
            broken.append(Rejected(engine.ref, f"--engine {wanted} was asked for"))
            continue
        try:
            candidates.append(Candidate(engine, doors.probe.facts(engine, doors.say)))
        except EngineError as error:
            broken.append(Rejected(engine.ref, f"{error.what}: {error.seen}"))
    return candidates, tuple(broken)
