"""The units' folder, systemd's own programs, and the socket through which a service speaks."""

import os
import shutil
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from holddown.base.errors import MachineError, UsageError
from holddown.edges.notify import NotifySocket
from holddown.edges.systemd import Systemd
from holddown.launch.export.systemd import Service, unit_name, unit_text

UNIT = unit_name("m")
here = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")


def manager(folder: Path, kind: str = "user") -> Systemd:
    return Systemd(folder, "nobody-of-that-name" if kind == "user" else None)


def service(kind: str) -> Service:
    environment = (("HF_TOKEN", "(redacted)"), ("PATH", "/usr/bin:/bin"), ("VLLM_X", 'a b "c" $d 100% \\e'))
    words = (sys.executable, "-P", "-m", "holddown")
    user = "root" if kind == "system" else ""
    needs = ("/models/with blank", "/models/100%")
    return Service("m", "0123abcd", words, user, environment, "/c/m.env", needs, True, 10**9)


@here
@pytest.mark.parametrize("kind", ["user", "system"])
def test_systemd_takes_the_unit(tmp_path: Path, kind: str) -> None:
    """`systemd-analyze verify` has nothing against it, with all that its own version knows."""
    asked = manager(tmp_path, kind)
    text = unit_text(replace(service(kind), systemd=asked.version()))
    assert asked.faults(UNIT, text) == ()


@here
def test_a_program_of_odd_path_is_found_by_systemd(tmp_path: Path) -> None:
    """It looks whether what ExecStart names is there: quoting that it reads otherwise would be a fault."""
    folder = tmp_path / "a $b 100% c"
    folder.mkdir()
    program = folder / "python"
    program.symlink_to(sys.executable)
    odd = replace(service("user"), program=(str(program),), systemd=manager(tmp_path).version())
    assert manager(tmp_path).faults(UNIT, unit_text(odd)) == ()
    program.unlink()
    assert manager(tmp_path).faults(UNIT, unit_text(odd))


@here
@pytest.mark.parametrize("kind", ["user", "system"])
def test_a_wrong_unit_is_found_faulty(tmp_path: Path, kind: str) -> None:
    """The two above can fail."""
    text = unit_text(service(kind))
    for right, wrong in (("Type=notify", "Type=notification"), ("KillMode=", "KilMode="), ("=-/c/m.env", "=c/m.env")):
        assert right in text
        assert manager(tmp_path, kind).faults(UNIT, text.replace(right, wrong))


def test_a_file_is_written_whole_and_deleted(tmp_path: Path) -> None:
    """Its folder is made; a second delete is nothing; nothing else lies there."""
    asked = manager(tmp_path / "systemd" / "user")
    assert asked.read(UNIT) is None
    asked.write(UNIT, "a")
    asked.write(UNIT, "b")
    assert asked.read(UNIT) == "b" and Path(asked.path(UNIT)).read_text() == "b"
    assert [each.name for each in (tmp_path / "systemd" / "user").iterdir()] == [UNIT]
    asked.delete(UNIT)
    asked.delete(UNIT)
    assert asked.read(UNIT) is None


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """With the way round it. A file stands where the folder belongs: root cannot write there, either."""
    (tmp_path / "user").write_text("a file")
    with pytest.raises(UsageError) as raised:
        manager(tmp_path / "user" / "x").write(UNIT, "a")
    assert raised.value.code == "service.not-writable" and "sudo cp" in raised.value.do
    with pytest.raises(MachineError):
        manager(tmp_path / "user").read(UNIT)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_no_permission_is_said(tmp_path: Path) -> None:
    """As for a unit of the system without sudo."""
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError):
        manager(tmp_path).write(UNIT, "a")


@pytest.fixture
def fake_systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "bin" / "systemctl"
    program.parent.mkdir()
    monkeypatch.setenv("PATH", str(program.parent))
    return program


@pytest.mark.parametrize(
    ("says", "runs"), [("running", True), ("degraded", True), ("starting", True), ("offline", False), ("", False)]
)
def test_whether_it_can_be_asked(tmp_path: Path, fake_systemctl: Path, says: str, runs: bool) -> None:
    """By its own word; a user without a session gets none out of it."""
    fake_systemctl.write_text(f"#!/bin/sh\necho {says}\n[ '{says}' = running ]\n")
    fake_systemctl.chmod(0o755)
    assert manager(tmp_path).runs() is runs


def test_where_there_is_no_systemd(tmp_path: Path, fake_systemctl: Path) -> None:
    """No program of it: nothing runs, no version, nothing to verify, and asking is an obstacle with a remedy."""
    asked = manager(tmp_path)
    assert (asked.runs(), asked.version(), asked.faults(UNIT, "")) == (False, 0, None)
    with pytest.raises(MachineError) as raised:
        asked.ask("daemon-reload")
    assert "systemctl --user daemon-reload" in raised.value.do


def test_what_systemctl_says_is_shown(tmp_path: Path, fake_systemctl: Path) -> None:
    """On one line."""
    fake_systemctl.write_text("#!/bin/sh\necho 'Failed to connect to bus:' >&2\necho 'No medium' >&2\nexit 1\n")
    fake_systemctl.chmod(0o755)
    with pytest.raises(MachineError) as raised:
        manager(tmp_path).ask("enable", UNIT)
    assert raised.value.seen == "Failed to connect to bus: No medium"


def test_nobody_lingers_whom_logind_does_not_name(tmp_path: Path) -> None:
    """And the system's own services know no logout."""
    assert not manager(tmp_path).outlives_logout() and manager(tmp_path, "system").outlives_logout()


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.settimeout(10)
        yield listening


@pytest.mark.parametrize("abstract", [False, True])
def test_words_go_in_one_datagram(listening: socket.socket, tmp_path: Path, abstract: bool) -> None:
    """To a socket in a folder, and to an abstract one."""
    address = f"@{tmp_path}/notify" if abstract else f"{tmp_path}/notify"
    listening.bind(address.replace("@", "\0"))
    NotifySocket(address).tell(("READY=1", "STATUS=released"))
    assert listening.recv(1000) == b"READY=1\nSTATUS=released"


def test_where_nobody_listens_nothing_happens(tmp_path: Path) -> None:
    """No address, one that is gone, one that is too long for a socket."""
    for address in ("", f"{tmp_path}/gone", f"{tmp_path}/{'x' * 200}"):
        NotifySocket(address).tell(("READY=1",))


def test_a_manager_that_does_not_read_holds_nobody_up(listening: socket.socket, tmp_path: Path) -> None:
    """Its buffer is full: what comes then is lost, and the call returns."""
    listening.bind(f"{tmp_path}/notify")
    for _ in range(10_000):
        NotifySocket(f"{tmp_path}/notify").tell(("STATUS=" + "x" * 1000,))


def test_the_address_is_taken_out_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What the supervisor starts must not speak for it."""
    monkeypatch.setenv("NOTIFY_SOCKET", f"{tmp_path}/notify")
    NotifySocket.inherited()
    assert "NOTIFY_SOCKET" not in os.environ
