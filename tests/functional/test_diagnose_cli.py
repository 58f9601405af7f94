"""`holddown diagnose` as a person calls it: files, pipes, names, logs in all kinds of wrapping."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from functional.conftest import HolddownCommand, Home

CASCADE = """\
(APIServer pid=1) INFO 11-29 13:40:50 [api_server.py:1] vLLM API server version 0.32.0
(EngineCore pid=2) ERROR 11-29 13:41:38 [core.py:1510] Traceback (most recent call last):
(EngineCore pid=2) ERROR 11-29 13:41:38 [core.py:1510]   File "x.py", line 3, in boot
(EngineCore pid=2) ERROR 11-29 13:41:38 [core.py:1510] ValueError: {cause}
(APIServer pid=1) Traceback (most recent call last):
(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {{}}
"""
KNOWN = CASCADE.format(cause="Total number of attention heads (9) must be divisible by tensor parallel size (2).")
UNKNOWN = CASCADE.format(cause="the flux capacitor is empty")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "server.log"
    file.write_text(KNOWN)
    return file


def test_a_known_failure_has_cause_remedy_and_the_line(holddown: HolddownCommand, log: Path) -> None:
    """The options are the engine's own: it is nobody's deployment of ours."""
    done = holddown("diagnose", str(log))

    assert done.returncode == 0
    assert "heads-not-divisible: certain" in done.stdout
    assert "--tensor-parallel-size 1" in done.stdout
    assert "line 4: ValueError: Total number" in done.stdout
    assert "what failed first, in EngineCore pid=2 (lines 2 to 4)" in done.stdout


def test_an_unknown_failure_is_a_no_and_its_root_is_shown(holddown: HolddownCommand, log: Path) -> None:
    """Neither the wrapper nor a guess."""
    log.write_text(UNKNOWN)
    done = holddown("diagnose", str(log))

    assert done.returncode == 1
    assert "not known" in done.stdout
    assert "ValueError: the flux capacitor is empty" in done.stdout
    assert "See root cause above" not in done.stdout


def test_a_log_without_a_failure_is_a_yes(holddown: HolddownCommand, log: Path) -> None:
    """And its last lines are shown, for a reader who sees more."""
    log.write_text("(APIServer pid=1) INFO 11-29 13:40:50 [launcher.py:1] Application startup complete.\n")
    done = holddown("diagnose", str(log))

    assert done.returncode == 0
    assert "nothing in this log tells of a failure" in done.stdout
    assert "Application startup complete." in done.stdout


def test_json_is_one_document_with_the_root_always(holddown: HolddownCommand, log: Path) -> None:
    """`diagnosis` is null where it is not known."""
    known = json.loads(holddown("diagnose", "--json", str(log)).stdout)
    log.write_text(UNKNOWN)
    unknown = json.loads(holddown("diagnose", "--json", str(log)).stdout)

    assert known["diagnosis"]["id"] == "heads-not-divisible"
    assert known["diagnosis"]["edits"] == {"tensor-parallel-size": "1"}
    assert known["diagnosis"]["sure"] == "certain"
    assert [line["number"] for line in known["root"]] == [2, 3, 4]
    assert unknown["diagnosis"] is None
    assert unknown["root"][-1]["text"] == "ValueError: the flux capacitor is empty"


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda line: f"2026-11-29T12:00:00.123456789Z {line}",
        lambda line: f"vllm-1  | {line}",
        lambda line: f"Nov 29 13:41:38 big-box python3[4711]: {line}",
        lambda line: f"[pod/vllm-0/server] {line}",
        lambda line: f"2026-11-29T12:00:00.123456789Z stderr F {line}",
        lambda line: json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026-11-29T12:00:00Z"}),
        lambda line: f"\x1b[31m{line}\x1b[0m",
        lambda line: f"Loading shards: 10%|#\rLoading shards: 20%|##\r{line}",
    ],
    ids=["docker", "compose", "journalctl", "kubectl", "cri", "docker-json", "colours", "progress-bar"],
)
def test_what_a_runtime_puts_around_the_lines_does_not_matter(
    holddown: HolddownCommand, log: Path, wrapped: "object"
) -> None:
    """The same answer for each."""
    assert callable(wrapped)
    log.write_text("\n".join(wrapped(line) for line in KNOWN.splitlines()))
    done = holddown("diagnose", "--json", str(log))

    assert json.loads(done.stdout)["diagnosis"]["id"] == "heads-not-divisible"


def test_a_pipe_and_a_packed_file(holddown: HolddownCommand, home: Home, log: Path) -> None:
    """`docker logs x 2>&1 | holddown diagnose -`, and what logrotate left."""
    packed = log.with_suffix(".gz")
    packed.write_bytes(gzip.compress(KNOWN.encode()))
    command = [sys.executable, "-m", "holddown", "diagnose", "-"]
    piped = subprocess.run(command, input=KNOWN, env=home.env, capture_output=True, text=True, check=False)

    assert "heads-not-divisible" in piped.stdout
    assert "heads-not-divisible" in holddown("diagnose", str(packed)).stdout


def test_an_exit_by_signal_is_explained_where_the_log_is_silent(holddown: HolddownCommand, log: Path) -> None:
    """132 is a shell's word for SIGILL."""
    log.write_text("(APIServer pid=1) INFO 11-29 13:40:50 [x.py:1] Starting to load model\n")

    assert "illegal instruction" in holddown("diagnose", "--exit", "132", str(log)).stdout
    assert "bus error" in holddown("diagnose", "--exit", "-7", str(log)).stdout


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("no-such-thing",), "usage.log"),
        (("/",), "usage.log"),
        (("--engine", "tensorrt", "-"), "usage.engine"),
    ],
)
def test_what_cannot_be_read_is_said(holddown: HolddownCommand, args: tuple[str, ...], code: str) -> None:
    """With what to do."""
    done = holddown("diagnose", *args)

    assert done.returncode == 2
    assert f"error[{code}]" in done.stderr


@pytest.mark.parametrize(
    "data", [b"", b"\n\n", b"\x00\xff" * 5000, b"x" * 3_000_000, b"Traceback (most recent call last):"]
)
def test_any_bytes_are_a_log(holddown: HolddownCommand, log: Path, data: bytes) -> None:
    """Nothing in them is known, and nothing crashes."""
    log.write_bytes(data)

    assert holddown("diagnose", str(log)).returncode in (0, 1)
