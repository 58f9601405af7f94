"""The real machine: what must hold on any Linux."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holddown.base.evidence import Known
from holddown.edges.hosts.local import LocalHost
from holddown.facts.listeners import ADDRESS_NOT_HERE, HOST_NOT_KNOWN


@pytest.fixture
def host() -> LocalHost:
    return LocalHost()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.socket() as server:
        # as servers do; a connection in TIME_WAIT inherits it
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server


def port_of(server: socket.socket) -> int:
    port: int = server.getsockname()[1]
    return port


def test_facts_hold_together(host: LocalHost, tmp_path: Path) -> None:
    """Available is within the limit, the limit within the machine, CPUs within the logical ones."""
    facts = host.facts([str(tmp_path / "not" / "there")])
    assert 0 < facts.memory.available_bytes <= facts.memory.limit_bytes <= facts.memory.total_bytes
    assert 0 < facts.cpu.usable <= facts.cpu.logical
    assert facts.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert facts.disks[0].path == "/"
    assert facts.gpus or facts.gpus_because


def test_a_process_knows_itself(host: LocalHost) -> None:
    """Our own process: parent, session, directory, title."""
    facts = host.process(os.getpid())
    assert facts is not None
    assert (facts.parent, facts.session) == (os.getppid(), os.getsid(0))
    assert facts.rss_bytes > 1_000_000
    assert isinstance(facts.cwd, Known)
    assert facts.cwd.value == os.getcwd()  # noqa: PTH109 - the kernel's word against Python's
    assert any(one.pid == os.getpid() and one.started_at == facts.started_at for one in host.processes())


def test_a_process_that_ended_is_none(host: LocalHost) -> None:
    """A pid that nobody has any more is None, not an error."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert host.process(child.pid) is None


def test_a_name_with_parentheses_is_read(host: LocalHost, tmp_path: Path) -> None:
    """A program may be called `a) S 1 (b`; its fields are right all the same."""
    program = tmp_path / "a) S 1 (b"
    program.symlink_to("/bin/sleep")
    child = subprocess.Popen([str(program), "60"])
    try:
        facts = host.process(child.pid)
        assert facts is not None
        assert facts.parent == os.getpid()
    finally:
        child.kill()
        child.wait()


def test_a_free_port_has_no_holder(host: LocalHost, listener: socket.socket) -> None:
    """None, and the question leaves the port free."""
    port = port_of(listener)
    listener.close()
    assert host.port_holder("127.0.0.1", port) is None
    assert host.port_holder("127.0.0.1", port) is None


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "localhost"])
def test_a_taken_port_names_the_process(host: LocalHost, listener: socket.socket, address: str) -> None:
    """pid, user and command of the listener, on its address and on the wildcard."""
    holder = host.port_holder(address, port_of(listener))
    assert holder is not None
    assert holder.startswith(f"pid {os.getpid()} of ")


def test_time_wait_is_no_holder(host: LocalHost, listener: socket.socket) -> None:
    """The server closed its side first, so its port lingers in TIME_WAIT: a new server may bind it."""
    port = port_of(listener)
    client = socket.create_connection(("127.0.0.1", port))
    accepted, _ = listener.accept()
    accepted.close()
    client.recv(1)
    client.close()
    listener.close()
    assert f":{port:04X}" in Path("/proc/net/tcp").read_text()
    assert host.port_holder("127.0.0.1", port) is None


def test_an_address_of_another_machine_is_told_apart(host: LocalHost) -> None:
    """192.0.2.0/24 is kept for documentation: nobody has it. Neither has anybody a name under .invalid."""
    assert host.port_holder("192.0.2.7", 8000) == ADDRESS_NOT_HERE
    assert host.port_holder("nowhere.invalid", 8000) == HOST_NOT_KNOWN


@pytest.mark.parametrize(
    ("name", "holder"),
    [
        ("fe80::1", ADDRESS_NOT_HERE),
        ("ff02::1", ADDRESS_NOT_HERE),
        ("a" * 70, HOST_NOT_KNOWN),
        ("a..b", HOST_NOT_KNOWN),
    ],
)
def test_an_address_that_cannot_be_bound_is_no_exception(host: LocalHost, name: str, holder: str) -> None:
    """A link-local address without its interface, a group of receivers, and what is no name."""
    assert host.port_holder(name, 8000) == holder
