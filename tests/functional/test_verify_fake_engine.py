"""verify and measure against the fake engine: each wrong answer is found by the check that is there for it."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from fakes.diagnosis import root_cause
from holddown.app.measure import measure
from holddown.app.verify import verify
from holddown.base.evidence import from_file
from holddown.edges.client.http import HttpClient
from holddown.facts.answers import Ask, Message
from holddown.verify import expect
from holddown.verify.expect import CHECK_NAMES
from holddown.verify.verdict import Outcome, Verdict

FAKE_ENGINE = Path(__file__).resolve().parents[1] / "fake_engine"
PATIENCE_S = 20.0
_QUESTION = Ask(model="m", messages=(Message("user", "Why do people sleep at night?"),), max_tokens=20, logprobs=5)
_SHORT = Ask(model="m", messages=_QUESTION.messages, max_tokens=3)
_NEXT = Ask(model="m", prompt="The capital of France is", max_tokens=1, logprobs=5)
_SENTENCES = tuple(Ask(model="m", prompt=text, max_tokens=1, logprobs=1, echo=True) for text in expect.SENTENCES)
CHECKS: tuple[expect.Check, ...] = (
    expect.FirstToken(_NEXT),
    expect.Coherence(_NEXT, _SENTENCES, (_QUESTION,), from_file(49_152, "a usual vocabulary")),
    expect.Streaming(_QUESTION),
    expect.UsageCounts(_QUESTION),
    expect.StopSequence(_QUESTION),
    expect.MaxTokens(_SHORT),
    expect.WrongModel(Ask(model="another", prompt="x", max_tokens=1)),
)


class Home(Protocol):
    """The part of the fixture `home` that is used here."""

    @property
    def env(self) -> dict[str, str]: ...


Served = Callable[..., tuple[HttpClient, "subprocess.Popen[bytes]", Path]]


@pytest.fixture
def served(home: Home, tiny_checkpoint: Path, tmp_path: Path) -> Iterator[Served]:
    """Starts a fake engine with cues, and gives a client once it is healthy."""
    started: list[tuple[subprocess.Popen[bytes], HttpClient]] = []

    def start(**cues: str) -> tuple[HttpClient, "subprocess.Popen[bytes]", Path]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        log = tmp_path / "engine.log"
        options = ["--model", str(tiny_checkpoint), "--served-model-name", "m", "--port", str(port)]
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "vllm.entrypoints.openai.api_server", *options],
                env={**home.env, "PYTHONPATH": str(FAKE_ENGINE), **cues},
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        client = HttpClient(f"http://127.0.0.1:{port}", timeout_s=PATIENCE_S)
        started.append((process, client))
        deadline = time.monotonic() + PATIENCE_S
        while not client.healthy():
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        return client, process, log

    yield start
    for process, client in started:
        client.close()
        if process.poll() is None:
            os.kill(process.pid, signal.SIGTERM)
        process.wait(PATIENCE_S)


def verdicts_of(client: HttpClient) -> dict[str, Verdict]:
    return {verdict.check: verdict for verdict in verify(client, CHECKS, frozenset(), lambda verdict: None)}


def failed(verdicts: dict[str, Verdict]) -> set[str]:
    return {check for check, verdict in verdicts.items() if verdict.outcome is Outcome.FAILED}


def test_a_good_engine_passes_every_check(served: Served) -> None:
    """Nothing fails and nothing is left out."""
    verdicts = verdicts_of(served()[0])
    assert {check: verdict.outcome for check, verdict in verdicts.items()} == dict.fromkeys(CHECK_NAMES, Outcome.PASSED)


@pytest.mark.parametrize(
    ("answer", "check"),
    [
        ("gibberish", "coherence"),
        ("repeat", "coherence"),
        ("wrong-usage", "usage"),
        ("ignore-stop", "stop"),
        ("ignore-max-tokens", "max-tokens"),
        ("any-model", "wrong-model"),
        ("stream-differs", "streaming"),
    ],
)
def test_each_wrong_answer_fails_the_check_that_is_there_for_it(served: Served, answer: str, check: str) -> None:
    """And the finding says what was seen."""
    verdicts = verdicts_of(served(FAKE_ANSWER=answer)[0])
    assert check in failed(verdicts)
    assert verdicts[check].findings[0].blocks
    assert verdicts[check].findings[0].seen


def test_healthy_and_dead_at_the_first_request(served: Served) -> None:
    """Nothing more is asked, and the log names the cause that the worker gave."""
    words = "RuntimeError: expected scalar type BFloat16 but found Float8_e4m3fn"
    client, process, log = served(FAKE_CRASH_AT="first-request", FAKE_CRASH_MESSAGE=words)
    verdicts = verdicts_of(client)
    assert failed(verdicts) == {"first-token"}
    assert {verdict.outcome for check, verdict in verdicts.items() if check != "first-token"} == {Outcome.SKIPPED}
    exit_code = process.wait(PATIENCE_S)
    assert root_cause(log.read_text().splitlines(), exit_code).code == "engine.kv-cache-dtype"


def test_measured_at_both_concurrencies(served: Served) -> None:
    """Every request of a sound engine counts, alone and eight at once."""
    result = measure(served(FAKE_TOKEN_SECONDS="0.002")[0], "m", lambda line: None, budget_s=1.0)
    assert result.findings == ()
    assert {one.concurrency for one in result.measurements if one.metric == "output_throughput"} == {1, 8}
