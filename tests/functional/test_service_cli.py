"""A deployment as a service: its unit, what the unit runs, and systemd's programs beside it."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from functional.deployed import NAME, QUICK, Site, kill, until
from holddown.launch.lifecycle import State
from holddown.launch.restart import Restart

UNIT = f"holddown-{NAME}.service"
SYSTEMCTL = """#!/bin/sh
echo "$@" >> "{record}"
case "$*" in
  --version) echo "systemd 252 (fake)";;
  *is-system-running) echo {state}; [ {state} = running ];;
  *reset-failed*) echo "Unit not loaded." >&2; exit 1;;
  *{refused}*) echo "Failed: {refused} refused" >&2; exit 1;;
esac
"""


class Service:
    """A site, a fake `systemctl`, and the socket on which a service manager would listen."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.folder = site.home.path / "config" / "systemd" / "user"
        self.programs = site.home.path / "bin"
        self.record = site.home.path / "systemctl.log"
        self.programs.mkdir()
        self.env = {
            "XDG_CONFIG_HOME": str(site.home.path / "config"),
            "PATH": f"{self.programs}:{os.environ['PATH']}",
        }
        self.address = str(site.home.path / "notify")
        self.listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.listening.bind(self.address)
        self.listening.setblocking(False)
        self.heard: list[str] = []
        self.started: list[subprocess.Popen[str]] = []
        self.systemd("running")

    @property
    def unit(self) -> Path:
        return self.folder / UNIT

    def systemd(self, state: str, refused: str = "nothing-at-all") -> None:
        program = self.programs / "systemctl"
        program.write_text(SYSTEMCTL.format(record=self.record, state=state, refused=refused))
        program.chmod(0o755)

    def asked(self) -> list[str]:
        """What systemctl was called for, looks left out."""
        lines = self.record.read_text().splitlines() if self.record.exists() else []
        return [line for line in lines if line != "--version" and "is-system-running" not in line]

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.site.run("service", *words, env=self.env)

    def run(self, deployment_id: str, **cues: str) -> "subprocess.Popen[str]":
        """As the unit's ExecStart does."""
        output = (self.site.home.path / f"journal{len(self.started)}").open("w")
        with output:
            process = subprocess.Popen(
                [sys.executable, "-m", "holddown", "service", "run", deployment_id],
                env={**self.site.home.env, **QUICK, **self.env, "NOTIFY_SOCKET": self.address, **cues},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def settle(self, deployment_id: str, result: str) -> subprocess.CompletedProcess[str]:
        return self.site.run("service", "settle", deployment_id, env={**self.env, "SERVICE_RESULT": result})

    def journal(self) -> str:
        return Path(self.site.home.path / f"journal{len(self.started) - 1}").read_text()

    def hear(self) -> list[str]:
        """All assignments so far."""
        while True:
            try:
                self.heard += self.listening.recv(65536).decode().splitlines()
            except BlockingIOError:
                return self.heard

    def await_word(self, word: str) -> None:
        until(lambda: word in self.hear(), f"{word} in {self.heard}: {self.journal()}")

    def close(self) -> None:
        self.listening.close()
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()


@pytest.fixture
def site(home: Any, holddown: Any, fake_engine_added: str, tiny_checkpoint: Path) -> Site:
    return Site(home, holddown, tiny_checkpoint)


@pytest.fixture
def service(site: Site) -> Iterator[Service]:
    service = Service(site)
    yield service
    service.close()


def stopped(site: Site) -> str:
    """The id of a deployment that was released and is down."""
    found = site.released()
    site.down()
    return found.birth.id


# --- install and remove -----------------------------------------------------------------------------------------


def test_install_writes_and_enables_and_remove_undoes_it(service: Service) -> None:
    """With a systemd that answers; both again change nothing; the deployment that is up is left alone."""
    before = service.site.released()
    done = service.call("install", NAME)
    assert done.returncode == 0, done.stderr
    assert f"systemctl --user start {UNIT}" in done.stdout and "loginctl enable-linger" in done.stdout
    assert f"service run {before.birth.id}" in service.unit.read_text()
    assert service.asked() == ["--user daemon-reload", f"--user enable {UNIT}"]
    assert "is installed" in service.call("install", NAME).stdout
    assert service.site.record() == before

    service.record.unlink()
    removed = service.call("remove", NAME)
    assert removed.returncode == 0 and "removed" in removed.stdout, removed.stderr
    assert not service.unit.exists()
    assert service.asked()[:2] == [f"--user disable --now {UNIT}", "--user daemon-reload"]
    again = service.call("remove", NAME)
    assert again.returncode == 0 and "there is no service of m" in again.stdout


def test_without_systemd_the_unit_is_printed_with_what_to_do(service: Service) -> None:
    """Exit code 1, the unit alone on stdout, nothing written; `--print` is the same with 0. A unit of somebody else
    is no obstacle to printing."""
    stopped(service.site)
    service.systemd("offline")
    done = service.call("install", NAME)
    assert done.returncode == 1
    assert done.stdout.startswith("# Written by `holddown service install m`")
    assert "enable --now" in done.stderr
    assert not service.unit.exists() and service.asked() == []
    service.folder.mkdir(parents=True)
    service.unit.write_text("[Service]\nExecStart=/bin/true\n")
    printed = service.call("install", NAME, "--print")
    assert (printed.returncode, printed.stdout) == (0, done.stdout)
    system = service.call("install", NAME, "--print", "--system")
    assert system.returncode == 0 and not system.stderr and "\nUser=" in system.stdout
    for verb in ("install", "remove"):
        refused = service.call(verb, NAME)
        assert refused.returncode == 2 and "service.foreign-unit" in refused.stderr
    assert service.unit.read_text() == "[Service]\nExecStart=/bin/true\n"


def test_a_name_that_is_a_path_removes_nothing(service: Service) -> None:
    """It would name a file anywhere."""
    done = service.call("remove", "../../x")
    assert done.returncode == 2 and "usage.name" in done.stderr


def test_an_unknown_name_becomes_no_service(service: Service) -> None:
    """Exit code 2; what is on record but was never released is in the unit tests."""
    unknown = service.call("install", "nobody")
    assert unknown.returncode == 2 and "no deployment is called nobody" in unknown.stderr
    assert not service.folder.exists()


def test_the_unit_holds_no_secret(service: Service, tmp_path: Path) -> None:
    """The key is read from its file at each start; a variable that is secret by its name is left to a file."""
    key = tmp_path / "key"
    key.write_text("sk-very-secret\n")
    key.chmod(0o600)
    done = service.site.up("--api-key-file", str(key), HF_TOKEN="hf-very-secret")
    assert done.returncode == 0, done.stderr
    service.site.down()
    text = service.call("install", NAME, "--print").stdout
    assert "very-secret" not in text
    assert "EnvironmentFile=-" in text and "HF_TOKEN" in text
    key.unlink()
    gone = service.call("install", NAME)
    assert gone.returncode == 1 and "service.key-file" in gone.stderr and not service.unit.exists()


# --- what the unit runs -----------------------------------------------------------------------------------------


def test_ready_is_told_at_release_and_sigterm_ends_all(service: Service) -> None:
    """A fresh deployment by the recorded plan; READY not before it is released; SIGTERM leaves nothing."""
    pattern = stopped(service.site)
    process = service.run(pattern, FAKE_HANG_AT="weights")
    until(lambda: any("starting: weights" in word for word in service.hear()), "its phase is told")
    assert "READY=1" not in service.hear()
    assert any(word.startswith("EXTEND_TIMEOUT_USEC=") for word in service.heard)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0, service.journal()
    service.site.assert_nothing_is_left()

    process = service.run(pattern)
    service.await_word("READY=1")
    fresh = service.site.record()
    assert fresh.birth.id != pattern and fresh.status.state is State.RELEASED
    assert "NOTIFY_SOCKET" not in dict(fresh.birth.environment)
    assert service.site.get("/v1/models") == 200
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0, service.journal()
    words = [word for word in service.hear() if word in ("READY=1", "STOPPING=1")]
    assert words == ["STOPPING=1", "READY=1", "STOPPING=1"]
    assert service.site.record().status.state is State.STOPPED
    service.site.assert_nothing_is_left()


def test_a_failed_start_is_never_ready(service: Service) -> None:
    """Exit code 4, on which systemd tries again; nothing is left."""
    pattern = stopped(service.site)
    process = service.run(pattern, FAKE_CRASH_AT="kv-cache")
    assert process.wait(60) == 4, service.journal()
    assert "READY=1" not in service.hear()
    assert service.site.record().status.state is State.FAILED
    service.site.assert_nothing_is_left()


def test_after_a_crash_the_next_start_takes_the_engine_over(service: Service) -> None:
    """As systemd would restart it: the same engine, ready at once, no second one. An engine that fails is started again
    by its supervisor, without a word to systemd; then SIGTERM ends it."""
    pattern = stopped(service.site)
    process = service.run(pattern)
    service.await_word("READY=1")
    engine = service.site.record().status.engine
    kill(process.pid)
    process.wait()
    assert service.settle(pattern, "signal").returncode == 0
    assert service.site.get("/v1/models") == 200

    service.heard.clear()
    process = service.run(pattern)
    service.await_word("READY=1")
    after = service.site.record().status
    assert (after.engine, after.adopted, after.state) == (engine, True, State.RELEASED)

    assert engine is not None
    kill(engine.pid)
    until(lambda: service.site.record().status.starts == 2, "it is started again")
    again = service.site.await_state(State.RELEASED)
    assert again.status.supervisor == after.supervisor and again.birth.restart is Restart.ON_FAILURE
    assert [word for word in service.hear() if word in ("READY=1", "STOPPING=1")] == ["READY=1"]
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0, service.journal()
    service.site.assert_nothing_is_left()


def test_a_supervisor_killed_in_its_stop_leaves_no_engine(service: Service) -> None:
    """After the time limit of a stop systemd kills the supervisor, and what it runs then ends the engine."""
    pattern = stopped(service.site)
    process = service.run(pattern)
    service.await_word("READY=1")
    kill(process.pid)
    process.wait()
    done = service.settle(pattern, "timeout")
    assert done.returncode == 0 and "ending its engine" in done.stderr, done.stderr
    assert service.site.record().status.state is State.STOPPED
    service.site.assert_nothing_is_left()


def test_one_that_is_up_is_stood_by(service: Service) -> None:
    """`up` by hand, then the service: ready at once with the same engine; after its supervisor's death it is taken
    over; SIGTERM ends it."""
    found = service.site.released()
    process = service.run(found.birth.id)
    service.await_word("READY=1")
    assert service.site.record() == found
    assert found.status.supervisor is not None
    kill(found.status.supervisor.pid)
    until(lambda: service.site.record().status.supervisor != found.status.supervisor, "it is taken over")
    after = service.site.record().status
    assert after.engine == found.status.engine and after.supervisor is not None
    assert after.supervisor.pid == process.pid
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0, service.journal()
    service.site.assert_nothing_is_left()


def test_a_stop_while_standing_by_ends_it_as_well(service: Service) -> None:
    """Whoever supervises it is asked."""
    found = service.site.released()
    process = service.run(found.birth.id)
    service.await_word("READY=1")
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0, service.journal()
    assert service.site.record().status.state is State.STOPPED
    service.site.assert_nothing_is_left()


def test_another_checkpoint_at_that_path_is_not_started(service: Service) -> None:
    """What was verified is not what lies there: exit code 2, on which systemd does not try again."""
    pattern = stopped(service.site)
    config = service.site.checkpoint / "config.json"
    config.write_text(config.read_text().replace('"rms_norm_eps": 1e-05', '"rms_norm_eps": 1e-06'))
    process = service.run(pattern)
    assert process.wait(30) == 2 and "again.checkpoint-changed" in service.journal(), service.journal()
    assert service.site.record().birth.id == pattern


def test_a_port_in_use_is_said_and_tried_again(service: Service) -> None:
    """Exit code 4; nothing went on record, and no folder is left."""
    pattern = stopped(service.site)
    folders = sorted((service.site.database.parent / "deployments").iterdir())
    with socket.create_server(("127.0.0.1", service.site.port)):
        process = service.run(pattern)
        assert process.wait(30) == 4 and "port.taken" in service.journal(), service.journal()
    assert service.site.record().birth.id == pattern
    assert sorted((service.site.database.parent / "deployments").iterdir()) == folders


def test_a_deployment_of_before_a_reboot_is_marked_and_started_anew(service: Service) -> None:
    """The machine came up again, and the record still says released. `down` ends the service for good: exit code 0."""
    pattern = stopped(service.site)
    process = service.run(pattern)
    service.await_word("READY=1")
    before = service.site.record()
    kill(process.pid)
    process.wait()
    service.site.home.end_processes()
    service.site.doctor("birth", lambda birth: birth.update(boot_id="another"))
    for segment in service.site.home.segments():
        segment.unlink()
    service.heard.clear()
    process = service.run(pattern)
    service.await_word("READY=1")
    assert service.site.record().birth.id not in (pattern, before.birth.id)
    assert service.site.down().returncode == 0
    assert process.wait(30) == 0, service.journal()
