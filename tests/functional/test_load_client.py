"""The load client's processes against a server that lies, and against one on a known schedule."""

import os
import shutil
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from functional.lying_server import LIES, TOKENS, LyingServer
from holddown.base.evidence import Known
from holddown.edges.load.generator import LoadProcesses
from holddown.measure.drive import Drive, Driven, Language, Pulse, Shot
from holddown.measure.pauses import ordered
from holddown.measure.shapes import Shape
from holddown.measure.words import COMMON, NEEDED

LANGUAGE = Language(COMMON[:NEEDED], 6, 1.0, chat=True, exact=True)
FAULTS = {
    "cut": "the stream was cut after 1 deltas",
    "stall": "silent for 2 s after 1 deltas",
    "error-event": "the stream reports an error",
    "refusal": "HTTP 503",
    "no-usage": "the stream brought no usage",
    "garbage": "this is not HTTP",
}


@pytest.fixture(scope="module")
def liar() -> Iterator[LyingServer]:
    server = LyingServer()
    yield server
    server.close()


def drive(model: str = "honest", users: int = 2, requests: int = 4, **more: object) -> Drive:
    given: dict[str, object] = {"seconds": 0.0, "patience_s": 30.0, "shots": (), "processes": 1, **more}
    return Drive(model, LANGUAGE, Shape("16:4", 16, TOKENS), 0, True, users, requests, first_session=0, **given)  # type: ignore[arg-type]


def driven(server: LyingServer, order: Drive) -> Driven:
    return LoadProcesses(server.url).drive(order, lambda pulse: None)


@pytest.mark.parametrize("model", sorted(set(LIES) - set(FAULTS)))
def test_an_answer_that_is_whole_is_measured(liar: LyingServer, model: str) -> None:
    """However its body is framed, and however many tokens come at a time."""
    found = driven(liar, drive(model))
    assert [trace.fault for trace in found.traces] == [""] * 4
    for trace in found.traces:
        assert trace.first_s is not None
        assert trace.due_s <= trace.sent_s <= trace.first_s <= trace.ended_s
        assert (trace.input_tokens, trace.output_tokens) == (7, TOKENS + (model == "usage-off-by-one"))
    assert found.cut == ""


def test_two_tokens_in_a_chunk_are_two_tokens(liar: LyingServer) -> None:
    """Their pause is shared between them: 20 ms for two are 10 ms each."""
    found = driven(liar, drive("two-tokens-a-chunk", users=1, requests=2))
    assert [(trace.deltas, trace.output_tokens) for trace in found.traces] == [(2, 4), (2, 4)]
    gaps = [(trace.ended_s - (trace.first_s or 0)) * 1000 for trace in found.traces]
    assert found.pauses.count == 2
    assert all(2 * pause <= max(gaps) + 0.001 for pause in ordered(found.pauses))


@pytest.mark.parametrize(("model", "fault"), FAULTS.items())
def test_each_lie_is_a_fault_of_its_request(liar: LyingServer, model: str, fault: str) -> None:
    """No lie stops the run, and none gives a figure."""
    found = driven(liar, drive(model, users=2, requests=2, patience_s=2.0))
    assert len(found.traces) == 2
    assert all(trace.fault.startswith(fault) for trace in found.traces), found.traces
    assert found.pauses.count == 0


def test_a_server_that_fails_everything_is_left_alone(liar: LyingServer) -> None:
    """After twenty failures nothing more is sent to it, and the run says why it ended."""
    found = driven(liar, drive("refusal", users=10, requests=1000))
    assert len(found.traces) < 50
    assert "the first 20 requests failed" in found.cut


def test_nobody_is_there() -> None:
    """A fault with words, and no exception."""
    server = LyingServer()
    server.close()
    found = driven(server, drive())
    assert all("no connection" in trace.fault for trace in found.traces)


def test_connections_are_opened_before_and_kept(liar: LyingServer) -> None:
    """As many as users, for any number of requests."""
    before = liar.connections
    driven(liar, drive(users=3, requests=12))
    # one more is the trial which of the host's addresses answers
    assert liar.connections - before == 4


def test_an_open_loop_keeps_its_times(liar: LyingServer) -> None:
    """Requests count from when they were due, and several are under way at once."""
    shots = tuple(Shot(number, 0, 16, TOKENS, number * 0.02) for number in range(10))
    found = driven(liar, drive(users=0, requests=0, seconds=0.2, shots=shots))
    assert [round(trace.due_s, 3) for trace in found.traces] == [shot.due_s for shot in shots]
    assert not any(trace.fault for trace in found.traces)
    assert found.held_s == 0.2


def test_several_processes_share_the_users(liar: LyingServer) -> None:
    """None is asked twice, and no request is lost."""
    found = driven(liar, drive(users=4, requests=9, processes=3))
    assert len(found.traces) == 9 and found.client.processes == 3


def test_ctrl_c_keeps_what_was_measured(liar: LyingServer) -> None:
    """The run ends soon, with the requests that were answered."""
    beats: list[Pulse] = []

    def pulse(beat: Pulse) -> None:
        beats.append(beat)
        if beat.done >= 3 and len(beats) < 1000:
            beats.extend([beat] * 1000)
            os.kill(os.getpid(), signal.SIGINT)

    found = LoadProcesses(liar.url).drive(drive(requests=0, seconds=60.0), pulse)
    assert found.cut == "stopped by Ctrl-C"
    assert len(found.traces) >= 3 and not any(trace.fault for trace in found.traces)
    assert found.held_s < 30


def test_https(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a certificate that the system's trust holds; without that, a fault that says so."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl program to make a certificate with")
    words = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    files = ["-keyout", str(tmp_path / "key"), "-out", str(tmp_path / "cert")]
    subprocess.run([openssl, *words.split(), *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    server = LyingServer(context)
    distrusted = driven(server, drive(requests=2))
    assert all("certificate" in trace.fault for trace in distrusted.traces), distrusted.traces
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert"))
    trusted = driven(server, drive())
    server.close()
    assert [trace.fault for trace in trusted.traces] == [""] * 4


def test_it_knows_what_it_can_do() -> None:
    """Calibrated against a server that does nothing; some thousands of events a second on any machine."""
    capacity = LoadProcesses("http://127.0.0.1:1").capacity()
    assert isinstance(capacity, Known) and capacity.value > 1000


def test_it_ends_with_the_program_that_started_it(liar: LyingServer) -> None:
    """A process whose stdin is closed stops, whatever was ordered."""
    code = (
        "import sys; from functional.test_load_client import *; from holddown.edges.load.generator import _Process;"
        "p = _Process(0, 1, sys.argv[1], '', drive(requests=0, seconds=600.0)); p.hear(); p.go(0.0); p.hear();"
        "print(p._process.pid, flush=True); import os; os._exit(0)"
    )
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code, liar.url], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    pid = int(done.stdout)
    ended = threading.Event()
    for _ in range(100):
        if (
            not Path(f"/proc/{pid}").exists()
            or Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        ):
            return
        ended.wait(0.1)
    pytest.fail(f"process {pid} of the load client goes on: {done.stderr}")
