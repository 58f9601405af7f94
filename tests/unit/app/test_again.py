"""A deployment on record made ready to start once more."""

from dataclasses import replace

import pytest

from fakes.clock import FakeClock
from fakes.engine import FakeEngines, FakeProbe, an_engine, engine_facts
from fakes.facts import model
from fakes.ground import FakeCheckpoints, FakeGround
from fakes.records import a_birth, a_plan
from fakes.store import FakeStore
from holddown.app.again import Again, Doors, again, same_command
from holddown.app.prepare import despite_text
from holddown.app.up import Place
from holddown.base.errors import UsageError
from holddown.base.finding import Finding, Severity
from holddown.facts.engine import Engine
from holddown.facts.model import CodeFile, Inspection
from holddown.remember.record import Birth

PLACE = Place("4567cdef", "/tmp/new", "/state/new/engine.log", "/state/new/supervisor.log")
BEFORE = a_birth(plan=a_plan(digest=model().digest))


def made(
    before: Birth = BEFORE,
    *,
    seen: Inspection | None = None,
    engines: FakeEngines | None = None,
    held: dict[int, str] | None = None,
) -> Again:
    doors = Doors(
        FakeCheckpoints(seen or Inspection(before.model, ())),
        engines or FakeEngines([an_engine()]),
        FakeProbe(engine_facts()),
        FakeGround(held=held or {}),
        FakeStore(),
        FakeClock(20_000.0),
    )
    return again(before, PLACE, (("HF_TOKEN", "secret"),), ("/state", "/tmp"), doors)


def test_it_is_the_same_but_for_where_and_when() -> None:
    """The plan, the command and the checks are those that were released; the secret goes not on record."""
    new = made().birth
    assert same_command(new, BEFORE) and new.plan == BEFORE.plan
    assert (new.id, new.run_dir, new.log_path, new.created_at) == (
        PLACE.id,
        PLACE.run_dir,
        PLACE.log_path,
        20_000.0,
    )
    assert new.environment == (("HF_TOKEN", "(redacted)"),)


def test_other_weights_are_not_started() -> None:
    """Their digest is another; the command to begin with is given."""
    with pytest.raises(UsageError) as raised:
        made(seen=Inspection(replace(BEFORE.model, digest="another"), ()))
    assert raised.value.code == "again.checkpoint-changed" and "holddown up" in raised.value.do


def test_other_code_beside_the_weights_is_not_run() -> None:
    """Consent was to what was there."""
    with pytest.raises(UsageError, match="not the checkpoint any more"):
        made(seen=Inspection(replace(BEFORE.model, remote_code=(CodeFile("modeling.py", "h"),)), ()))


@pytest.mark.parametrize("there", [[], [an_engine(version="0.33.0")], [replace(an_engine(), python="/other/python")]])
def test_another_engine_is_not_taken(there: list[Engine]) -> None:
    """Not a newer one either: what was verified was this."""
    with pytest.raises(UsageError) as raised:
        made(engines=FakeEngines(there))
    assert raised.value.code == "again.engine-gone"


def test_what_the_machine_says_now_forbids_it() -> None:
    """All of it: the port's holder, and a fault of the files."""
    fault = Finding("weights.truncated", Severity.BLOCK, "a", "cut short")
    held = made(held={8000: "pid 9 of bob: nginx"}, seen=Inspection(BEFORE.model, (fault,)))
    assert {each.code for each in held.blocked} == {"port.taken", "weights.truncated"}


def test_what_the_user_said_holds_again_and_no_more() -> None:
    """`--despite CODE` is on record in the plan's findings; another code still forbids."""
    said = Finding("port.taken", Severity.WARN, "p", "taken", do=despite_text("port.taken"))
    before = replace(BEFORE, plan=replace(BEFORE.plan, findings=(said,)))
    assert made(before, held={8000: "nginx"}).blocked == ()
    warned = replace(before, plan=replace(BEFORE.plan, findings=(replace(said, do="--port 8001"),)))
    assert made(warned, held={8000: "nginx"}).blocked
