"""The checks of `holddown up`, over HTTP, against an engine that is wrong in one way at a time."""

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holddown import wiring
from holddown.app.verify import verify
from holddown.edges.client.http import HttpClient
from holddown.verify.expect import checks
from holddown.verify.verdict import Outcome

FAKE_ENGINE = Path(__file__).resolve().parents[1] / "fake_engine"
PATIENCE_S = 10.0


@dataclass(frozen=True)
class Served:
    """All that `checks` reads of a plan."""

    served_model_name: str = "m"
    engine_kind: str = "vllm"


@pytest.fixture
def serve(home: Any, tiny_checkpoint: Path) -> Iterator[Callable[[str], HttpClient]]:
    """Starts the fake engine with one FAKE_ANSWER and gives a client of it once it is healthy."""
    started: list[subprocess.Popen[bytes]] = []
    clients: list[HttpClient] = []

    def go(answer: str) -> HttpClient:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(tiny_checkpoint)]
        env = {**home.env, "PYTHONPATH": str(FAKE_ENGINE), "FAKE_LOAD_SECONDS": "0.02", "FAKE_TOKEN_SECONDS": "0"}
        process = subprocess.Popen(
            [*command, "--served-model-name", "m", "--port", str(port)],
            env={**env, "FAKE_ANSWER": answer},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        started.append(process)
        client = HttpClient(f"http://127.0.0.1:{port}")
        clients.append(client)
        deadline = time.monotonic() + PATIENCE_S
        while not client.healthy():
            assert process.poll() is None, "the fake engine ended"
            assert time.monotonic() < deadline, "the fake engine is not up"
            time.sleep(0.02)
        return client

    yield go
    for client in clients:
        client.close()
    for process in started:
        process.terminate()
        process.wait(PATIENCE_S)


@pytest.mark.parametrize(
    ("answer", "failing"),
    [
        ("good", set()),
        ("gibberish", {"coherence"}),
        ("repeat", {"coherence"}),
        ("wrong-usage", {"usage", "max-tokens"}),
        ("ignore-stop", {"stop"}),
        ("ignore-max-tokens", {"max-tokens"}),
        ("any-model", {"wrong-model"}),
        ("stream-differs", {"streaming"}),
    ],
)
def test_each_fault_fails_its_check(
    serve: Callable[[str], HttpClient], tiny_checkpoint: Path, answer: str, failing: set[str]
) -> None:
    """An engine that is wrong in one way fails the check made for it and no other; a good one fails none."""
    model = wiring.checkpoints().inspect(str(tiny_checkpoint)).model
    verdicts = verify(serve(answer), checks(model, Served()), frozenset(), lambda verdict: None)
    assert {verdict.check for verdict in verdicts if verdict.outcome is Outcome.FAILED} == failing
