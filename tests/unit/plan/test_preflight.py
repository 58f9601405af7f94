"""Preflight: the plan against the machine as it is now."""

from dataclasses import replace

import pytest

from holddown.base.evidence import Known, Source, SourceKind, Unknown
from holddown.base.finding import Finding, Severity
from holddown.base.units import GIB, MIB
from holddown.facts.engine import EngineFacts
from holddown.facts.listeners import ADDRESS_NOT_HERE, HOST_NOT_KNOWN, PORT_NOT_ALLOWED
from holddown.facts.machine import Cpu, Disk, Gpu, GpuProcess, MachineFacts, Memory, ProcessFacts
from holddown.plan.memory import MemoryBudget
from holddown.plan.parallelism import Parallelism
from holddown.plan.plan import Plan
from holddown.plan.preflight import Ground, preflight

HERE = Source(SourceKind.PROBE, "test")
BOB = ProcessFacts(
    pid=4242,
    started_at=99,
    started_unix=1_700_000_000.0,
    parent=1,
    session=4242,
    user="bob",
    name="python",
    title="python train.py",
    state="S",
    rss_bytes=9 * GIB,
    cwd=Unknown("not ours"),
)
SHM = Disk("/dev/shm", "/dev/shm", "tmpfs", 8 * GIB, 8 * GIB)
MACHINE = MachineFacts(
    schema_version=1,
    captured_at=0.0,
    hostname="h",
    boot_id="b",
    user="me",
    kernel="6",
    cpu=Cpu("c", 2, Known(2, HERE), 2.0, "all", ()),
    memory=Memory(32 * GIB, 16 * GIB, 12 * GIB, 0, "cgroup /x allows 16.0 GiB"),
    disks=(),
    shm=Known(SHM, HERE),
    open_files_soft=65536,
    open_files_hard=65536,
    driver=Unknown("none"),
    gpus=(),
    gpus_because="no driver",
)
ENGINE = EngineFacts(
    version="0.32.0",
    kind="vllm",
    python="/e/bin/python",
    pythonpath="",
    package_dir="/e/vllm",
    fingerprint="f",
    device=Known("cpu", HERE),
    torch_version=Unknown("-"),
    import_error="",
    flags=(),
    architectures=(),
)
PLAN = Plan(
    model_path="/m",
    model_digest="d",
    served_model_name="m",
    engine="vllm@0.32.0",
    engine_kind="vllm",
    engine_because="-",
    gpus=(),
    parallelism=Parallelism(),
    settings=(),
    budget=MemoryBudget(12 * GIB, 6 * GIB, 3 * GIB, 1 * GIB),
    load_bytes=6 * GIB,
    findings=(),
    rejected=(),
)
GROUND = Ground(
    machine=MACHINE,
    engine=ENGINE,
    host="127.0.0.1",
    port=8000,
    port_holder=None,
    log_disk=Disk("/s", "/", "ext4", 100 * GIB, 50 * GIB),
    log_bytes=256 * MIB,
    processes=(BOB,),
)


def gpu(free_bytes: int = 79 * GIB, *holders: GpuProcess) -> Gpu:
    return Gpu(0, "GPU-x", "NVIDIA H100", 80 * GIB, free_bytes, Known("9.0", HERE), Unknown("-"), (), holders)


def with_gpu(card: Gpu) -> Ground:
    return replace(GROUND, machine=replace(MACHINE, gpus=(card,)))


def kinds(findings: tuple[Finding, ...]) -> list[tuple[str, str]]:
    return [(finding.code, finding.severity.value) for finding in findings]


def test_sound_ground_has_no_findings() -> None:
    """On a machine where all is right, nothing is said."""
    assert preflight(PLAN, GROUND) == ()
    assert preflight(replace(PLAN, gpus=(0,)), with_gpu(gpu())) == ()


def test_faults_of_the_checkpoint_come_first_and_everything_is_said_at_once() -> None:
    """All obstacles are in one answer, so that a user mends them in one go."""
    shard = Finding("shard.truncated", Severity.BLOCK, "x", "cut short")
    ground = replace(GROUND, model_findings=(shard,), port_holder="pid 1 of bob: nginx", log_bytes=60 * GIB)
    assert [finding.code for finding in preflight(PLAN, ground)] == ["shard.truncated", "port.taken", "disk.log-short"]


@pytest.mark.parametrize(
    ("holder", "code"),
    [
        ("pid 7 of bob: nginx -g", "port.taken"),
        (ADDRESS_NOT_HERE, "port.address-not-here"),
        (HOST_NOT_KNOWN, "port.host-unknown"),
        (PORT_NOT_ALLOWED, "port.not-allowed"),
    ],
)
def test_why_the_port_cannot_be_bound(holder: str, code: str) -> None:
    """A taken port, an address of another machine, an unknown name, a privileged port: each is its own finding."""
    (finding,) = preflight(PLAN, replace(GROUND, port_holder=holder))
    assert (finding.code, finding.blocks) == (code, True)
    assert finding.do


def test_a_taken_port_names_the_holder() -> None:
    """By whom, in the sentence itself."""
    (finding,) = preflight(PLAN, replace(GROUND, port_holder="pid 7 of bob: nginx -g"))
    assert finding.what == "port 8000 is taken by pid 7 of bob: nginx -g"
    assert "--port 8001" in finding.do


def test_ram_that_is_held_blocks_and_names_the_holders() -> None:
    """Started all the same, the kernel would kill the engine, or somebody else's process."""
    plan = replace(PLAN, budget=MemoryBudget(16 * GIB, 10 * GIB, 3 * GIB, 0))
    (finding,) = preflight(plan, GROUND)
    assert (finding.code, finding.severity) == ("ram.short", Severity.BLOCK)
    assert "13.0 GiB of memory are needed; 12.0 GiB are available now" in finding.what
    assert "9.0 GiB by pid 4242 of bob" in finding.seen


def test_somebody_else_holds_the_gpu() -> None:
    """Which process, whose, since when; and it blocks for both memory and presence."""
    holder = GpuProcess(4242, Known(75 * GIB, HERE), Known(BOB, HERE))
    busy, short = preflight(replace(PLAN, gpus=(0,)), with_gpu(gpu(5 * GIB, holder)))
    assert (busy.code, busy.severity) == ("gpu.busy", Severity.BLOCK)
    assert (short.code, short.severity) == ("gpu.memory-short", Severity.BLOCK)
    assert "75.0 GiB by pid 4242 of bob since 2023-11-14 22:13 UTC: python train.py" in short.seen
    assert "needs 10.0 GiB; 5.0 GiB of 80.0 GiB are free" in short.what
    assert "nothing is killed" in short.do


def test_a_gpu_named_by_the_user_may_be_shared() -> None:
    """With --gpus a busy GPU that has room is a warning."""
    holder = GpuProcess(4242, Known(20 * GIB, HERE), Known(BOB, HERE))
    ground = replace(with_gpu(gpu(60 * GIB, holder)), gpus_by_user=True)
    assert kinds(preflight(replace(PLAN, gpus=(0,)), ground)) == [("gpu.busy", "warn")]


@pytest.mark.parametrize(
    ("free_bytes", "used", "codes"),
    [
        (79 * GIB, Known(GIB, HERE), []),
        (79 * GIB, Unknown("driver"), []),
        (70 * GIB, Unknown("driver"), ["gpu.busy"]),
        (77 * GIB, Known(2 * GIB, HERE), ["gpu.busy"]),
    ],
)
def test_a_gpu_is_busy_above_one_gib(free_bytes: int, used: Known[int] | Unknown, codes: list[str]) -> None:
    """An idle context is no use of a GPU; where the driver is silent, all that is not free counts."""
    holder = GpuProcess(9, used, Unknown("another container"))
    findings = preflight(replace(PLAN, gpus=(0,)), with_gpu(gpu(free_bytes, holder)))
    assert [finding.code for finding in findings] == codes


@pytest.mark.parametrize(("asked", "severity"), [(False, "block"), (True, "warn")])
def test_a_gpu_of_our_own_deployment_is_claimed(asked: bool, severity: str) -> None:
    """It is claimed and not called somebody else's; named by the user it is a warning."""
    holder = GpuProcess(4242, Known(20 * GIB, HERE), Known(BOB, HERE))
    ground = replace(with_gpu(gpu(60 * GIB, holder)), gpu_claims={0: "kimi"}, gpus_by_user=asked)
    findings = preflight(replace(PLAN, gpus=(0,)), ground)
    assert kinds(findings) == [("gpu.claimed", severity)]
    assert "kimi" in findings[0].what


def test_a_gpu_that_is_not_there() -> None:
    """An index beyond the machine's is said with what there is."""
    (finding,) = preflight(replace(PLAN, gpus=(3,)), with_gpu(gpu()))
    assert finding.code == "gpu.missing"
    assert "GPUs 0" in finding.seen


@pytest.mark.parametrize(
    ("free_bytes", "severities"),
    [(512 * MIB, []), (512 * MIB - 1, ["warn"]), (64 * MIB, ["warn"]), (64 * MIB - 1, ["block"])],
)
def test_shared_memory(free_bytes: int, severities: list[str]) -> None:
    """Little room in /dev/shm warns, next to none blocks."""
    shm = Known(replace(SHM, free_bytes=free_bytes), HERE)
    findings = preflight(PLAN, replace(GROUND, machine=replace(MACHINE, shm=shm)))
    assert kinds(findings) == [("shm.small", severity) for severity in severities]


@pytest.mark.parametrize(
    ("soft", "hard", "do"),
    [
        (1024, 1048576, "ulimit -n 65535"),
        (1024, -1, "ulimit -n 65535"),
        (1024, 8192, "ulimit -n 8192"),
        (1024, 1024, "raise the hard"),
    ],
)
def test_open_files(soft: int, hard: int, do: str) -> None:
    """A low limit warns, with the command that this user is able to run."""
    machine = replace(MACHINE, open_files_soft=soft, open_files_hard=hard)
    (finding,) = preflight(PLAN, replace(GROUND, machine=machine))
    assert (finding.code, finding.severity) == ("open-files.low", Severity.WARN)
    assert finding.do.startswith(do)


def test_open_files_unlimited_is_enough() -> None:
    """-1 is the kernel's way to say unlimited."""
    assert preflight(PLAN, replace(GROUND, machine=replace(MACHINE, open_files_soft=-1, open_files_hard=-1))) == ()


@pytest.mark.parametrize(("free_bytes", "severity"), [(100 * MIB, "warn"), (MIB, "block")])
def test_disk_for_the_log(free_bytes: int, severity: str) -> None:
    """Less than the log may grow to warns; next to nothing blocks."""
    ground = replace(GROUND, log_disk=replace(GROUND.log_disk, free_bytes=free_bytes))
    assert kinds(preflight(PLAN, ground)) == [("disk.log-short", severity)]


def test_a_broken_engine_shows_its_last_line() -> None:
    """The import error's last line is in the sentence."""
    error = (
        "Traceback (most recent call last):\n  File x\nImportError: libcudart.so.12: cannot open shared object file\n"
    )
    (finding,) = preflight(PLAN, replace(GROUND, engine=replace(ENGINE, import_error=error)))
    assert (finding.code, finding.blocks) == ("engine.import-broken", True)
    assert "ImportError: libcudart.so.12" in finding.what


def test_no_weights_to_load() -> None:
    """Planning from config.json alone is a note; a launch from it is not begun."""
    note = Finding("weights.none", Severity.NOTE, "/m", "computed from shapes")
    found = preflight(PLAN, replace(GROUND, model_findings=(note,)))
    assert [(finding.code, finding.severity) for finding in found if finding.subject == "/m"] == [
        ("weights.none", Severity.BLOCK)
    ]
