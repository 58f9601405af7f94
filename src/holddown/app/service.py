"""A released deployment as a systemd service: installed from its record, and removed again."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from holddown import ports
from holddown.base.errors import MachineError, UsageError
from holddown.base.finding import Finding, Severity
from holddown.launch.export.systemd import Service, hidden_variables, is_ours, mounted, unit_name, unit_text
from holddown.launch.lifecycle import State
from holddown.remember.record import Birth, Deployment, StateChanged


@dataclass(frozen=True, slots=True)
class Ground:
    """Where the service will run. program: words that start holddown. user: for a unit of the system, else empty.
    environment_file: where its secret variables may stand. state_folder: where the record lies. mode_of: path -> its
    permission bits, None where there is no such file."""

    program: tuple[str, ...]
    user: str
    environment_file: str
    state_folder: str
    mode_of: Callable[[str], int | None]


@dataclass(frozen=True, slots=True)
class Installed:
    """path and text of the unit. written: it stands there now and is enabled.
    replaced: another unit of ours stood there. until_logout: it ends with the user's last session."""

    name: str
    unit: str
    path: str
    text: str
    system: bool
    written: bool = False
    replaced: bool = False
    until_logout: bool = False
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Removed:
    """was_there: False when there was nothing to remove. stopped: systemd was there to be told."""

    unit: str
    path: str
    was_there: bool
    stopped: bool


def service_of(birth: Birth, ground: Ground, systemd: int) -> Service:
    return Service(
        name=birth.name,
        id=birth.id,
        program=ground.program,
        user=ground.user,
        environment=birth.environment,
        environment_file=ground.environment_file,
        needs=mounted((birth.plan.model_path, birth.engine.executable, ground.state_folder)),
        gpus=bool(birth.plan.gpus),
        load_bytes=birth.plan.load_bytes,
        systemd=systemd,
    )


def described(deployment: Deployment, ground: Ground, store: ports.Store, manager: ports.ServiceManager) -> Installed:
    """The unit as it would be installed. Nothing is written. Raises: UsageError when it was never released."""
    birth = deployment.birth
    _check_released(deployment, store)
    unit = unit_name(birth.name)
    text = unit_text(service_of(birth, ground, manager.version()))
    faults = manager.faults(unit, text)
    findings = (*_faults(unit, faults), *_secrets(birth, ground))
    return Installed(birth.name, unit, manager.path(unit), text, bool(ground.user), findings=findings)


def install(wanted: Installed, manager: ports.ServiceManager) -> Installed:
    """As described; what is written is `written`. Without a running systemd, and with a unit that it would refuse,
    nothing is.

    Raises: UsageError where somebody else's unit stands, or this user may not write there; FactError.
    """
    there = manager.read(wanted.unit)
    _check_ours(wanted.unit, manager.path(wanted.unit), there)
    if not manager.runs() or any(each.blocks for each in wanted.findings):
        return wanted
    if there != wanted.text:
        manager.write(wanted.unit, wanted.text)
    manager.ask("daemon-reload")
    manager.ask("enable", wanted.unit)
    return replace(
        wanted,
        written=True,
        replaced=there is not None and there != wanted.text,
        until_logout=not manager.outlives_logout(),
    )


def remove(name: str, manager: ports.ServiceManager) -> Removed:
    """Stops, disables and deletes it; a second time there is nothing to do. Raises: as `install`."""
    unit = unit_name(name)
    path = manager.path(unit)
    there = manager.read(unit)
    if there is None:
        return Removed(unit, path, was_there=False, stopped=False)
    _check_ours(unit, path, there)
    runs = manager.runs()
    if runs:
        manager.ask("disable", "--now", unit)
    manager.delete(unit)
    if runs:
        manager.ask("daemon-reload")
        _forget_failure(unit, manager)
    return Removed(unit, path, was_there=True, stopped=runs)


def _forget_failure(unit: str, manager: ports.ServiceManager) -> None:
    """systemd keeps a failed unit listed although its file is gone. One that had not failed is none it knows."""
    try:
        manager.ask("reset-failed", unit)
    except MachineError:
        return


def _secrets(birth: Birth, ground: Ground) -> Iterator[Finding]:
    """The files that the service will read its secrets from."""
    keys = [secret.path for secret in birth.spec.secrets]
    further = [ground.environment_file] if hidden_variables(birth.environment) else []
    for path in (*keys, *further):
        mode = ground.mode_of(path)
        if mode is None and path in keys:
            what = "the API key file that the service will read is not there"
            yield Finding("service.key-file", Severity.BLOCK, path, what, do="put it back, with mode 0600")
        if mode is not None and mode & 0o077:
            what = "a file that holds a secret of the service can be read by other users"
            seen = f"its mode is {mode:04o}"
            yield Finding("service.secret-readable", Severity.WARN, path, what, seen=seen, do=f"chmod 600 {path}")


def _check_released(deployment: Deployment, store: ports.Store) -> None:
    birth, status = deployment.birth, deployment.status
    happenings = (entry.happening for entry in store.entries(birth.id))
    if any(isinstance(each, StateChanged) and each.state is State.RELEASED for each in happenings):
        return
    raise UsageError(
        f"{birth.name} was never released, and a service repeats only what was proven",
        code="service.not-released",
        seen=f"id {birth.id} is {status.state}" + (f": {status.why}" if status.why else ""),
        do=f"{birth.up_again}    or name an earlier run by its id: holddown list",
    )


def _check_ours(unit: str, path: str, text: str | None) -> None:
    if text is None or is_ours(text):
        return
    raise UsageError(
        f"there is a unit {unit} that holddown did not write; it was left as it is",
        code="service.foreign-unit",
        seen=path,
        do=f"systemctl cat {unit}    shows it; move it away, or give the deployment another name",
    )


def _faults(unit: str, faults: tuple[str, ...] | None) -> Iterator[Finding]:
    if faults is None:
        what = "the unit could not be checked: systemd-analyze is not here"
        do = f"systemd-analyze verify {unit}    where it is"
        yield Finding("service.unchecked", Severity.NOTE, unit, what, do=do)
    elif faults:
        what = "systemd would not take the unit as it is meant; this is a bug of holddown, please report it"
        yield Finding("service.unit-faulty", Severity.BLOCK, unit, what, seen="; ".join(faults))
