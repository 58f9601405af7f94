"""Real doors. The only file that names both a port and its edge; edges, and the verbs' own types, are imported when
they are asked for: `inspect` must not wait for what `up` needs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holddown.base.errors import CheckpointError

DEMO, DEMO_GGUF = "demo", "demo-gguf"
"""The one model that has names of ours: as a Hugging Face directory, and as the GGUF file that it was made from."""

if TYPE_CHECKING:
    from holddown import ports
    from holddown.app.again import Again
    from holddown.app.bench import Doors as BenchDoors
    from holddown.app.lint import Doors as LintDoors
    from holddown.app.plan import Doors as PlanDoors
    from holddown.app.prepare import Doors as PrepareDoors
    from holddown.app.serve import Doors as ServeDoors
    from holddown.app.service import Ground as ServiceGround
    from holddown.app.supervise import Doors as SupervisorDoors
    from holddown.app.up import Doors as UpDoors
    from holddown.app.up import Place
    from holddown.app.verify_target import Doors as VerifyDoors
    from holddown.base.finding import Finding
    from holddown.edges.process.local import LocalProcesses
    from holddown.measure.drive import Pulse
    from holddown.measure.run import Arrival, Phase
    from holddown.remember.record import Birth


@dataclass(frozen=True, slots=True)
class Paths:
    """Where holddown keeps things, by the XDG rules.

    data: engine environments and fetched models. state: the record store and logs. cache: what can be had again.
    """

    data: Path
    state: Path
    cache: Path


def paths() -> Paths:
    import platformdirs

    dirs = platformdirs.PlatformDirs("holddown", appauthor=False)
    return Paths(dirs.user_data_path, dirs.user_state_path, dirs.user_cache_path)


def host() -> ports.Host:
    from holddown.edges.hosts.local import LocalHost

    return LocalHost()


def leftovers() -> ports.Leftovers:
    from holddown.edges.leftovers.local import LocalLeftovers

    return LocalLeftovers()


def checkpoints() -> ports.Checkpoints:
    from holddown.edges.checkpoints.local import LocalCheckpoints

    return LocalCheckpoints()


def checkpoint_path(name: str) -> str:
    """What the user's PATH means: a path that exists, else the fetched model for `demo` and `demo-gguf`, else the word
    as it is.

    Raises: CheckpointError when the demo model was not fetched yet.
    """
    if name not in (DEMO, DEMO_GGUF) or Path(name).exists():
        return name
    folder = demo_folder() if name == DEMO else demo_folder().with_name(f"{demo_folder().name}-GGUF")
    if not folder.is_dir():
        raise CheckpointError(
            "the demo model is not here yet", code="checkpoint.not-found", seen=f"no {folder}", do="holddown fetch demo"
        )
    return str(folder)


def local_checkpoint(name: str) -> str:
    """Where what a command calls its model lies here: a path, or a repository in the hub's cache; empty for none."""
    from holddown.edges.checkpoints.hub_cache import snapshot

    path = Path(name).expanduser()
    if path.exists():
        return str(path)
    found = snapshot(name)
    return str(found) if found else ""


def demo_folder() -> Path:
    return paths().data / "models" / "SmolLM2-135M-Instruct"


def demo_model() -> ports.DemoModel:
    from holddown.edges.demo.model import DemoModelFolder

    return DemoModelFolder(demo_folder().parent)


def engines() -> ports.Engines:
    from holddown.edges.engines import EngineFolders
    from holddown.tables.load import engine_table

    tables = [engine_table(kind) for kind in PROBES]
    return EngineFolders(paths().data / "engines", tables, {"llamacpp": _llamacpp_version})


def engine_probe() -> ports.EngineProbe:
    from holddown.edges.probes.by_kind import ProbeByKind

    return ProbeByKind(PROBES)


def _vllm_probe() -> ports.EngineProbe:
    from holddown.edges.probes.vllm import VllmProbe

    return VllmProbe(paths().cache / "engine-facts")


def _sglang_probe() -> ports.EngineProbe:
    from holddown.edges.probes.sglang import SglangProbe

    return SglangProbe(paths().cache / "engine-facts")


def _llamacpp_probe() -> ports.EngineProbe:
    from holddown.edges.probes.llamacpp import LlamaCppProbe

    return LlamaCppProbe(paths().cache / "engine-facts")


def _llamacpp_version(program: Path) -> str | None:
    from holddown.edges.probes.llamacpp import program_version

    return program_version(program)


PROBES: dict[str, Callable[[], ports.EngineProbe]] = {
    "vllm": _vllm_probe,
    "sglang": _sglang_probe,
    "llamacpp": _llamacpp_probe,
}
"""By kind of engine. An environment that holds several is known by the first of these."""


def engine_selector() -> ports.EngineSelector:
    from holddown.edges.probes.vllm_selector import VllmSelector

    return VllmSelector(paths().cache / "engine-facts")


def client(base_url: str, api_key: str = "") -> ports.Client:
    from holddown.edges.client.http import HttpClient

    return HttpClient(base_url, api_key)


def load_client(base_url: str, api_key: str = "") -> ports.LoadClient:
    from holddown.edges.load.generator import LoadProcesses

    return LoadProcesses(base_url, api_key)


def new_run_id() -> str:
    import secrets

    return secrets.token_hex(4)


def bench_doors(
    say: ports.Progress, pulse: Callable[[Arrival, Pulse], None], ended: Callable[[str, Phase], None]
) -> BenchDoors:
    from holddown.app.bench import Doors as BenchDoors

    return BenchDoors(
        store=store(),
        clock=clock(),
        host=host(),
        load=lambda target: load_client(target.subject.base_url, target.api_key),
        say=say,
        pulse=pulse,
        ended=ended,
        new_id=new_run_id,
    )


def clock() -> ports.Clock:
    from holddown.edges.clock import SystemClock

    return SystemClock()


def charts() -> ports.Charts:
    from holddown.edges.charts import MatplotlibCharts

    return MatplotlibCharts()


def store() -> ports.Store:
    from holddown.edges.store import SqliteStore

    return SqliteStore(paths().state / "records.sqlite")


def existing_store() -> ports.Store | None:
    """The record store where there is one: a look makes none."""
    return store() if (paths().state / "records.sqlite").exists() else None


def processes() -> LocalProcesses:
    from holddown.edges.process.local import LocalProcesses

    return LocalProcesses()


def log(path: str, *, from_end: bool = False) -> ports.Log:
    from holddown.edges.process.log import LogFile

    return LogFile(path, from_end=from_end)


def stop_signals() -> ports.Signals:
    from holddown.edges.process.local import StopSignals

    return StopSignals()


def background() -> ports.Background:
    from holddown.edges.process.background import Threaded

    return Threaded()


# An engine makes Unix sockets named by a UUID in its TMPDIR, and a socket's path has at most 107 bytes.
_LONGEST_TMP = 107 - len("/holddown-4294967295/0123abcd/") - 40


def run_dirs() -> Path:
    """Where every deployment has its private folder."""
    import tempfile

    tmp = tempfile.gettempdir()
    return Path(tmp if len(tmp) <= _LONGEST_TMP else "/tmp") / f"holddown-{os.geteuid()}"


def new_place() -> Place:
    """Folders for one more deployment; its log folder exists when this returns."""
    import secrets

    from holddown.app.up import Place

    deployment_id = secrets.token_hex(4)
    folder = paths().state / "deployments" / deployment_id
    folder.mkdir(parents=True, mode=0o700)
    return Place(
        deployment_id, str(run_dirs() / deployment_id), str(folder / "engine.log"), supervisor_log(deployment_id)
    )


def supervisor_log(deployment_id: str) -> str:
    return str(paths().state / "deployments" / deployment_id / "supervisor.log")


def up_doors() -> UpDoors:
    from holddown.app.up import Doors as UpDoors

    return UpDoors(store(), host(), processes(), clock())


def endpoint(birth: Birth) -> ports.Client:
    """A client of a deployment's own endpoint, with its key."""
    return client(birth.spec.base_url, key_of(birth))


def key_of(birth: Birth) -> str:
    """Empty where there is none, and where its file is gone: /health needs none."""
    try:
        keys = [Path(secret.path).read_text(encoding="utf-8").strip() for secret in birth.spec.secrets]
    except (OSError, UnicodeDecodeError):
        keys = []  # a launch says so itself; an adoption must not fail for it
    return keys[0] if keys else ""


def verify_doors(begins: ports.Progress) -> VerifyDoors:
    import secrets

    from holddown.app.verify_target import Doors as VerifyDoors

    return VerifyDoors(store(), clock(), lambda: secrets.token_hex(4), begins)


def supervisor_doors(birth: Birth, records: ports.Store, notify: ports.Notify | None = None) -> SupervisorDoors:
    """Makes this program the subreaper of what it starts, and takes over its stop signals."""
    from holddown.app.supervise import Doors as SupervisorDoors

    signals = stop_signals()
    own = processes()
    own.become_subreaper()
    return SupervisorDoors(
        store=records,
        host=host(),
        processes=own,
        leftovers=leftovers(),
        client=lambda: endpoint(birth),
        log=log(birth.log_path),
        signals=signals,
        background=background(),
        clock=clock(),
        obstacles=obstacles(records),
        notify=notify,
    )


def obstacles(records: ports.Store) -> Callable[[Birth], tuple[Finding, ...]]:
    """A deployment whose engine is gone -> what forbids another start of it now."""
    from holddown.app.again import Doors as AgainDoors
    from holddown.app.again import obstacles

    asked = AgainDoors(checkpoints(), engines(), engine_probe(), host(), records, clock())
    return lambda birth: obstacles(birth, written_folders(), asked)


@contextmanager
def only_one(deployment_id: str) -> Iterator[bool]:
    """Whether this is the only supervisor of that deployment; the lock goes with the process."""
    import fcntl

    with open(supervisor_log(deployment_id) + ".lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def notify() -> ports.Notify:
    """What systemd gave this program to speak to it by, which nothing that is started from here inherits."""
    from holddown.edges.notify import NotifySocket

    return NotifySocket.inherited()


def once_more(deployments: UpDoors) -> Callable[[Birth], Again]:
    """A deployment of the record -> a fresh birth after it, checked. Its folder is there when nothing forbids it."""
    from holddown.app.again import Doors as AgainDoors
    from holddown.app.again import again

    asked = AgainDoors(checkpoints(), engines(), engine_probe(), deployments.host, deployments.store, deployments.clock)

    def made_after(before: Birth) -> Again:
        place = new_place()
        made = None
        try:
            made = again(before, place, os.environ.items(), written_folders(), asked)
        finally:
            if made is None or made.blocked:
                Path(place.log_path).parent.rmdir()  # made for this one, and empty
        return made

    return made_after


def serve_doors(notify: ports.Notify, say: ports.Progress) -> ServeDoors:
    from holddown.app.serve import Doors as ServeDoors

    deployments = up_doors()

    @contextmanager
    def supervisor(birth: Birth) -> Iterator[SupervisorDoors | None]:
        with only_one(birth.id) as first:
            yield supervisor_doors(birth, deployments.store, notify) if first else None

    return ServeDoors(
        deployments=deployments,
        again=once_more(deployments),
        supervisor=supervisor,
        signals=stop_signals,
        notify=notify,
        say=say,
        boot_id=boot_id(),
    )


def service_manager(*, system: bool) -> ports.ServiceManager:
    import platformdirs

    from holddown.edges.systemd import Systemd

    # Source: systemd.unit(5), Unit File Load Path
    own = platformdirs.user_config_path() / "systemd" / "user"
    return Systemd(Path("/etc/systemd/system") if system else own, None if system else _own_name())


def service_ground(name: str, *, system: bool) -> ServiceGround:
    import sys

    import platformdirs

    from holddown.app.service import Ground as ServiceGround

    return ServiceGround(
        program=(sys.executable, "-P", "-m", "holddown"),
        user=_own_name() if system else "",
        environment_file=str(platformdirs.user_config_path("holddown") / f"{name}.env"),
        state_folder=str(paths().state),
        mode_of=_mode,
    )


def _own_name() -> str:
    """By the user database, not by a variable; the number where it has no name, which systemd takes as well."""
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _mode(path: str) -> int | None:
    try:
        return Path(path).stat().st_mode & 0o7777
    except OSError:
        return None


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def written_folders() -> tuple[str, ...]:
    """Where a deployment's records and log, and its engine's own files, are written."""
    return str(paths().state), str(run_dirs().parent)


def plan_doors(say: ports.Progress) -> PlanDoors:
    from holddown.app.plan import Doors as PlanDoors

    return PlanDoors(checkpoints(), engines(), engine_probe(), say, engine_selector())


def prepare_doors(doors: UpDoors, say: ports.Progress) -> PrepareDoors:
    from holddown.app.prepare import Doors as PrepareDoors
    from holddown.edges.process.local import REPORTER

    return PrepareDoors(plan_doors(say), doors.host, doors.store, str(REPORTER))


def small_text(path: str) -> str:
    """Of a file of options; empty where there is none, or it is larger than any of them."""
    file = Path(path).expanduser()
    try:
        return file.read_text(encoding="utf-8") if file.is_file() and file.stat().st_size < 2**20 else ""
    except (OSError, UnicodeDecodeError):
        return ""


def lint_doors() -> LintDoors:
    from holddown.app.lint import Doors as LintDoors

    # each is imported when it is asked: most commands name no checkpoint that is here
    return LintDoors(
        engines=lambda: engines().all(),
        read=lambda engine: engine_probe().read(engine),
        local=local_checkpoint,
        inspect=lambda path: checkpoints().inspect(path),
        text=small_text,
    )
