"""verify: what is claimed, what is kept, what a cut leaves."""

from dataclasses import dataclass, replace

from fakes.client import FakeClient, answer, well
from fakes.clock import FakeClock
from fakes.records import a_birth
from fakes.runs import a_subject
from fakes.store import FakeStore
from holddown.app.target import Target
from holddown.app.verify_target import Doors, Wanted, claims_of, kept_reference, verify_target
from holddown.base.evidence import Unknown, from_probe
from holddown.facts.answers import Ask, Refusal, Reply
from holddown.facts.served import Served
from holddown.launch.lifecycle import State
from holddown.remember.record import Deployment, Status
from holddown.remember.run import VerifyRun
from holddown.verify.quality import Position, Reference
from holddown.verify.verdict import Outcome, Verdict

SERVED = Served(("m",), from_probe("vllm", "x"), Unknown("x"), Unknown("x"))
DEPLOYMENT = Deployment(a_birth(), Status(State.RELEASED, 1.0))
QUICK = Wanted(frozenset({"first-token", "n", "json-schema"}))


def a_target(client: FakeClient, deployment: Deployment | None = None) -> Target:
    return Target(a_subject(), SERVED, client, deployment)


def doors() -> Doors:
    return Doors(FakeStore(), FakeClock(), lambda: "aaaa0001")


def run(client: FakeClient, wanted: Wanted, at: Doors) -> tuple[VerifyRun, list[str]]:
    said: list[str] = []
    return verify_target(a_target(client), wanted, at, lambda verdict: said.append(verdict.check)), said


def test_a_run_goes_on_record_with_its_verdicts() -> None:
    """Each said as it came, and no reference where none was asked for."""
    at = doors()
    given, said = run(FakeClient(), QUICK, at)
    assert said == ["first-token", "n", "json-schema"] == [verdict.check for verdict in given.verdicts]
    assert at.store.run("aaaa0001") == given
    assert given.reference is None and not given.cut


def test_what_is_claimed_is_asked_of_a_stranger_and_known_of_ours() -> None:
    """One question tells whether a server takes chats; of ours nothing is asked."""
    takes_none = FakeClient(lambda ask: Refusal(404, "Not Found"))
    assert not claims_of(a_target(takes_none)).chat
    assert claims_of(a_target(FakeClient())).chat
    ours = FakeClient()
    assert claims_of(a_target(ours, DEPLOYMENT)).ours and ours.asked == []


def test_ctrl_c_keeps_what_was_given() -> None:
    """And the record says that it was cut."""

    def cut(ask: Ask) -> Reply:
        if ask.n > 1:
            raise KeyboardInterrupt
        return well(ask)

    at = doors()
    given, _ = run(FakeClient(cut), QUICK, at)
    assert [verdict.check for verdict in given.verdicts] == ["first-token"]
    assert given.cut == "interrupted" and at.store.run("aaaa0001") == given


def echoing(ask: Ask) -> Reply:
    return answer(ask.prompt, usage=(len(ask.prompt.split()) - 1, 1)) if ask.echo else well(ask)


def test_a_reference_is_kept_where_one_is_wanted_and_compared_where_one_is_given() -> None:
    """The same server against itself passes."""
    at = doors()
    kept, _ = run(FakeClient(echoing), replace(QUICK, keep=True), at)
    assert kept.reference is not None and kept_reference("aaaa0001", at.store) == kept.reference
    began: list[str] = []
    again, said = run(
        FakeClient(echoing), replace(QUICK, against=kept.reference), replace(doors(), begins=began.append)
    )
    assert began == ["quality"]
    assert said[-1] == "quality" and again.verdicts[-1].outcome is Outcome.PASSED


def test_a_server_that_tells_nothing_is_not_compared() -> None:
    """The verdict says so, and the others stand."""
    reference = Reference(a_subject(), 1.0, ((Position("x", ()),),))
    given, _ = run(FakeClient(counts=None), replace(QUICK, against=reference), doors())
    assert given.verdicts[-1].check == "quality" and given.verdicts[-1].outcome is Outcome.INCONCLUSIVE


@dataclass
class Dead(FakeClient):
    def healthy(self) -> bool:
        return False


def test_a_dead_server_is_not_compared() -> None:
    """Its first token does not come: nothing more is asked."""
    client = Dead(lambda ask: Refusal(500, "dead"))
    given, _ = run(client, replace(QUICK, keep=True), doors())
    assert given.reference is None and "quality" not in {verdict.check for verdict in given.verdicts}


def test_the_newest_reference_of_a_deployment_that_is_down() -> None:
    """By its name; runs that kept none are passed over."""
    store = FakeStore()
    store.create(DEPLOYMENT.birth, replace(DEPLOYMENT.status, state=State.STOPPED))
    reference = Reference(a_subject(), 1.0, ())
    for id, kept in (("aaaa0001", None), ("aaaa0002", reference), ("aaaa0003", None)):
        subject = a_subject(DEPLOYMENT.birth.id)
        store.add_run(VerifyRun(id, 1.0, subject, (Verdict("n", Outcome.PASSED, "x"),), reference=kept))
    assert kept_reference(DEPLOYMENT.birth.name, store) == reference
    assert kept_reference("nobody", store) is None
