"""A deployment on record, ready to be started once more as it was: the same plan, on the same checkpoint and engine."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from holddown import ports
from holddown.app.prepare import despite_text, port_holders
from holddown.app.up import Place
from holddown.base.errors import UsageError
from holddown.base.finding import Finding, Severity, blocking
from holddown.facts.machine import MachineFacts
from holddown.launch.environment import recordable
from holddown.plan.preflight import Ground, preflight
from holddown.remember.record import Birth, gpu_claims


@dataclass(frozen=True, slots=True)
class Doors:
    checkpoints: ports.Checkpoints
    engines: ports.Engines
    probe: ports.EngineProbe
    host: ports.Host
    store: ports.Store
    clock: ports.Clock


@dataclass(frozen=True, slots=True)
class Again:
    """findings: what the machine says against it now; a block among them forbids the start."""

    birth: Birth
    findings: tuple[Finding, ...]

    @property
    def blocked(self) -> tuple[Finding, ...]:
        return blocking(self.findings)


def again(
    before: Birth, place: Place, environment: Iterable[tuple[str, str]], folders: tuple[str, ...], doors: Doors
) -> Again:
    """folders: as for `prepare`. Nothing is started and nothing is written.

    Raises: UsageError where it is not that checkpoint or engine any more; FactError.
    """
    machine, findings = _asked(before, folders, doors)
    birth = replace(
        before,
        id=place.id,
        created_at=doors.clock.now(),
        boot_id=machine.boot_id,
        environment=recordable(environment),
        run_dir=place.run_dir,
        log_path=place.log_path,
    )
    return Again(birth, findings)


def obstacles(before: Birth, folders: tuple[str, ...], doors: Doors) -> tuple[Finding, ...]:
    """What forbids that its engine is started once more in its own place. Raises: as `again`."""
    return blocking(_asked(before, folders, doors)[1])


def _asked(before: Birth, folders: tuple[str, ...], doors: Doors) -> tuple[MachineFacts, tuple[Finding, ...]]:
    inspection = doors.checkpoints.inspect(before.plan.model_path)
    _check_same(before, inspection.model.digest, inspection.model.remote_code == before.model.remote_code)
    _check_engine(before, doors.engines)
    machine = doors.host.facts((inspection.model.path, *folders))
    active = [each for each in doors.store.all(active_only=True) if each.birth.id != before.id]
    spec = before.spec
    ground = Ground(
        machine=machine,
        engine=doors.probe.read(before.engine),
        host=spec.host,
        port=spec.port,
        port_holder=port_holders(spec.host, active, doors.host)(spec.port),
        log_disk=doors.host.disk(folders[0]),
        log_bytes=ports.LOG_BYTES,
        model_findings=inspection.findings,
        gpu_claims=gpu_claims(active),
        gpus_by_user=before.gpus_by_user,
        processes=doors.host.processes(),
    )
    return machine, tuple(_allowed(each, before) for each in preflight(before.plan, ground))


def same_command(one: Birth, other: Birth) -> bool:
    """Whether both are runs of one plan: neither needs to make way for the other."""
    return (one.name, one.spec, one.skip_checks, one.plan.model_digest) == (
        other.name,
        other.spec,
        other.skip_checks,
        other.plan.model_digest,
    )


def _check_same(before: Birth, digest: str, same_code: bool) -> None:
    """Raises: UsageError. Other weights were not the ones that were verified, and other code was not consented to."""
    if digest == before.plan.model_digest and same_code:
        return
    raise UsageError(
        f"{before.plan.model_path} is not the checkpoint any more that {before.name} was released with",
        code="again.checkpoint-changed",
        seen=f"its digest was {before.plan.model_digest[:16]} and is {digest[:16]}"
        if digest != before.plan.model_digest
        else "the Python code beside its weights is another",
        do=before.up_again,
    )


def _check_engine(before: Birth, engines: ports.Engines) -> None:
    """Raises: UsageError."""
    there = next((each for each in engines.all() if each.ref == before.engine.ref), None)
    if there is not None and there.executable == before.engine.executable:
        return
    raise UsageError(
        f"{before.engine.ref}, with which {before.name} was released, is not there any more",
        code="again.engine-gone",
        seen=f"it was {before.engine.executable}" + (f" and is {there.executable}" if there else ""),
        do=before.up_again,
    )


def _allowed(finding: Finding, before: Birth) -> Finding:
    """What the user said of a finding when it was planned holds for its every start."""
    despite = despite_text(finding.code)
    if not finding.blocks or all((each.code, each.do) != (finding.code, despite) for each in before.plan.findings):
        return finding
    return replace(finding, severity=Severity.WARN, do=despite)
