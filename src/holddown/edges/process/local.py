"""Processes of this machine: an engine in its own session, under a supervisor that is its subreaper."""

import ctypes
import errno
import getpass
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from holddown.base.errors import LaunchError
from holddown.base.evidence import Fact
from holddown.edges.process import pump, stacks
from holddown.facts.leftovers import read_maps
from holddown.facts.machine import ProcessFacts
from holddown.facts.proc import Stat, read_stat
from holddown.launch.environment import inherited
from holddown.launch.events import Exit
from holddown.launch.lifecycle import ProcessRef
from holddown.launch.ownership import Activity, ShmSegment
from holddown.launch.spec import LaunchSpec, SecretEnv
from holddown.ports import LOG_BYTES
from holddown.remember.record import Birth

_PR_SET_CHILD_SUBREAPER = 36
_LOG_KEEP = 4
_NOT_RUNNING = 0
_SHORTEST_SECRET = 6
_REPORT_BYTES = 1024**2
_REPORT_TO = "HOLDDOWN_RUN_DIR"
"""What the plug-in in `reporter/` looks for."""
REPORTER = Path(__file__).parent / "reporter"
"""A folder for an engine's Python path: a plug-in of vLLM's that says what the engine resolved."""
_LOG_MAX_BYTES = LOG_BYTES // (_LOG_KEEP + 1)


@dataclass(frozen=True, slots=True)
class _Pump:
    """The program that empties our engine's output into its log. read_end: of the pipe, kept open here too. hidden:
    secrets that do not go into the log."""

    log_path: str
    read_end: int
    hidden: tuple[str, ...] = field(repr=False)
    pid: int = _NOT_RUNNING


# Sent to all that a terminal runs, so also to a supervisor in the instant before it leaves for a session of its own.
# Blocked there, for they would kill it: a Ctrl-C right after the record left a deployment that nobody looked after.
_OF_A_TERMINAL = frozenset({signal.SIGINT, signal.SIGHUP})


class LocalProcesses:
    """The one place that starts, signals and reaps."""

    def __init__(self) -> None:
        self._statuses: dict[int, int] = {}
        self._pump: _Pump | None = None

    def me(self) -> ProcessRef:
        return _reference(os.getpid())

    def become_subreaper(self) -> None:
        """Orphans of our engine are handed to us instead of to process 1, so that we can end and reap them."""
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")

    def start_engine(self, birth: Birth, head: str = "") -> ProcessRef:
        self._forget_last_engine()
        spec, run_dir, log_path = birth.spec, birth.run_dir, birth.log_path
        environment, files = _environment(birth), _secret_files(spec)
        # a shorter one might be any word of the log
        hidden = tuple(text for each in spec.secrets if len(text := _secret(each)) >= _SHORTEST_SECRET)
        read_end, write_end = os.pipe()
        try:
            _make_private(Path(run_dir))
            for name, text in files.items():
                _write_private(Path(run_dir) / name, text)
            self._pump = self._pumping(_Pump(log_path, read_end, hidden))
            os.write(write_end, f"{head}\n".encode() if head else b"")
            engine = self._spawn(list(spec.argv), stdout=write_end, environment=environment, directory=run_dir)
        except OSError as error:
            self._pump = None
            os.close(read_end)
            raise LaunchError(
                f"the engine could not be started: {error.strerror or error}",
                code="launch.spawn",
                seen=" ".join(spec.argv[:3]),
                do="holddown engine list    shows whether its environment is still there",
            ) from error
        finally:
            os.close(write_end)
        return _reference(engine)

    def _forget_last_engine(self) -> None:
        """Its exit status: its pid may be the next one's. Its pump ends by itself, with the last that writes to it."""
        self._reap()
        self._statuses.clear()
        if self._pump is not None:
            os.close(self._pump.read_end)
            self._pump = None

    def _pumping(self, asked: _Pump) -> _Pump:
        """The same, running."""
        argv = [sys.executable, "-I", "-S", pump.__file__, asked.log_path, str(_LOG_MAX_BYTES), str(_LOG_KEEP)]
        environment = {**os.environ, "HOLDDOWN_HIDDEN": "\n".join(asked.hidden)}
        pid = self._spawn(argv, stdin=asked.read_end, stdout=subprocess.DEVNULL, environment=environment, directory="/")
        return replace(asked, pid=pid)

    def start_supervisor(self, deployment_id: str, log_path: str) -> ProcessRef:
        argv = [sys.executable, "-P", "-m", "holddown", "supervise", deployment_id]
        try:
            Path(log_path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(log_path, "ab") as log:
                return _reference(self._spawn(argv, stdout=log.fileno(), directory="/", blocked=_OF_A_TERMINAL))
        except OSError:
            # its disk is full: what it has to say is on record too
            return _reference(self._spawn(argv, stdout=subprocess.DEVNULL, directory="/", blocked=_OF_A_TERMINAL))

    def _spawn(
        self,
        argv: list[str],
        *,
        stdin: int = subprocess.DEVNULL,
        stdout: int,
        environment: Mapping[str, str] | None = None,
        directory: str | None = None,
        blocked: frozenset[signal.Signals] = frozenset(),
    ) -> int:
        # The supervisor blocks SIGTERM to wait for it; a child would inherit that and never see its own.
        before = signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        try:
            child = subprocess.Popen(
                argv,
                stdin=stdin,
                stdout=stdout,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=directory,
                start_new_session=True,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        child.returncode = 0  # we reap by waitpid(-1); Popen must neither wait nor warn
        return child.pid

    def reports(self, run_dir: str) -> tuple[bytes, ...]:
        found = []
        for path in sorted(Path(run_dir).glob("report-*.json")):
            with suppress(OSError), path.open("rb") as file:
                found.append(file.read(_REPORT_BYTES))
        return tuple(found)

    def exit_of(self, engine: ProcessRef) -> Exit | None:
        seen = _stat(engine.pid)
        self._keep_pumping()
        self._reap()  # after the look: a child that ended in between has left its status, not nothing
        if engine.pid in self._statuses:
            return Exit(self._statuses[engine.pid])
        there = seen is not None and seen.started_at == engine.started_at
        # a child of ours whose first thread has ended is a zombie that cannot be waited for until its last one has
        if seen is not None and there and (seen.state != "Z" or seen.parent == os.getpid()):
            return None
        return Exit(None)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            code = os.waitstatus_to_exitcode(status)
            if self._pump is not None and pid == self._pump.pid:
                self._pump_ended(self._pump, code)
            else:
                self._statuses[pid] = code

    def _pump_ended(self, ended: "_Pump", code: int) -> None:
        """Killed (for want of memory?) before the engine: another takes over, or the engine's next writes would block.

        For that the read end stayed open here, and nothing that the engine wrote meanwhile is lost.
        """
        if code == 0:
            os.close(ended.read_end)
            self._pump = None
        else:
            self._pump = replace(ended, pid=_NOT_RUNNING)
            self._keep_pumping()

    def _keep_pumping(self) -> None:
        """One that cannot be started (our own Python was replaced under us, say) is tried again at the next look."""
        pump = self._pump
        if pump is not None and pump.pid == _NOT_RUNNING:
            with suppress(OSError):
                self._pump = self._pumping(pump)

    def activity(self, members: Sequence[ProcessFacts]) -> Activity:
        read_bytes = cpu_ticks = 0
        for member in members:
            now = _stat(member.pid)
            cpu_ticks += now.cpu_ticks if now else 0
            for line in _text(f"/proc/{member.pid}/io").splitlines():
                name, _, value = line.partition(": ")
                if name == "rchar":  # also what the page cache served
                    read_bytes += int(value)
        return Activity(sum(member.rss_bytes for member in members), read_bytes, cpu_ticks)

    def shared_memory(self, members: Sequence[ProcessFacts]) -> frozenset[ShmSegment]:
        segments = set()
        for member in members:
            for file, path in read_maps(_text(f"/proc/{member.pid}/maps")):
                # what is unlinked already (Python's semaphores) needs no removal, and its name may be another file's
                if path.startswith("/dev/shm/") and not path.endswith(" (deleted)"):
                    segments.add(ShmSegment(path, os.makedev(file.major, file.minor), file.inode))
        return frozenset(segments)

    def keep_stacks(self, members: Sequence[ProcessFacts], executable: str, path: str, head: str) -> Fact[str]:
        return stacks.keep(members, executable, path, head)

    def terminate(self, members: Sequence[ProcessRef]) -> None:
        self._signal(members, signal.SIGTERM)

    def kill(self, members: Sequence[ProcessRef]) -> None:
        self._signal(members, signal.SIGKILL)

    def _signal(self, members: Sequence[ProcessRef], which: signal.Signals) -> None:
        boot_id = _boot_id()
        for member in members:
            if member.boot_id != boot_id:
                continue
            try:
                handle = os.pidfd_open(member.pid)
            except ProcessLookupError:
                continue
            try:
                # checked after the pidfd is held: from here on it cannot come to mean another process
                if _alive(member):
                    signal.pidfd_send_signal(handle, which)
            except (ProcessLookupError, PermissionError):
                pass  # it ended, or it has become another user's (sudo): not ours to end any more
            finally:
                os.close(handle)

    def remove(self, segments: frozenset[ShmSegment], run_dir: str) -> None:
        for segment in segments:
            try:
                there = os.lstat(segment.path)
            except FileNotFoundError:
                continue
            same = (there.st_dev, there.st_ino) == (segment.device, segment.inode)
            if same and stat.S_ISREG(there.st_mode) and there.st_uid == os.geteuid():
                Path(segment.path).unlink()
        shutil.rmtree(run_dir, ignore_errors=True)


class StopSignals:
    """SIGTERM and SIGINT as values; SIGCHLD wakes the loop early."""

    def __init__(self) -> None:
        self._asked: str | None = None
        for number in _OF_A_TERMINAL:
            signal.signal(number, signal.SIG_IGN)  # drops what came before this program had a session of its own
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)
        self._waited = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD}
        signal.pthread_sigmask(signal.SIG_BLOCK, self._waited)

    def _note(self, number: int, _: object) -> None:
        # only in the instant in which a child is spawned with the mask open
        self._asked = signal.Signals(number).name

    def wait(self, seconds: float) -> str | None:
        if self._asked is None:
            got = signal.sigtimedwait(self._waited, seconds)
            if got is not None and got.si_signo != signal.SIGCHLD:
                self._asked = signal.Signals(got.si_signo).name
        asked, self._asked = self._asked, None
        return asked


def _make_private(run_dir: Path) -> None:
    """/tmp is everybody's: a folder of that name which another user made first is not taken."""
    for folder in (run_dir.parent, run_dir):
        folder.mkdir(mode=0o700, exist_ok=True)
        there = folder.lstat()
        if there.st_uid != os.geteuid() or not stat.S_ISDIR(there.st_mode):
            raise PermissionError(errno.EPERM, f"{folder} is not a folder of this user")


def _environment(birth: Birth) -> dict[str, str]:
    spec, run_dir = birth.spec, birth.run_dir
    environment = inherited(birth.environment, os.environ)
    environment |= {variable.name: variable.value for variable in spec.env}
    environment.setdefault("TORCHINDUCTOR_CACHE_DIR", _compiled())
    environment["TMPDIR"] = run_dir
    environment[_REPORT_TO] = run_dir
    environment |= {secret.name: _secret(secret) for secret in spec.secrets if not secret.file}
    return environment


def _secret_files(spec: LaunchSpec) -> dict[str, str]:
    """Name -> text of the files in which the engine looks for secrets. A JSON string is a YAML string."""
    return {each.file: f"{each.name}: {json.dumps(_secret(each))}\n" for each in spec.secrets if each.file}


def _write_private(target: Path, text: str) -> None:
    target.unlink(missing_ok=True)
    with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def _secret(secret: SecretEnv) -> str:
    try:
        return Path(secret.path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise LaunchError(
            f"the file of {secret.name} cannot be read: {error}",
            code="launch.secret",
            seen=secret.path,
            do="check the path given to --api-key-file and who may read it",
        ) from error


def _compiled() -> str:
    """Where PyTorch keeps what it compiled when nobody says otherwise: under the TMPDIR that was, not under the private
    one, which goes with its engine. Without it an engine on two CPU cores spends 40 s on it again, at every start.

    Source: torch/_inductor/runtime/cache_dir_utils.py, default_cache_dir.
    """
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = f"uid_{os.getuid()}"  # no name is known to this user id, as in many containers
    return str(Path(tempfile.gettempdir()) / ("torchinductor_" + re.sub(r'[\\/:*?"<>|]', "_", user)))


def _reference(pid: int) -> ProcessRef:
    now = _stat(pid)
    return ProcessRef(pid, now.started_at if now else 0, _boot_id())


def _boot_id() -> str:
    return _text("/proc/sys/kernel/random/boot_id").strip()


def _alive(process: ProcessRef) -> bool:
    now = _stat(process.pid)
    return now is not None and now.state != "Z" and now.started_at == process.started_at


def _stat(pid: int) -> Stat | None:
    text = _text(f"/proc/{pid}/stat")
    return read_stat(text) if text else None


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""  # the process ended, or is not ours to read
