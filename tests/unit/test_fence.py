"""The fence stands."""

import socket
import subprocess
from pathlib import Path

import pytest


def test_the_fence_stops_files_processes_and_sockets() -> None:
    """A unit test cannot open a file, start a process or open a socket."""
    with pytest.raises(RuntimeError, match="fence"):
        Path("/etc/hostname").read_text()
    with pytest.raises(RuntimeError, match="fence"):
        subprocess.run(["true"], check=False)
    with pytest.raises(RuntimeError, match="fence"):
        socket.create_connection(("127.0.0.1", 9))
