"""`verify`: whether a server is right, whoever started it; the run goes on record."""

from collections.abc import Callable
from dataclasses import dataclass

from holddown import ports
from holddown.app.target import Target
from holddown.app.verify import verify
from holddown.facts.answers import Ask, Message, Refusal
from holddown.remember.run import VerifyRun
from holddown.verify.claims import Claims, of_deployment, of_server
from holddown.verify.suite import suite
from holddown.verify.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Wanted:
    """only: names of checks, empty for all. skip: names. quick: those alone that take seconds. intrusive: load and
    abuse a server that is not ours, too."""

    only: frozenset[str] = frozenset()
    skip: frozenset[str] = frozenset()
    quick: bool = False
    intrusive: bool = False


@dataclass(frozen=True, slots=True)
class Doors:
    """new_id: of a run."""

    store: ports.Store
    clock: ports.Clock
    new_id: Callable[[], str]


def verify_target(target: Target, wanted: Wanted, doors: Doors, say: Callable[[Verdict], None]) -> VerifyRun:
    """Each verdict is said as it comes. Ctrl-C keeps those that were given, and the run says that it was cut."""
    at, given, cut = doors.clock.now(), [], ""

    def heard(verdict: Verdict) -> None:
        given.append(verdict)
        say(verdict)

    checks = suite(claims_of(target), wanted.only, quick=wanted.quick, intrusive=wanted.intrusive)
    verdicts: tuple[Verdict, ...]
    try:
        verdicts = verify(target.client, checks, wanted.skip, heard, doors.clock.sleep)
    except KeyboardInterrupt:
        verdicts, cut = tuple(given), "interrupted"
    run = VerifyRun(doors.new_id(), at, target.subject, verdicts, cut)
    doors.store.add_run(run)
    return run


def claims_of(target: Target) -> Claims:
    """From the record of a deployment of ours; of any other server from what it tells, and one question."""
    model = target.subject.model
    if target.deployment is not None:
        birth = target.deployment.birth
        return of_deployment(birth.model, birth.plan, target.served)
    reply = target.client.ask(Ask(model, 1, messages=(Message("user", "Hello."),)))
    return of_server(model, target.served, chat=not (isinstance(reply, Refusal) and 400 <= reply.status < 500))
