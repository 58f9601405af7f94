"""Looking at and removing real files and processes, all of the tests' own making.

Removal needs every process of the owner to be readable, which no test can promise of the user who runs it (an agent, a
first process with more rights). As root the tests therefore act as a user id that nobody has.
"""

import ctypes
import mmap
import os
import pickle
import signal
import socket
import subprocess
import traceback
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from holddown.app.clean import survey, sweep
from holddown.base.evidence import Known
from holddown.edges.hosts.local import LocalHost
from holddown.edges.leftovers.local import LocalLeftovers
from holddown.facts.leftovers import Ended, FoundFile, Kept, Kind, KnownEngine, NotEnded, Removed
from holddown.facts.machine import ProcessFacts
from holddown.launch.leftovers import Claim, FileVerdict, Standing, judge_files

T = TypeVar("T")
SHM = Path("/dev/shm")
ROOT = os.geteuid() == 0
NOBODYS_UID = 61987
_PR_SET_DUMPABLE = 4

as_root = pytest.mark.skipif(not ROOT, reason="acts as another user, which only root may")


def become(uid: int) -> None:
    """In a forked child only. A process that changes its user turns unreadable to it; this one turns back."""
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)


def run_as(uid: int, work: Callable[[], T]) -> T:
    """What `work` gives when that user does it. What it imports must be imported already."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            become(uid)
            answer: Any = (True, work())
        except BaseException:  # noqa: BLE001 - it must reach the parent, not the test runner's copy
            answer = (False, traceback.format_exc())
        with os.fdopen(write_end, "wb") as pipe:
            pickle.dump(answer, pipe)
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        ok, result = pickle.load(pipe)
    os.waitpid(pid, 0)
    if not ok:
        raise RuntimeError(result)
    value: T = result
    return value


@pytest.fixture
def name() -> Iterator[str]:
    """A name in /dev/shm that is this test's alone; whatever bears it is gone afterwards."""
    name = f"psm_holddowntest{uuid.uuid4().hex}"
    yield name
    for path in SHM.glob(f"*{name}*"):
        path.unlink()


@pytest.fixture
def children() -> Iterator[list[int]]:
    """Processes that a test started; ended and reaped afterwards."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def make(path: Path, uid: int = NOBODYS_UID) -> Path:
    path.write_bytes(b"x" * 4096)
    os.chown(path, uid, uid)
    path.chmod(0o600)
    return path


def judged(path: Path, leftovers: LocalLeftovers, old_enough_s: float = 0.0) -> FileVerdict:
    traces = leftovers.look(LocalHost().processes())
    (verdict,) = (verdict for verdict in judge_files(traces, (), old_enough_s) if verdict.file.path == str(path))
    return verdict


def found(path: Path, leftovers: LocalLeftovers) -> FoundFile:
    (file,) = (file for file in leftovers.look(()).files if file.path == str(path))
    return file


def hold(path: Path, uid: int, how: str) -> int:
    """A process of that user which has the file open or mapped, until it is killed."""
    ready_read, ready_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            become(uid)
            handle = os.open(path, os.O_RDWR)
            kept = mmap.mmap(handle, 4096) if how == "mapped" else handle
            if how == "mapped":
                os.close(handle)
            os.write(ready_write, b"1")
            signal.pause()
            del kept
        finally:
            os._exit(0)
    os.close(ready_write)
    assert os.read(ready_read, 1) == b"1"
    os.close(ready_read)
    return pid


# --- shared memory ------------------------------------------------------------------------------------------


@as_root
def test_what_nobody_uses_is_dead_and_goes(name: str) -> None:
    """The user's own file that no process holds is removed."""
    path = make(SHM / name)
    leftovers = LocalLeftovers(temporaries=[])

    def work() -> tuple[FileVerdict, Removed | Kept]:
        verdict = judged(path, leftovers)
        return verdict, leftovers.remove(verdict.file)

    verdict, outcome = run_as(NOBODYS_UID, work)
    assert verdict.standing is Standing.DEAD, verdict.because
    assert outcome == Removed(str(path))
    assert not path.exists()


@as_root
def test_five_minutes_are_asked_for(name: str) -> None:
    """A file of this instant is too young for the command, whatever its mtime was set to."""
    path = make(SHM / name)
    os.utime(path, (0, 0))
    verdict = run_as(NOBODYS_UID, lambda: judged(path, LocalLeftovers(temporaries=[]), 300.0))
    assert verdict.standing is Standing.UNDECIDED
    assert "younger than 5 min" in verdict.because


@as_root
@pytest.mark.parametrize("how", ["mapped", "open"])
def test_what_a_live_process_uses_stays(name: str, children: list[int], how: str) -> None:
    """Mapped without an open handle, or open without a mapping: the process is named."""
    path = make(SHM / name)
    children.append(hold(path, NOBODYS_UID, how))
    verdict = run_as(NOBODYS_UID, lambda: judged(path, LocalLeftovers(temporaries=[])))
    assert (verdict.standing, verdict.holders) == (Standing.IN_USE, (children[0],))


@as_root
def test_a_second_name_does_not_hide_the_use(name: str, children: list[int]) -> None:
    """Mapped under a name that nobody looks at, and judged under another: it is the file that counts."""
    path, second = make(SHM / f"x{name}"), SHM / name
    children.append(hold(path, NOBODYS_UID, "mapped"))
    second.hardlink_to(path)
    verdict = run_as(NOBODYS_UID, lambda: judged(second, LocalLeftovers(temporaries=[])))
    assert verdict.standing is Standing.IN_USE


@as_root
def test_another_users_file_stays(name: str) -> None:
    """Root, too, leaves what is another user's."""
    path = make(SHM / name)
    verdict = judged(path, LocalLeftovers(temporaries=[]))
    assert verdict.standing is Standing.UNDECIDED
    assert f"belongs to uid {NOBODYS_UID}" in verdict.because


def hide(children: list[int], holding: Path | None = None) -> int:
    """A process of the unused user that nobody else of that user can look into; it may have a file open."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setgid(NOBODYS_UID)
            os.setuid(NOBODYS_UID)  # and not readable again
            if holding:
                os.open(holding, os.O_RDWR)
            signal.pause()
        finally:
            os._exit(0)
    children.append(pid)
    while f"Uid:\t{NOBODYS_UID}\t" not in Path(f"/proc/{pid}/status").read_text():
        os.sched_yield()
    return pid


@as_root
def test_a_process_that_hides_keeps_what_it_holds(name: str, children: list[int]) -> None:
    """It cannot be looked into, and the kernel does not say that nobody has the file open."""
    path = make(SHM / name, NOBODYS_UID)
    pid = hide(children, holding=path)
    while not any(link.resolve() == path for link in Path(f"/proc/{pid}/fd").iterdir()):
        os.sched_yield()
    verdict = run_as(NOBODYS_UID, lambda: judged(path, LocalLeftovers(temporaries=[])))
    assert verdict.standing is Standing.UNDECIDED
    assert f"pid {pid}" in verdict.because


@as_root
def test_a_process_that_hides_keeps_nothing_that_the_kernel_knows_to_be_unused(name: str, children: list[int]) -> None:
    """Every login has such a process; where the kernel grants the lease of a sole opener, it has nothing open."""
    path = make(SHM / name, NOBODYS_UID)
    hide(children)
    verdict = run_as(NOBODYS_UID, lambda: judged(path, LocalLeftovers(temporaries=[])))
    assert verdict.standing is Standing.DEAD


def test_a_link_is_neither_followed_nor_removed(name: str, tmp_path: Path) -> None:
    """A symbolic link under such a name is somebody's trap or jest."""
    target = tmp_path / "precious"
    target.write_text("x")
    link = SHM / name
    link.symlink_to(target)
    leftovers = LocalLeftovers(temporaries=[])
    verdict = judged(link, leftovers)
    assert verdict.standing is Standing.UNDECIDED
    assert isinstance(leftovers.remove(verdict.file), Kept)
    assert target.read_text() == "x"
    assert link.is_symlink()


@pytest.mark.parametrize("how", ["replaced", "linked", "touched", "opened"])
def test_what_changed_after_the_judgement_stays(name: str, tmp_path: Path, how: str) -> None:
    """Another file of that name, a link in its place, a new date, or somebody who just opened it."""
    path = SHM / name
    path.write_bytes(b"x")
    leftovers = LocalLeftovers(temporaries=[])
    file = found(path, leftovers)
    held = None
    match how:
        case "replaced":
            other = SHM / f"{name}.new"
            other.write_bytes(b"y")
            other.rename(path)
        case "linked":
            path.unlink()
            path.symlink_to(tmp_path)
        case "touched":
            os.utime(path, (1, 1))
        case _:
            held = path.open("rb")
    assert isinstance(leftovers.remove(file), Kept)
    assert os.path.lexists(path)
    if held is not None:
        held.close()
        assert leftovers.remove(file) == Removed(str(path))


def test_what_went_by_itself_is_gone(name: str) -> None:
    """Whoever made it removed it in between: that is what was wanted."""
    path = SHM / name
    path.write_bytes(b"x")
    leftovers = LocalLeftovers(temporaries=[])
    file = found(path, leftovers)
    path.unlink()
    assert leftovers.remove(file) == Removed(str(path))


# --- sockets and private folders ----------------------------------------------------------------------------


def test_only_a_dead_socket_goes(tmp_path: Path) -> None:
    """A bound one is in use, and one that was bound unseen answers when asked."""
    dead, alive = (tmp_path / str(uuid.uuid4()) for _ in range(2))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(dead))
    leftovers = LocalLeftovers(temporaries=[tmp_path])
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(alive))
        server.listen()
        assert judged(alive, leftovers).standing is Standing.IN_USE
        assert isinstance(leftovers.remove(found(alive, leftovers)), Kept)
        assert alive.exists()
    assert leftovers.remove(found(dead, leftovers)) == Removed(str(dead))
    assert not dead.exists()


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A deployment's private folder with what an engine leaves in it."""
    folder = tmp_path / f"holddown-{os.geteuid()}" / "aaaa1111"
    (folder / "torchinductor").mkdir(parents=True)
    (folder / "torchinductor" / "kernel.so").write_bytes(b"x")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "s"))
    return folder


def test_a_private_folder_goes_whole(run_dir: Path, tmp_path: Path) -> None:
    """With everything in it, and nothing that a link in it leads to."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "weights").write_text("x")
    (run_dir / "link").symlink_to(precious)
    leftovers = LocalLeftovers(temporaries=[tmp_path])
    file = found(run_dir, leftovers)
    assert file.kind is Kind.RUN_DIR
    assert leftovers.remove(file) == Removed(str(run_dir))
    assert not run_dir.exists()
    assert (precious / "weights").read_text() == "x"


@pytest.mark.parametrize("how", ["changed", "open", "bound"])
def test_a_private_folder_in_use_stays_whole(run_dir: Path, tmp_path: Path, how: str) -> None:
    """A file that was added, one that is open, a socket that answers: nothing of the folder goes."""
    leftovers = LocalLeftovers(temporaries=[tmp_path])
    with ExitStack() as stack:
        if how == "bound":
            server = stack.enter_context(socket.socket(socket.AF_UNIX))
            server.bind(str(run_dir / "t"))
            server.listen()
        file = found(run_dir, leftovers)
        if how == "open":
            stack.enter_context((run_dir / "torchinductor" / "kernel.so").open("rb"))
        if how == "changed":
            (run_dir / "torchinductor" / "new").write_text("x")
        assert isinstance(leftovers.remove(file), Kept)
    assert (run_dir / "s").exists()
    assert (run_dir / "torchinductor" / "kernel.so").exists()


# --- processes ----------------------------------------------------------------------------------------------


def facts_of(pid: int) -> ProcessFacts:
    facts = LocalHost().process(pid)
    assert facts is not None
    return facts


@pytest.fixture
def orphan(run_dir: Path) -> Iterator[ProcessFacts]:
    """A process titled like an engine's core, whose server was killed, standing in the private folder."""
    leader = subprocess.Popen(
        ["/bin/bash", "-c", "(exec -a VLLM::EngineCore sleep 300 >/dev/null) & echo $!; wait"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=run_dir,
        start_new_session=True,
    )
    assert leader.stdout is not None
    pid = int(leader.stdout.readline())
    while facts_of(pid).title != "VLLM::EngineCore 300":
        os.sched_yield()
    handle = os.pidfd_open(pid)
    leader.kill()
    leader.wait()
    leader.stdout.close()
    yield facts_of(pid)
    try:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    except ProcessLookupError:
        pass
    os.close(handle)


def known(orphan: ProcessFacts, *, active: bool) -> tuple[KnownEngine, ...]:
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return (KnownEngine("aaaa1111", orphan.session, orphan.started_at, boot_id, active=active),)


def test_an_orphan_of_a_deployment_that_is_over_is_lost_and_is_ended(orphan: ProcessFacts, tmp_path: Path) -> None:
    """By its folder it is ours; it is ended, and nothing of it is left."""
    host, leftovers = LocalHost(), LocalLeftovers(shm=tmp_path / "none", temporaries=[tmp_path])
    record = known(orphan, active=False)
    shown = survey(host, leftovers, record)
    (suspect,) = (one for one in shown.suspects if one.verdict.process.pid == orphan.pid)
    assert suspect.verdict.claim is Claim.LOST
    only = replace(shown, suspects=(suspect,))
    swept = sweep(host, leftovers, record, only)
    assert swept.ended == (Ended(orphan.pid, "SIGTERM"),)
    left = host.process(orphan.pid)
    assert left is None or left.state == "Z"


@pytest.mark.parametrize("active", [True, False])
def test_an_orphan_of_another_record_is_let_be(orphan: ProcessFacts, tmp_path: Path, active: bool) -> None:
    """Of a deployment that is up it is no leftover at all; without a record it is shown and not ended."""
    leftovers = LocalLeftovers(shm=tmp_path / "none", temporaries=[tmp_path])
    shown = survey(LocalHost(), leftovers, known(orphan, active=True) if active else ())
    mine = [one for one in shown.suspects if one.verdict.process.pid == orphan.pid]
    assert [one.may_end for one in mine] == ([] if active else [False])


def test_a_pid_of_another_start_time_is_not_signalled(orphan: ProcessFacts) -> None:
    """The number belongs to another program now: it lives on."""
    (outcome,) = LocalLeftovers().end([replace(orphan, started_at=orphan.started_at - 1)])
    assert outcome == NotEnded(orphan.pid, "its pid now belongs to another process")
    assert facts_of(orphan.pid).state != "Z"


def test_what_is_held_is_told(name: str) -> None:
    """Segments that a process maps and ports on which it listens, of this very process."""
    path = SHM / name
    path.write_bytes(b"x" * 4096)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 4096), socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        held = LocalLeftovers().held(os.getpid())
        assert str(path) in held.shm
        assert server.getsockname()[1] in held.ports


def test_our_own_view_is_whole() -> None:
    """What this test has open is seen as held by it."""
    leftovers = LocalLeftovers(temporaries=[])
    views = {view.pid: view for view in leftovers.look(()).views}
    assert isinstance(views[os.getpid()].held, Known)
