"""What would go wrong at the launch, said before it: the plan against the machine as it is now."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from holddown.base.evidence import Known
from holddown.base.finding import Finding, Severity
from holddown.base.units import GIB, MIB, size_text
from holddown.facts.engine import EngineFacts
from holddown.facts.listeners import ADDRESS_NOT_HERE, HOST_NOT_KNOWN, PORT_NOT_ALLOWED
from holddown.facts.machine import Disk, Gpu, GpuProcess, MachineFacts, ProcessFacts
from holddown.plan.plan import Plan
from holddown.tables.load import engine_table

# An idle CUDA context or a display server takes a few hundred MiB; more than this is somebody's work.
BUSY_BYTES = GIB
# An API server holds a socket per request, and each engine process its own pipes and weight files.
OPEN_FILES_ENOUGH = 4096
# vLLM makes two ring buffers of 160 to 250 MB per engine (seen on 0.16 to 0.32); docker gives a container 64 MiB.
SHM_ENOUGH_BYTES = 512 * MIB
SHM_LEAST_BYTES = 64 * MIB
# Below this not even the start of a log and the record of the launch can be written.
LOG_LEAST_BYTES = 16 * MIB
_NAMED_HOLDERS = 3


@dataclass(frozen=True, slots=True)
class Ground:
    """What the launch will stand on, all read just before it.

    host, port: what the engine will bind. port_holder: what `Host.port_holder` said of them.
    gpu_claims: GPU index -> the deployment of ours that uses it.
    gpus_by_user: the user named the GPUs, so a busy one was meant. log_disk: where log and record go;
    log_bytes: how large the rotated log may grow. processes: everybody's, to name who holds memory.
    """

    machine: MachineFacts
    engine: EngineFacts
    host: str
    port: int
    port_holder: str | None
    log_disk: Disk
    log_bytes: int
    model_findings: tuple[Finding, ...] = ()
    gpu_claims: Mapping[int, str] = field(default_factory=dict)
    gpus_by_user: bool = False
    processes: tuple[ProcessFacts, ...] = ()


def preflight(plan: Plan, ground: Ground) -> tuple[Finding, ...]:
    """Every obstacle at once: the checkpoint's own first, then the engine, the port, memory, disks and limits."""
    return (
        *_model(ground.model_findings),
        *_engine(ground.engine),
        *_port(ground),
        *(_gpus(plan, ground) if plan.gpus else _ram(plan, ground)),
        *_log(ground.log_disk, ground.log_bytes),
        *(_shm(ground.machine) if engine_table(ground.engine.kind).shared_memory else ()),
        *_open_files(ground.machine),
    )


def _model(findings: tuple[Finding, ...]) -> Iterator[Finding]:
    """What inspecting said. A plan can be made from config.json alone; nothing can be loaded from it."""
    for finding in findings:
        if finding.code != "weights.none":
            yield finding
            continue
        what = f"there are no weights in {finding.subject} to load"
        yield Finding("weights.none", Severity.BLOCK, finding.subject, what, finding.seen, finding.do)


def _engine(engine: EngineFacts) -> Iterator[Finding]:
    lines = [line for line in engine.import_error.splitlines() if line.strip()]
    if lines:
        yield Finding(
            code="engine.import-broken",
            severity=Severity.BLOCK,
            subject=f"{engine.kind} {engine.version}",
            what=f"{engine.kind} {engine.version} cannot be imported: {lines[-1].strip()}",
            seen=f"{engine.python} -c 'import {engine.kind}'",
            do="holddown engine list   shows other builds: reinstall this one, or take one with --engine NAME@VERSION",
        )


def _port(ground: Ground) -> Iterator[Finding]:
    place = f"{ground.host}:{ground.port}"
    holder = ground.port_holder
    match holder:
        case None:
            return
        case _ if holder == ADDRESS_NOT_HERE:
            code, what = "port.address-not-here", f"{ground.host} is not an address of this machine"
            do = "--host 127.0.0.1, or an address that `ip address` shows"
        case _ if holder == HOST_NOT_KNOWN:
            code, what = "port.host-unknown", f"the host name {ground.host} has no address"
            do = "--host 127.0.0.1, or an address that `ip address` shows"
        case _ if holder == PORT_NOT_ALLOWED:
            code, what = "port.not-allowed", f"port {ground.port} is below what this user may bind"
            do = "--port 8000, or another above 1023"
        case _:
            code, what = "port.taken", f"port {ground.port} is taken by {holder}"
            do = f"--port {ground.port + 1}   or stop that process"
    yield Finding(code, Severity.BLOCK, place, what, seen=f"binding {place} fails", do=do)


def _need_bytes(plan: Plan) -> int:
    budget = plan.budget
    return budget.weights_bytes + budget.kv_cache_bytes + budget.other_bytes


def _need_text(plan: Plan) -> str:
    budget = plan.budget
    return (
        f"weights {size_text(budget.weights_bytes)} + KV cache {size_text(budget.kv_cache_bytes)}"
        f" + the rest {size_text(budget.other_bytes)}"
    )


def _ram(plan: Plan, ground: Ground) -> Iterator[Finding]:
    memory, need_bytes = ground.machine.memory, _need_bytes(plan)
    if need_bytes <= memory.available_bytes:
        return
    yield Finding(
        code="ram.short",
        severity=Severity.BLOCK,
        subject="RAM",
        what=f"{size_text(need_bytes)} of memory are needed; {size_text(memory.available_bytes)} are available now",
        seen=f"{_need_text(plan)}; {memory.because}{_ram_holders(ground.processes)}",
        do="stop what holds memory; nothing of anybody's is stopped for you",
    )


def _ram_holders(processes: Iterable[ProcessFacts]) -> str:
    largest = sorted(processes, key=lambda process: process.rss_bytes, reverse=True)[:_NAMED_HOLDERS]
    named = [f"{size_text(one.rss_bytes)} by pid {one.pid} of {one.user} ({one.name})" for one in largest]
    return "; largest holders: " + ", ".join(named) if named else ""


def _gpus(plan: Plan, ground: Ground) -> Iterator[Finding]:
    by_index = {gpu.index: gpu for gpu in ground.machine.gpus}
    claims = ground.gpu_claims
    for index in plan.gpus:
        gpu = by_index.get(index)
        if gpu is None:
            yield _missing(index, ground.machine)
            continue
        if index in claims:
            yield _claimed(index, claims[index], asked=ground.gpus_by_user)
        elif held_bytes(gpu) > BUSY_BYTES:
            yield _busy(gpu, asked=ground.gpus_by_user)
        if _need_bytes(plan) > gpu.free_bytes:
            yield _gpu_short(plan, gpu)


def _missing(index: int, machine: MachineFacts) -> Finding:
    seen = ", ".join(str(gpu.index) for gpu in machine.gpus)
    return Finding(
        code="gpu.missing",
        severity=Severity.BLOCK,
        subject=f"GPU {index}",
        what=f"there is no GPU {index} here",
        seen=f"GPUs {seen} (NVML)" if seen else machine.gpus_because,
        do="holddown node   shows what is there",
    )


def _claimed(index: int, deployment: str, *, asked: bool) -> Finding:
    return Finding(
        code="gpu.claimed",
        severity=Severity.WARN if asked else Severity.BLOCK,
        subject=f"GPU {index}",
        what=f"GPU {index} is used by our deployment {deployment}",
        seen="the record of deployments that are up",
        do=f"holddown down {deployment}   or name other GPUs with --gpus",
    )


def held_bytes(gpu: Gpu) -> int:
    """What processes hold. Where the driver does not say per process, all that is not free counts."""
    if not gpu.processes:
        return 0
    known = [holder.used_bytes.value for holder in gpu.processes if isinstance(holder.used_bytes, Known)]
    return sum(known) if len(known) == len(gpu.processes) else gpu.total_bytes - gpu.free_bytes


def _busy(gpu: Gpu, *, asked: bool) -> Finding:
    return Finding(
        code="gpu.busy",
        severity=Severity.WARN if asked else Severity.BLOCK,
        subject=f"GPU {gpu.index}",
        what=f"GPU {gpu.index} is in use outside holddown: {size_text(held_bytes(gpu))} of it are held",
        seen=holders_text(gpu),
        do="" if asked else "name free GPUs with --gpus, or this one to share it; nothing of theirs is stopped",
    )


def _gpu_short(plan: Plan, gpu: Gpu) -> Finding:
    return Finding(
        code="gpu.memory-short",
        severity=Severity.BLOCK,
        subject=f"GPU {gpu.index}",
        what=f"GPU {gpu.index} needs {size_text(_need_bytes(plan))}; {size_text(gpu.free_bytes)} of "
        f"{size_text(gpu.total_bytes)} are free",
        seen=f"{_need_text(plan)}; {holders_text(gpu)}",
        do="other GPUs with --gpus, or a smaller share with --set gpu-memory-utilization=...; nothing is killed",
    )


def holders_text(gpu: Gpu) -> str:
    """Who holds memory of it: how much, whose, since when, which command."""
    if not gpu.processes:
        return "no process is shown to hold it (NVML): memory of another container, or reserved by the driver"
    return "; ".join(_holder_text(holder) for holder in gpu.processes)


def _holder_text(holder: GpuProcess) -> str:
    used = size_text(holder.used_bytes.value) if isinstance(holder.used_bytes, Known) else "memory"
    if not isinstance(holder.process, Known):
        return f"{used} by pid {holder.pid} ({holder.process.why})"
    process = holder.process.value
    since = datetime.fromtimestamp(process.started_unix, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"{used} by pid {process.pid} of {process.user} since {since}: {_short(process.title)}"


def _short(title: str) -> str:
    return title if len(title) <= 60 else title[:59] + "…"


def _log(disk: Disk, log_bytes: int) -> Iterator[Finding]:
    if disk.free_bytes >= log_bytes:
        return
    blocks = disk.free_bytes < LOG_LEAST_BYTES
    yield Finding(
        code="disk.log-short",
        severity=Severity.BLOCK if blocks else Severity.WARN,
        subject=disk.path,
        what=f"{size_text(disk.free_bytes)} are free where the log goes, which may grow to {size_text(log_bytes)}",
        seen=f"{disk.mount} ({disk.fstype}), {size_text(disk.total_bytes)} in all",
        do=f"free some of {disk.mount}, or set XDG_STATE_HOME to a disk with room",
    )


def _shm(machine: MachineFacts) -> Iterator[Finding]:
    if not isinstance(machine.shm, Known):
        yield Finding("shm.missing", Severity.BLOCK, "/dev/shm", "the engine needs /dev/shm", seen=machine.shm.why)
        return
    shm = machine.shm.value
    if shm.free_bytes >= SHM_ENOUGH_BYTES:
        return
    yield Finding(
        code="shm.small",
        severity=Severity.BLOCK if shm.free_bytes < SHM_LEAST_BYTES else Severity.WARN,
        subject="/dev/shm",
        what=f"/dev/shm has {size_text(shm.free_bytes)} free of {size_text(shm.total_bytes)}; "
        "an engine's processes talk through two buffers of 160 to 250 MB there",
        seen=f"statvfs {shm.mount} ({shm.fstype})",
        do="holddown clean   or a larger one: docker run --shm-size=8g; mount -o remount,size=8g /dev/shm",
    )


def _open_files(machine: MachineFacts) -> Iterator[Finding]:
    if machine.open_files_soft >= OPEN_FILES_ENOUGH or machine.open_files_soft < 0:
        return
    hard = machine.open_files_hard
    can_raise = hard < 0 or hard >= OPEN_FILES_ENOUGH
    yield Finding(
        code="open-files.low",
        severity=Severity.WARN,
        subject="open files",
        what=f"at most {machine.open_files_soft} files may be open; a busy server holds more sockets than that",
        seen=f"RLIMIT_NOFILE: soft {machine.open_files_soft}, hard {'unlimited' if hard < 0 else hard}",
        do=f"ulimit -n {65535 if hard < 0 else min(hard, 65535)}"
        if can_raise
        else "raise the hard limit first (/etc/security/limits.conf, or LimitNOFILE= of the service)",
    )
