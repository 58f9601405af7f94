"""Installing and removing a service, on a service manager in memory."""

from dataclasses import dataclass, field, replace

import pytest

from fakes.records import a_birth
from fakes.service import FakeServiceManager
from fakes.store import FakeStore
from holddown.app.service import Ground, Installed, described, install, remove
from holddown.base.errors import MachineError, UsageError
from holddown.launch.lifecycle import State
from holddown.launch.spec import SecretEnv
from holddown.remember.record import Deployment, StateChanged, Status

UNIT = "holddown-m.service"


@dataclass
class World:
    manager: FakeServiceManager = field(default_factory=FakeServiceManager)
    store: FakeStore = field(default_factory=FakeStore)
    modes: dict[str, int] = field(default_factory=dict)
    deployment: Deployment = field(default_factory=lambda: Deployment(a_birth(), Status(State.RELEASED, 0.0)))

    def __post_init__(self) -> None:
        self.store.create(self.deployment.birth, self.deployment.status)

    def happened(self, *states: State) -> None:
        happenings = tuple(StateChanged(state, "") for state in states)
        self.store.write(self.deployment.birth.id, self.deployment.status, happenings, 0.0)

    def described(self) -> Installed:
        ground = Ground(("/e/python",), "", "/c/m.env", "/state", self.modes.get)
        return described(self.deployment, ground, self.store, self.manager)

    def install(self) -> Installed:
        return install(self.described(), self.manager)


@pytest.fixture
def world() -> World:
    world = World()
    world.happened(State.STARTING, State.READY, State.RELEASED)
    return world


def test_it_is_written_made_known_and_enabled_but_not_started(world: World) -> None:
    """In that order; what it says holds."""
    done = world.install()
    assert (done.written, done.replaced, done.until_logout) == (True, False, True)
    assert world.manager.units[UNIT] == done.text and "service run 0123abcd" in done.text
    assert world.manager.asked == ["daemon-reload", f"enable {UNIT}"]


def test_one_that_was_released_once_will_do(world: World) -> None:
    """It need not be up."""
    world.deployment = replace(world.deployment, status=Status(State.FAILED, 0.0))
    assert world.install().written


def test_one_that_never_was_will_not() -> None:
    """Nothing is repeated that was not proven."""
    world = World()
    world.happened(State.STARTING, State.READY, State.STOPPING, State.FAILED)
    with pytest.raises(UsageError, match="never released"):
        world.install()
    assert world.manager.units == {}


def test_ours_is_replaced_and_that_is_said(world: World) -> None:
    """The same once more is no replacement."""
    assert not world.install().replaced and not world.install().replaced
    world.manager.systemd = 255
    assert world.install().replaced and "RestartSteps" in world.manager.units[UNIT]


@pytest.mark.parametrize("there", ["[Service]\nExecStart=/bin/true\n", ""])
def test_what_is_not_ours_is_left(world: World, there: str) -> None:
    """Also an empty file, which masks a unit."""
    world.manager.units[UNIT] = there
    with pytest.raises(UsageError) as raised:
        world.install()
    assert raised.value.code == "service.foreign-unit"
    with pytest.raises(UsageError):
        remove("m", world.manager)
    assert world.manager.units == {UNIT: there} and world.manager.asked == []


def test_without_a_running_systemd_nothing_is_written(world: World) -> None:
    """The unit is there to be shown."""
    world.manager.running = False
    done = world.install()
    assert not done.written and done.text and world.manager.units == {} and world.manager.asked == []


def test_a_unit_that_systemd_finds_fault_with_is_not_installed(world: World) -> None:
    """Its words are shown; where it cannot be asked, that is a note."""
    world.manager.found = (f"{UNIT}:3: Unknown key",)
    done = world.install()
    assert not done.written and [each.code for each in done.findings] == ["service.unit-faulty"]
    assert done.findings[0].seen == f"{UNIT}:3: Unknown key"
    world.manager.found = None
    assert world.install().written and [each.code for each in world.install().findings] == ["service.unchecked"]


def test_files_with_secrets_are_looked_at(world: World) -> None:
    """A key file that is gone forbids it; one that others read is warned of; so is the file of variables."""
    spec = replace(world.deployment.birth.spec, secrets=(SecretEnv("VLLM_API_KEY", "/k"),))
    birth = replace(world.deployment.birth, spec=spec, environment=(("HF_TOKEN", "(redacted)"),))
    world.deployment = replace(world.deployment, birth=birth)
    assert [each.code for each in world.install().findings] == ["service.key-file"] and world.manager.units == {}
    world.modes |= {"/k": 0o644, "/c/m.env": 0o640}
    done = world.install()
    assert done.written and [each.subject for each in done.findings] == ["/k", "/c/m.env"]
    world.modes |= {"/k": 0o600, "/c/m.env": 0o600}
    assert world.install().findings == ()


def test_removing_undoes_it_and_twice_is_nothing(world: World) -> None:
    """One that had not failed has no failure to forget, and that is no obstacle."""
    world.install()
    world.manager.asked.clear()
    world.manager.refuses = frozenset({"reset-failed"})
    assert remove("m", world.manager).stopped and world.manager.units == {}
    assert world.manager.asked == [f"disable --now {UNIT}", "daemon-reload", f"reset-failed {UNIT}"]
    assert not remove("m", world.manager).was_there


def test_one_that_cannot_be_stopped_is_not_removed(world: World) -> None:
    """Its unit would be gone and its engine not."""
    world.install()
    world.manager.refuses = frozenset({"disable"})
    with pytest.raises(MachineError):
        remove("m", world.manager)
    assert UNIT in world.manager.units


def test_without_a_running_systemd_the_file_is_removed(world: World) -> None:
    """There is nobody to tell."""
    world.install()
    world.manager.running = False
    removed = remove("m", world.manager)
    assert (removed.was_there, removed.stopped) == (True, False) and world.manager.units == {}
