"""Starting, signalling and cleaning up on this machine: only ever what is provably ours."""

import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.records import a_birth
from functional.deployed import until
from holddown.base.errors import LaunchError
from holddown.edges.hosts.local import LocalHost
from holddown.edges.hosts.processes import boot_id
from holddown.edges.process.local import LocalProcesses
from holddown.launch.environment import REDACTED
from holddown.launch.events import Exit
from holddown.launch.lifecycle import ProcessRef
from holddown.launch.ownership import ShmSegment
from holddown.launch.spec import LaunchSpec, SecretEnv
from holddown.remember.record import Birth

SHM = Path("/dev/shm")


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def ref(pid: int) -> ProcessRef:
    process = LocalHost().process(pid)
    assert process is not None
    return ProcessRef(pid, process.started_at, boot_id())


def test_a_process_is_signalled_only_under_its_whole_name(sleeper: "subprocess.Popen[bytes]") -> None:
    """The pid with another start time, or of another boot, is another program."""
    real, doors = ref(sleeper.pid), LocalProcesses()
    for other in (replace(real, started_at=real.started_at - 1), replace(real, boot_id="another")):
        doors.kill([other])
        doors.terminate([other])
    with pytest.raises(subprocess.TimeoutExpired):
        sleeper.wait(0.2)
    doors.terminate([real])
    assert sleeper.wait(10) == -15


def test_a_process_that_is_gone_is_no_error() -> None:
    """It may end between a look and a signal."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        gone = ref(process.pid)
    LocalProcesses().kill([gone])
    LocalProcesses().terminate([gone])


def birth(folder: Path, spec: LaunchSpec) -> Birth:
    environment = (("PATH", os.environ["PATH"]), ("HOLDDOWN_TEST_HIDDEN", REDACTED), ("VLLM_TEST_THEN", "then"))
    places = {"run_dir": f"{folder}/r/1", "log_path": f"{folder}/log"}
    return replace(a_birth(), spec=spec, environment=environment, **places)


def spec(*argv: str, secrets: tuple[SecretEnv, ...] = ()) -> LaunchSpec:
    return LaunchSpec(argv, (), secrets, "127.0.0.1", 8000)


def test_an_interpreter_that_is_gone_is_a_failed_launch(tmp_path: Path) -> None:
    """What was tried and what shows more; no pipe stays open."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(LaunchError) as raised:
        LocalProcesses().start_engine(birth(tmp_path, spec("/nowhere/python", "-m", "vllm")))
    assert "No such file" in raised.value.what and raised.value.seen == "/nowhere/python -m vllm"
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_key_that_cannot_be_read_is_a_failed_launch(tmp_path: Path) -> None:
    """Nothing was started, and the file is named."""
    secret = SecretEnv("VLLM_API_KEY", f"{tmp_path}/key")
    with pytest.raises(LaunchError) as raised:
        LocalProcesses().start_engine(birth(tmp_path, spec("/bin/true", secrets=(secret,))))
    assert raised.value.code == "launch.secret" and raised.value.seen == secret.path
    assert not (tmp_path / "r").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder to another user, which only root may")
def test_a_private_folder_that_another_user_made_is_not_taken(tmp_path: Path) -> None:
    """/tmp is everybody's, and whoever owns the folder could change what an engine reads there."""
    (tmp_path / "r").mkdir()
    os.chown(tmp_path / "r", 61987, 61987)
    with pytest.raises(LaunchError) as raised:
        LocalProcesses().start_engine(birth(tmp_path, spec("/bin/true")))
    assert "not a folder of this user" in raised.value.what


def test_a_private_folder_that_is_a_link_is_not_taken(tmp_path: Path) -> None:
    """It may lead anywhere."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "r").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LaunchError):
        LocalProcesses().start_engine(birth(tmp_path, spec("/bin/true")))


@pytest.fixture
def segment() -> Iterator[Path]:
    path = SHM / f"holddown_test_{os.getpid()}"
    path.write_bytes(bytes(4096))
    yield path
    path.unlink(missing_ok=True)


def test_the_shared_memory_of_a_process_is_what_it_maps(segment: Path) -> None:
    """By device and inode; not what it has unlinked itself."""
    me = LocalHost().process(os.getpid())
    assert me is not None
    mine = ShmSegment(str(segment), segment.stat().st_dev, segment.stat().st_ino)
    assert mine not in LocalProcesses().shared_memory([me])
    with segment.open("r+b") as file, mmap.mmap(file.fileno(), 4096):
        assert mine in LocalProcesses().shared_memory([me])
        segment.unlink()
        assert not [one for one in LocalProcesses().shared_memory([me]) if str(segment) in one.path]


def test_a_segment_goes_only_as_the_file_that_was_seen(segment: Path, tmp_path: Path) -> None:
    """A later file of that name is somebody else's; a folder of the deployment goes in any case."""
    there = segment.stat()
    seen = ShmSegment(str(segment), there.st_dev, there.st_ino)
    run_dir = tmp_path / "run"
    (run_dir / "inner").mkdir(parents=True)
    LocalProcesses().remove(frozenset({replace(seen, inode=there.st_ino + 1)}), str(run_dir))
    assert segment.exists() and not run_dir.exists()
    LocalProcesses().remove(frozenset({seen}), str(run_dir))
    assert not segment.exists()


def test_an_engines_environment_is_its_own_but_for_what_it_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A private TMPDIR that goes with the engine must not take PyTorch's compiled code with it. What it inherits is of
    the record, where that tells it: who starts it again may do so from another shell."""
    run_dir, log = f"{tmp_path}/r/1", tmp_path / "log"
    monkeypatch.setenv("HOLDDOWN_TEST_HIDDEN", "secret")
    monkeypatch.setenv("VLLM_TEST_THEN", "of another shell")
    monkeypatch.setenv("VLLM_TEST_SINCE", "of another shell")
    LocalProcesses().start_engine(birth(tmp_path, spec("/usr/bin/env", "--null")))
    given = until(lambda: log.exists() and log.read_text(), "its environment is in its log")
    variables = dict(line.partition("=")[::2] for line in given.split("\0"))
    assert variables["TMPDIR"] == run_dir
    assert not variables["TORCHINDUCTOR_CACHE_DIR"].startswith(run_dir)
    assert (variables["HOLDDOWN_TEST_HIDDEN"], variables["VLLM_TEST_THEN"]) == ("secret", "then")
    assert "VLLM_TEST_SINCE" not in variables
    assert "VIRTUAL_ENV" not in variables and "PYTHONPATH" not in variables


def test_an_engine_whose_first_thread_ends_first_has_an_exit_status(tmp_path: Path) -> None:
    """Until its last thread has ended it is a zombie that cannot be waited for: it has not ended without a status."""
    code = (
        "import ctypes, os, threading, time\n"
        "threading.Thread(target=lambda: (time.sleep(0.5), os._exit(3))).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    processes = LocalProcesses()
    engine = processes.start_engine(birth(tmp_path, spec(sys.executable, "-c", code)))
    assert until(lambda: processes.exit_of(engine), "it ends") == Exit(3)
