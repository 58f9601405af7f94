"""What a service does before it supervises, and after it ended; whole lives are in tests/functional."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pytest

from fakes.client import FakeClient
from fakes.clock import FakeClock
from fakes.leftovers import TRACES, FakeHost, FakeLeftovers
from fakes.machine import BOOT, ENGINE, SUPERVISOR, FakeMachine, ref
from fakes.records import a_birth
from fakes.service import FakeNotify
from fakes.store import FakeStore
from fakes.supervision import FakeBackground, FakeLog, FakeSignals
from holddown.app import up
from holddown.app.again import Again
from holddown.app.serve import Doors, exit_code, serve, settle
from holddown.app.supervise import Doors as SupervisorDoors
from holddown.base.errors import LaunchError, UsageError
from holddown.base.finding import Finding, Severity
from holddown.launch.export.systemd import STAYS_DOWN
from holddown.launch.lifecycle import State
from holddown.remember.record import Birth, Deployment, Status

PATTERN = a_birth()
FRESH = replace(PATTERN, id="4567cdef", created_at=10_000.0)
RELEASED = Status(State.RELEASED, 0.0, supervisor=ref(SUPERVISOR), engine=ref(ENGINE))


@dataclass
class World:
    """supervised: by another program, which has the lock."""

    findings: tuple[Finding, ...] = ()
    supervised: bool = False
    clock: FakeClock = field(default_factory=FakeClock)
    machine: FakeMachine = field(default_factory=FakeMachine)
    store: FakeStore = field(default_factory=FakeStore)
    notify: FakeNotify = field(default_factory=FakeNotify)
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.signals = FakeSignals(self.clock)

    def doors(self) -> Doors:
        return Doors(
            deployments=up.Doors(self.store, self.machine, self.machine, self.clock),
            again=lambda before: Again(FRESH, self.findings),
            supervisor=self.supervisor,
            signals=lambda: self.signals,
            notify=self.notify,
            say=self.said.append,
            boot_id=BOOT,
        )

    @contextmanager
    def supervisor(self, birth: Birth) -> Iterator[SupervisorDoors | None]:
        own = SupervisorDoors(
            store=self.store,
            host=self.machine,
            processes=self.machine,
            leftovers=FakeLeftovers(FakeHost(), TRACES),
            client=FakeClient,
            log=FakeLog(),
            signals=self.signals,
            background=FakeBackground(self.clock),
            clock=self.clock,
            obstacles=lambda birth: (),
            notify=self.notify,
        )
        yield None if self.supervised else own

    def serve(self) -> Deployment:
        return serve(PATTERN, self.doors())


def test_a_fresh_start_goes_on_record_and_is_supervised_here() -> None:
    """Ready once it is released; told to stop a minute later, it ends."""
    world = World()
    world.clock.at(60, world.signals.ask)
    ended = world.serve()
    assert (ended.birth.id, ended.status.state) == (FRESH.id, State.STOPPED)
    assert world.machine.started == 1 and world.store.states()[:3] == ["starting", "ready", "released"]
    assert [word for word in world.notify.words if word in ("READY=1", "STOPPING=1")] == ["READY=1", "STOPPING=1"]


def test_the_supervisor_restarts_the_engine_until_it_gives_up() -> None:
    """Whatever policy the pattern had; systemd is told nothing in between, and then does not begin again."""
    world = World()
    for second in (60, 120, 180):
        world.clock.at(second, lambda: world.machine.all_end(-9))
    ended = world.serve()
    assert (ended.status.state, world.machine.started, len(ended.status.failures)) == (State.FAILED, 3, 2)
    assert [word for word in world.notify.words if word in ("READY=1", "STOPPING=1")] == ["READY=1", "STOPPING=1"]
    assert exit_code(ended) == STAYS_DOWN


@pytest.mark.parametrize(("state", "code"), [(State.STOPPED, 0), (State.FAILED, 4)])
def test_a_start_that_fails_is_systemds_to_repeat_and_a_stop_is_not(state: State, code: int) -> None:
    """By its exit code."""
    assert exit_code(Deployment(PATTERN, Status(state, 0.0))) == code


def test_what_forbids_the_start_is_said_at_once() -> None:
    """Every obstacle, and nothing goes on record."""
    block = Finding("port.taken", Severity.BLOCK, "8000", "port 8000 is taken", do="wait")
    world = World((block, replace(block, code="gpu.busy", what="GPU 0 is busy")))
    with pytest.raises(LaunchError, match=r"port 8000 is taken; also gpu\.busy: GPU 0 is busy"):
        world.serve()
    assert world.store.all() == () and world.machine.started == 0


def test_another_in_the_way_is_named() -> None:
    """A deployment of another name that has its port."""
    world = World()
    world.store.create(replace(a_birth("89ab0123"), name="other"), RELEASED)
    with pytest.raises(LaunchError) as raised:
        world.serve()
    assert "the deployment other" in raised.value.what and world.machine.started == 0


def test_one_of_before_a_reboot_is_not_taken_over() -> None:
    """Its pid means another program now: it is marked, whatever its name, and a fresh one starts."""
    world = World()
    world.store.create(replace(PATTERN, boot_id="boot-0"), RELEASED)
    world.clock.at(60, world.signals.ask)
    assert world.serve().birth.id == FRESH.id
    assert world.store.statuses[PATTERN.id].state is State.FAILED


def test_another_command_under_its_name_is_left_alone() -> None:
    """And an `up` that is over is nobody's."""
    world = World()
    other = replace(PATTERN, skip_checks=("coherence",))
    world.store.create(other, RELEASED)
    with pytest.raises(UsageError) as raised:
        world.serve()
    assert raised.value.code == "service.another" and world.machine.signalled == []


def test_an_engine_without_supervisor_is_taken_over() -> None:
    """Ready at once, with the engine that runs."""
    world = World()
    world.store.create(PATTERN, replace(RELEASED, supervisor=ref(899)))
    world.machine.engine_runs()
    world.clock.at(60, world.signals.ask)
    ended = world.serve()
    assert (ended.birth.id, ended.status.state, ended.status.adopted) == (PATTERN.id, State.STOPPED, True)
    assert world.machine.started == 0 and world.notify.words.count("READY=1") == 1


def test_one_that_is_supervised_is_stood_by_until_it_is_over() -> None:
    """Ready as it is released; its end is the service's."""
    world = World(supervised=True)
    world.store.create(PATTERN, RELEASED)
    world.machine.add(SUPERVISOR, "holddown supervise")
    over = replace(RELEASED, state=State.FAILED)
    world.clock.at(60, lambda: world.store.write(PATTERN.id, over, (), 0.0))
    assert world.serve().status.state is State.FAILED
    assert world.notify.words.count("READY=1") == 1 and world.machine.started == 0


def test_a_supervisor_that_never_comes_is_not_waited_for() -> None:
    """Recorded by a command that died: after half a minute it is started here."""
    world = World(supervised=True)
    world.store.create(FRESH, Status(State.STARTING, 10_000.0))
    world.clock.at(20, lambda: setattr(world, "supervised", False))
    world.clock.at(60, world.signals.ask)
    assert world.serve().birth.id == FRESH.id
    assert world.machine.started == 1 and world.clock.elapsed >= 30


@pytest.mark.parametrize(
    ("status", "ended"),
    [
        (replace(RELEASED, supervisor=ref(899)), True),
        (replace(RELEASED, state=State.STOPPING, supervisor=ref(899), stop_asked=True), True),
        (RELEASED, False),
        (Status(State.STARTING, 10_000.0), False),
        (replace(RELEASED, state=State.STOPPED), False),
    ],
)
def test_after_a_stop_only_what_nobody_supervises_is_ended(status: Status, ended: bool) -> None:
    """Not what another program looks after, nor what is so young that it has no supervisor yet."""
    world = World()
    world.store.create(PATTERN, status)
    world.machine.add(SUPERVISOR, "holddown supervise")
    world.machine.engine_runs()
    assert settle(replace(PATTERN, skip_checks=("coherence",)), world.doors()) is None  # another command's
    settled = settle(PATTERN, world.doors())
    assert (settled is not None) == ended == bool(world.machine.signalled)
    if settled is not None:
        assert settled.status.state is State.STOPPED
