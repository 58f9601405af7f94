"""`verify`: whether a server is right, whoever started it; the run goes on record."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from holddown import ports
from holddown.app.play import play
from holddown.app.target import Target
from holddown.app.verify import verify
from holddown.base.errors import FactError
from holddown.facts.answers import Ask, Message, Refusal
from holddown.remember.run import VerifyRun
from holddown.verify import quality
from holddown.verify.claims import Claims, of_deployment, of_server
from holddown.verify.quality import Reference
from holddown.verify.suite import suite
from holddown.verify.verdict import Outcome, Verdict
from holddown.verify.verdicts import inconclusive


@dataclass(frozen=True, slots=True)
class Wanted:
    """only: names of checks, empty for all. skip: names. quick: those alone that take seconds. intrusive: load and
    abuse a server that is not ours, too. against: what to compare it with. keep: a reference of it is to be kept."""

    only: frozenset[str] = frozenset()
    skip: frozenset[str] = frozenset()
    quick: bool = False
    intrusive: bool = False
    against: Reference | None = None
    keep: bool = False


@dataclass(frozen=True, slots=True)
class Doors:
    """new_id: of a run. begins: hears the name of a check that takes its time."""

    store: ports.Store
    clock: ports.Clock
    new_id: Callable[[], str]
    begins: ports.Progress = lambda name: None


def verify_target(target: Target, wanted: Wanted, doors: Doors, say: Callable[[Verdict], None]) -> VerifyRun:
    """Each verdict is said as it comes. Ctrl-C keeps those that were given, and the run says that it was cut."""
    given: list[Verdict] = []
    run = VerifyRun(doors.new_id(), doors.clock.now(), target.subject, ())

    def heard(verdict: Verdict) -> None:
        given.append(verdict)
        say(verdict)

    checks = suite(claims_of(target), wanted.only, quick=wanted.quick, intrusive=wanted.intrusive)
    try:
        run = replace(run, verdicts=verify(target.client, checks, wanted.skip, heard, doors.clock.sleep, doors.begins))
        if (wanted.against or wanted.keep) and _worth(run.verdicts):
            run = _compared(run, target, wanted, doors, say)
    except KeyboardInterrupt:
        run = replace(run, verdicts=tuple(given), cut="interrupted")
    doors.store.add_run(run)
    return run


def kept_reference(word: str, store: ports.Store) -> Reference | None:
    """Of the run with that id, or of the newest that kept one of the deployment with that name."""
    run = store.run(word)
    deployment = store.latest(word)
    runs = (run,) if run is not None else store.runs(deployment.birth.id) if deployment is not None else ()
    kept = (each.reference for each in runs if isinstance(each, VerifyRun))
    return next((reference for reference in kept if reference is not None), None)


def reference_of(target: Target, clock: ports.Clock) -> Reference:
    """What it thinks now. Raises: FactError where it does not tell."""
    read = play(quality.passages(target.subject.model), target.client, clock.sleep)
    if isinstance(read, Refusal):
        raise FactError(
            f"{target.subject.name} cannot be compared: it gives no log-probabilities of a text",
            code="quality.no-logprobs",
            seen=read.message,
            do="the quality guard needs echo with logprobs, or /tokenize and logprobs, on /v1/completions",
        )
    return Reference(target.subject, clock.now(), read, _settings(target))


def _settings(target: Target) -> tuple[tuple[str, str], ...]:
    """None of a server that is not ours."""
    if target.deployment is None:
        return ()
    birth = target.deployment.birth
    return quality.telling((*((one.name, one.value) for one in birth.plan.settings), ("engine", birth.engine.ref)))


def claims_of(target: Target) -> Claims:
    """From the record of a deployment of ours; of any other server from what it tells, and one question."""
    model = target.subject.model
    if target.deployment is not None:
        birth = target.deployment.birth
        return of_deployment(birth.model, birth.plan, target.served)
    reply = target.client.ask(Ask(model, 1, messages=(Message("user", "Hello."),)))
    return of_server(model, target.served, chat=not (isinstance(reply, Refusal) and 400 <= reply.status < 500))


def _worth(verdicts: tuple[Verdict, ...]) -> bool:
    """Not of a server that died on the way."""
    return not any(each.outcome is Outcome.SKIPPED and each.seen.startswith("not run") for each in verdicts)


def _compared(
    run: VerifyRun, target: Target, wanted: Wanted, doors: Doors, say: Callable[[Verdict], None]
) -> VerifyRun:
    doors.begins(quality.NAME)
    try:
        own = reference_of(target, doors.clock)
    except FactError as error:
        verdict = inconclusive(quality.NAME, f"{error.what}: {error.seen}")
        say(verdict)
        return replace(run, verdicts=(*run.verdicts, verdict))
    if wanted.against is None:
        return replace(run, reference=own)
    verdict = quality.judge(wanted.against, own)
    say(verdict)
    return replace(run, verdicts=(*run.verdicts, verdict), reference=own)
