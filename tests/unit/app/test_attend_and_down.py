"""Looking after deployments that lost their supervisor, following one, and stopping one."""

from dataclasses import dataclass, field, replace

import pytest

from fakes.clock import FakeClock
from fakes.machine import BOOT, ENGINE, SUPERVISOR, FakeMachine, ref
from fakes.records import a_birth
from fakes.store import FakeStore
from holddown.app.attend import attend
from holddown.app.down import down
from holddown.app.up import Doors, follow
from holddown.base.errors import LaunchError
from holddown.base.finding import Finding
from holddown.launch.events import Exit
from holddown.launch.lifecycle import State
from holddown.remember.record import Birth, Deployment, StateChanged, Status

RUNNING = Status(State.RELEASED, 0.0, supervisor=ref(SUPERVISOR), engine=ref(ENGINE))


@dataclass
class World:
    clock: FakeClock = field(default_factory=FakeClock)
    machine: FakeMachine = field(default_factory=FakeMachine)
    store: FakeStore = field(default_factory=FakeStore)

    def __post_init__(self) -> None:
        self.doors = Doors(self.store, self.machine, self.machine, self.clock)

    def on_record(self, status: Status, birth: Birth | None = None) -> Deployment:
        birth = birth or a_birth()
        self.store.create(birth, status)
        return Deployment(birth, status)

    def supervisor_lives(self) -> None:
        """It takes its time to stop."""
        self.machine.stubborn = frozenset({SUPERVISOR})
        self.machine.add(SUPERVISOR, "holddown supervise")

    def write(self, status: Status, *happenings: StateChanged) -> None:
        self.store.write("0123abcd", status, happenings, self.clock.now())

    def attend(self) -> tuple[Finding, ...]:
        return attend(self.doors, BOOT, lambda deployment_id: f"/state/{deployment_id}.log").findings


def test_a_supervised_deployment_is_left_alone() -> None:
    """Nothing is said and nothing is started."""
    world = World()
    world.on_record(RUNNING)
    world.supervisor_lives()
    assert world.attend() == () and world.machine.supervisors == []


def test_an_engine_without_supervisor_gets_one() -> None:
    """And it is said, once the new one is on record."""
    world = World()
    world.on_record(replace(RUNNING, supervisor=ref(899)))
    world.machine.on_supervisor = lambda _: world.clock.at(0.5, lambda: world.write(RUNNING))
    (finding,) = world.attend()
    assert world.machine.supervisors == ["0123abcd"]
    assert "a new one watches its engine now" in finding.what


def test_a_pid_of_the_supervisor_that_is_another_programs_is_no_supervisor() -> None:
    """The number alone proves nothing."""
    world = World()
    world.on_record(replace(RUNNING, supervisor=replace(ref(SUPERVISOR), started_at=5)))
    world.supervisor_lives()
    world.attend()
    assert world.machine.supervisors == ["0123abcd"]


def test_an_engine_that_is_gone_too_is_not_said_to_be_watched() -> None:
    """What the new supervisor found is what is said."""
    world = World()
    world.on_record(replace(RUNNING, supervisor=ref(899)))
    gone = replace(RUNNING, state=State.STOPPING, exit=Exit(None))
    world.machine.on_supervisor = lambda _: world.write(gone)
    (finding,) = world.attend()
    assert "and so is its engine" in finding.what


def test_a_reboot_ends_a_deployment_without_a_signal() -> None:
    """Its pids are other programs' now: nothing is signalled, nothing is started, and the state is true again."""
    world = World()
    world.on_record(RUNNING, a_birth(boot_id="boot-0"))
    world.machine.engine_runs()
    world.supervisor_lives()
    (finding,) = world.attend()
    assert finding.code == "state.reboot"
    assert world.store.statuses["0123abcd"].state is State.FAILED
    assert world.machine.signalled == [] and world.machine.supervisors == []


@pytest.mark.parametrize(("age_s", "state"), [(20, State.STARTING), (40, State.FAILED)])
def test_a_record_whose_supervisor_never_came_up_is_failed_after_a_while(age_s: float, state: State) -> None:
    """The command died in between; nothing is launched later behind anybody's back."""
    world = World()
    world.on_record(Status(State.STARTING, 0.0))
    world.clock.sleep(age_s)
    world.attend()
    assert world.store.statuses["0123abcd"].state is state
    assert world.machine.supervisors == []


def test_down_asks_the_supervisor_and_waits_for_the_end() -> None:
    """It is the supervisor that stops the engine; a second `down` finds it over."""
    world = World()
    world.supervisor_lives()
    deployment = world.on_record(RUNNING)
    over = replace(RUNNING, state=State.STOPPED)
    world.clock.at(3.0, lambda: world.write(over, StateChanged(State.STOPPED, "")))
    stopped = down(deployment, world.doors)
    assert world.machine.signalled == [("SIGTERM", SUPERVISOR)]
    assert stopped.deployment.status == over and not stopped.was_over
    assert down(stopped.deployment, world.doors).was_over


def test_down_right_after_up_waits_for_the_supervisor() -> None:
    """It is on record a second later."""
    world = World()
    world.supervisor_lives()
    deployment = world.on_record(Status(State.STARTING, 0.0))
    world.clock.at(1.0, lambda: world.write(RUNNING))
    world.clock.at(2.0, lambda: world.write(replace(RUNNING, state=State.STOPPED)))
    assert down(deployment, world.doors).deployment.status.state is State.STOPPED


def test_down_says_when_there_is_nobody_to_ask() -> None:
    """Its supervisor was killed just now."""
    world = World()
    deployment = world.on_record(RUNNING)
    with pytest.raises(LaunchError) as raised:
        down(deployment, world.doors)
    assert raised.value.code == "down.unsupervised" and "holddown status" in raised.value.do


def test_the_last_word_of_a_supervisor_is_followed_to_its_end() -> None:
    """It writes `failed` and ends in the same instant: that is no lost supervisor, and its words are shown."""
    world = World()
    world.supervisor_lives()
    world.on_record(RUNNING)

    def ends() -> None:
        world.write(replace(RUNNING, state=State.FAILED), StateChanged(State.FAILED, "it crashed"))
        world.machine.alive.clear()

    world.clock.at(1.0, ends)
    entries = [each for each in follow("0123abcd", world.doors, frozenset()) if each is not None]
    assert [entry.happening for entry in entries] == [StateChanged(State.FAILED, "it crashed")]


def test_a_lost_supervisor_is_said_and_not_waited_for() -> None:
    """The engine may be serving; the next command looks after it."""
    world = World()
    world.supervisor_lives()
    world.on_record(RUNNING)
    world.clock.at(1.0, world.machine.alive.clear)
    with pytest.raises(LaunchError) as raised:
        list(follow("0123abcd", world.doors, frozenset()))
    assert raised.value.code == "launch.supervisor-gone"


def test_a_supervisor_that_never_comes_is_not_waited_for_for_ever() -> None:
    """Half a minute."""
    world = World()
    world.on_record(Status(State.STARTING, 0.0))
    with pytest.raises(LaunchError):
        list(follow("0123abcd", world.doors, frozenset()))
    assert 30 <= world.clock.elapsed < 31
