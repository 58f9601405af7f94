"""Draining, and what is owed of commands that are gone."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from fakes.client import FakeClient
from fakes.clock import FakeClock
from fakes.machine import ENGINE, SUPERVISOR, FakeMachine, ref
from fakes.records import a_birth
from fakes.store import FakeStore
from holddown.app.switch import Starts, cut_short, drain, switch
from holddown.app.up import Doors
from holddown.base.errors import MachineError
from holddown.facts.machine import MachineFacts
from holddown.launch.lifecycle import State
from holddown.remember.record import Deployment, Status
from holddown.remember.switching import Switching

RUNNING = "vllm:num_requests_running"


@dataclass
class World:
    clock: FakeClock = field(default_factory=FakeClock)
    machine: FakeMachine = field(default_factory=FakeMachine)
    store: FakeStore = field(default_factory=FakeStore)
    heard: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.doors = Doors(self.store, self.machine, self.machine, self.clock)

    def goes_on(self, state: State, after: State | None = None) -> None:
        """Its owner is no process here."""
        self.store.create(replace(a_birth("aaaa0001"), name="a"), Status(state, 0.0, engine=ref(ENGINE)))
        if after is not None:
            spec = replace(a_birth().spec, port=8001)
            self.store.create(replace(a_birth("bbbb0001"), name="b", spec=spec), Status(after, 0.0))
        self.store.put_switching(Switching("aaaa0001", "b", ref(SUPERVISOR), 0.0, "bbbb0001" if after else ""))


def test_an_idle_engine_needs_no_draining() -> None:
    """And one that does not tell is not waited for."""
    world = World()

    assert drain(FakeClient(measured={RUNNING: 0.0}), "vllm", world.clock, 30, world.heard.append) == 0
    assert drain(FakeClient(), "vllm", world.clock, 30, world.heard.append) == 0
    assert world.heard == []


def test_running_requests_are_waited_for_up_to_the_limit() -> None:
    """One that never ends does not hold it up for ever."""
    world = World()
    busy = FakeClient(measured={RUNNING: 2.0})
    world.clock.at(3, lambda: busy.measured.update({RUNNING: 0.0}))

    assert 3 <= drain(busy, "vllm", world.clock, 30, world.heard.append) < 5
    assert len(world.heard) == 1 and "2 requests are running" in world.heard[0]
    assert 10 <= drain(FakeClient(measured={RUNNING: 1.0}), "vllm", world.clock, 10, world.heard.append) < 12


def test_what_made_way_for_nothing_is_owed_a_start() -> None:
    """The other failed, or never began."""
    for after in (None, State.FAILED):
        world = World()
        world.goes_on(State.STOPPED, after)
        assert [each.birth.name for each in cut_short(world.doors)] == ["a"]


def test_what_is_settled_is_taken_off_the_record() -> None:
    """The other serves; or the first one was never stopped."""
    for before, after in ((State.STOPPED, State.RELEASED), (State.RELEASED, None)):
        world = World()
        world.goes_on(before, after)
        assert cut_short(world.doors) == ()
        assert world.store.switchings() == ()


def test_a_restart_of_the_machine_settles_it() -> None:
    """Nothing is started by itself because of what was going on before."""
    world = World()
    world.goes_on(State.FAILED)
    (going,) = world.store.switchings()
    world.store.put_switching(replace(going, owner=replace(going.owner, boot_id="another")))

    assert cut_short(world.doors) == ()
    assert world.store.switchings() == ()


def test_what_goes_on_is_left_alone() -> None:
    """By its command, which lives; or by the other's supervisor."""
    world = World()
    world.goes_on(State.STOPPED, State.STARTING)
    assert cut_short(world.doors) == ()
    assert len(world.store.switchings()) == 1

    world = World()
    world.goes_on(State.STOPPED)
    world.machine.add(SUPERVISOR, "holddown switch")
    assert cut_short(world.doors) == ()
    assert len(world.store.switchings()) == 1


def test_a_driver_that_fails_after_the_stop_brings_the_first_one_back() -> None:
    """Whether its memory is back cannot be asked: the other is not started, and nothing stays down."""
    world = World()
    plan = replace(a_birth().plan, gpus=(0,))
    before = Deployment(replace(a_birth("aaaa0001"), plan=plan), Status(State.FAILED, 0.0))
    world.store.create(before.birth, before.status)

    def broken(paths: Sequence[str] = ()) -> MachineFacts:
        raise MachineError("NVML does not answer", code="machine.nvml")

    world.machine.facts = broken  # type: ignore[method-assign]
    back = Deployment(replace(a_birth("aaaa0002"), plan=plan), Status(State.RELEASED, 0.0))
    starts = Starts(lambda hear: pytest.fail("it was started"), lambda: back)
    done = switch(before, "b", starts, world.doors, world.heard.append)

    assert not done.done and done.deployment is back
    assert done.obstacle is not None and done.obstacle.code == "machine.nvml"
    assert world.store.switchings() == ()
