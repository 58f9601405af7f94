"""Everything before a launch: inspect, plan, preflight. Nothing is started and nothing is written."""

import ipaddress
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from holddown import ports
from holddown.app import plan as planning
from holddown.base.errors import UsageError
from holddown.base.finding import Finding, Severity, blocking
from holddown.facts.machine import MachineFacts, ProcessFacts
from holddown.facts.model import ModelFacts
from holddown.launch.engines import ADAPTERS
from holddown.launch.environment import is_secret
from holddown.launch.ownership import members
from holddown.launch.reporter import with_reporter
from holddown.launch.restart import Restart
from holddown.launch.spec import Binding, LaunchSpec
from holddown.plan.plan import NoPlan, Plan
from holddown.plan.preflight import Ground, preflight
from holddown.plan.site import Site
from holddown.plan.vacated import vacated
from holddown.plan.wishes import Candidate, Consent, Wishes
from holddown.remember.calibrate import calibrations
from holddown.remember.record import Deployment, gpu_claims
from holddown.remember.trust import consent

FIRST_PORT = 8000
_PORTS_TRIED = 100


@dataclass(frozen=True, slots=True)
class Request:
    """What `up` was asked for. port None: the first free one from 8000 on. insecure: no key beyond loopback
    is meant. trust_remote_code: the checkpoint's own Python code may run, from now on. despite: codes of findings that
    are to forbid nothing, for builds that can more than their source tells. ask_engine: its own selectors, before it is
    launched; None: where that makes sense. after: the start that failed before this one. in_place_of: id of a
    deployment that will have made way by then: its port is this one's, unless another is named. restart: its policy."""

    path: str
    name: str
    wishes: Wishes
    host: str = "127.0.0.1"
    port: int | None = None
    api_key_file: str = ""
    insecure: bool = False
    skip_checks: tuple[str, ...] = ()
    trust_remote_code: bool = False
    despite: tuple[str, ...] = ()
    ask_engine: bool | None = None
    after: str = ""
    in_place_of: str = ""
    restart: Restart = Restart.NEVER


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan with its exact command, and every finding of checkpoint, plan and machine."""

    model: ModelFacts
    machine: MachineFacts
    candidate: Candidate
    plan: Plan
    spec: LaunchSpec
    findings: tuple[Finding, ...]

    @property
    def blocked(self) -> tuple[Finding, ...]:
        return blocking(self.findings)


@dataclass(frozen=True, slots=True)
class Doors:
    """reporter: the folder of the plug-in through which an engine says what it resolved; empty for none."""

    planning: planning.Doors
    host: ports.Host
    store: ports.Store
    reporter: str = ""


def prepare(request: Request, folders: tuple[str, ...], doors: Doors) -> Prepared | NoPlan:
    """folders: where logs and records, and the engine itself, will write. Raises: UsageError, FactError."""
    check_words(request)
    doors.planning.say(f"inspecting {request.path}")
    inspection = doors.planning.checkpoints.inspect(request.path)
    leaving = _leaving(request, doors)
    gone = {each.pid for each in leaving.processes}
    processes = tuple(each for each in doors.host.processes() if each.pid not in gone)
    machine = vacated(doors.host.facts((inspection.model.path, *folders)), leaving.processes)
    records = doors.store.all()
    active = [each for each in records if not each.status.state.over and each.birth.id != request.in_place_of]
    site = Site(machine, gpu_claims(active), calibrations=calibrations(records))
    wishes = replace(request.wishes, consent=_consent(request, inspection.model, doors.store))
    planned = planning.plan_of(inspection, site, wishes, doors.planning, ask=request.ask_engine)
    if isinstance(planned, NoPlan):
        return planned
    port_holder = port_holders(request.host, active, doors.host)
    port, moved = (leaving.port, ()) if leaving.port and request.port is None else _port(request, port_holder)
    ground = Ground(
        machine=machine,
        engine=planned.candidate.facts,
        host=request.host,
        port=port,
        port_holder=None if leaving.processes and port == leaving.port else port_holder(port),
        log_disk=doors.host.disk(folders[0]),
        log_bytes=ports.LOG_BYTES,
        model_findings=inspection.findings,
        gpu_claims=site.claims,
        gpus_by_user=request.wishes.gpus is not None,
        processes=processes,
    )
    plan = planned.plan
    findings = tuple(_allowed(each, request) for each in (*plan.findings, *preflight(plan, ground), *moved))
    spec = planned.command(Binding(request.host, port, request.api_key_file))
    spec = with_reporter(spec, plan.engine_kind, doors.reporter)
    return Prepared(inspection.model, machine, planned.candidate, replace(plan, findings=findings), spec, findings)


@dataclass(frozen=True, slots=True)
class _Leaving:
    """What will not be there any more. port: 0 for none."""

    processes: tuple[ProcessFacts, ...] = ()
    port: int = 0


def _leaving(request: Request, doors: Doors) -> _Leaving:
    there = doors.store.get(request.in_place_of) if request.in_place_of else None
    if there is None or there.status.state.over or there.status.engine is None:
        return _Leaving(port=there.birth.spec.port if there is not None else 0)
    own = members(doors.host.processes(), there.status.engine, there.birth.run_dir)
    return _Leaving(own, there.birth.spec.port)


def _allowed(finding: Finding, request: Request) -> Finding:
    if not finding.blocks or finding.code not in request.despite:
        return finding
    return replace(finding, severity=Severity.WARN, do=despite_text(finding.code))


def despite_text(code: str) -> str:
    """What stands in place of a remedy where the user said that a finding is to forbid nothing."""
    return f"you said --despite {code}"


def _consent(request: Request, model: ModelFacts, store: ports.Store) -> Consent:
    if request.trust_remote_code:
        return Consent("you said --trust-remote-code")
    return consent(model, store.trusted()) if model.remote_code else Consent()


def check_words(request: Request) -> None:
    """What no plan may be made of. Raises: UsageError."""
    check_settings(request.wishes.settings)
    if request.api_key_file or request.insecure or _is_loopback(request.host):
        return
    raise UsageError(
        f"{request.host} can be reached from other machines, and there is no API key",
        code="usage.open-endpoint",
        seen=f"--host {request.host}",
        do="--api-key-file FILE, or --insecure if everybody may use it",
    )


def check_settings(settings: Iterable[tuple[str, str]]) -> None:
    """What is holddown's own to give, and what is secret, is no setting. Raises: UsageError."""
    for name, _ in settings:
        instead = next((text for engine in ADAPTERS.values() if (text := engine.owned(name))), "")
        if instead:
            raise UsageError(
                f"--set {name} is not taken: holddown gives it to the engine itself",
                code="usage.own-setting",
                do=f"use {instead}",
            )
        if name.isupper() and is_secret(name):
            raise UsageError(
                f"--set {name} is not taken: settings are recorded and shown",
                code="usage.secret-setting",
                do=f"export {name} in the shell that runs holddown: the engine inherits it, unrecorded",
            )


def _is_loopback(host: str) -> bool:
    """By the whole of it: `127.example.org` and `::1:2` are anybody's."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def port_holders(address: str, active: Iterable[Deployment], host: ports.Host) -> Callable[[int], str | None]:
    """Port -> who has it. Also a deployment of ours that has not bound it yet: a large model takes minutes to."""
    ours = {each.birth.spec.port: f"the deployment {each.birth.name}, {each.label}" for each in active}
    return lambda port: host.port_holder(address, port) or ours.get(port)


def _port(request: Request, held_by: Callable[[int], str | None]) -> tuple[int, tuple[Finding, ...]]:
    if request.port is not None:
        return request.port, ()
    holder = held_by(FIRST_PORT)
    if holder is None:
        return FIRST_PORT, ()
    for port in range(FIRST_PORT + 1, FIRST_PORT + _PORTS_TRIED):
        if held_by(port) is None:
            what = f"port {FIRST_PORT} is in use, so {port} was taken"
            return port, (
                Finding("port.moved", Severity.NOTE, str(port), what, seen=holder, do="--port N chooses one"),
            )
    return FIRST_PORT, ()  # preflight says by whom it is held
