"""The whole suite of `verify` against the fake engine: each lie fails the check that is there for it, and no other."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fakes.clock import FakeClock
from fakes.store import FakeStore
from functional.conftest import HolddownCommand, write_checkpoint
from functional.deployed import free_port
from holddown.app.target import Doors as TargetDoors
from holddown.app.target import target
from holddown.app.verify_target import Doors, Wanted, verify_target
from holddown.edges.client.http import HttpClient
from holddown.verify import quality
from holddown.verify.suite import NAMES
from holddown.verify.verdict import Outcome, Verdict

FAKE_ENGINE = Path(__file__).resolve().parents[1] / "fake_engine"
PATIENCE_S = 20.0
LIES = {
    "usage-off-by-one": "usage",
    "seed-ignored": "seed",
    "n-ignored": "n",
    "logprobs-shifted": "logprobs",
    "schema-ignored": "json-schema",
    "tool-as-text": "tool-call",
    "broken-arguments": "tool-call",
    "tool-choice-ignored": "tool-choice",
    "merged-calls": "tool-parallel",
    "tool-deltas-differ": "tool-stream",
    "crowd-mixes": "tool-crowd",
    "reasoning-in-content": "reasoning",
    "thinking-given-out": "reasoning",
    "budget-ignored": "reasoning-budget",
    "budget-no-answer": "reasoning-budget",
    "budget-leaks": "reasoning-budget",
    "blind": "images",
    "no-prefix-cache": "prefix-cache",
    "cuts-silently": "over-long",
    "needle-lost": "needle",
    "degenerates": "degeneration",
    "cancel-holds": "cancellation",
    "500-on-malformed": "malformed",
}
DEADLY = "dies-at-malformed"
MOVED = "thinks-otherwise"
_OF_REASONING = {"reasoning", "reasoning-budget"}


class BriskClock(FakeClock):
    """A second of waiting takes a tenth: ten seconds for a slot that is never freed are too long."""

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds / 10)


@contextmanager
def serving(folder: Path, *names: str) -> Iterator[str]:
    """The base URL of a fake engine that answers to these names, and lies as they say."""
    port = free_port()
    # a short context: what is asked of the whole of it takes a quarter of the time
    words = [
        "--model",
        str(folder / "m"),
        "--port",
        str(port),
        "--max-model-len",
        "1024",
        "--served-model-name",
        *names,
    ]
    (folder / "m").mkdir()
    write_checkpoint(folder / "m")
    cues = {"FAKE_LIES": "by-name", "FAKE_TOKEN_SECONDS": "0.0001", "FAKE_LOAD_SECONDS": "0", "TMPDIR": str(folder)}
    engine = subprocess.Popen(
        [sys.executable, "-m", "vllm.entrypoints.openai.api_server", *words],
        env={**os.environ, **cues, "PYTHONPATH": str(FAKE_ENGINE)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        url = f"http://127.0.0.1:{port}"
        client, deadline = HttpClient(url), time.monotonic() + PATIENCE_S
        while not client.healthy():
            assert engine.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
        client.close()
        yield url
    finally:
        if engine.poll() is None:
            os.kill(engine.pid, signal.SIGTERM)
        engine.wait(PATIENCE_S)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """One server for all that it outlives."""
    with (
        tempfile.TemporaryDirectory(prefix="hd", dir="/tmp") as folder,
        serving(Path(folder), "honest", "thinks", MOVED, *LIES) as url,
    ):
        yield url


def verdicts(url: str, model: str, wanted: Wanted = Wanted(intrusive=True)) -> dict[str, Verdict]:
    clients: list[HttpClient] = []

    def client(base_url: str, key: str) -> HttpClient:
        clients.append(HttpClient(base_url, key, timeout_s=PATIENCE_S))
        return clients[-1]

    def nobody(name: str) -> object:
        raise AssertionError(name)

    asked = target(url, model, "", TargetDoors(nobody, client, nobody))  # type: ignore[arg-type]
    run = verify_target(asked, wanted, Doors(FakeStore(), BriskClock(), lambda: "0123abcd"), lambda verdict: None)
    clients[0].close()
    return {verdict.check: verdict for verdict in run.verdicts}


def of(given: dict[str, Verdict], outcome: Outcome) -> set[str]:
    return {name for name, verdict in given.items() if verdict.outcome is outcome}


def test_an_honest_server_passes_all_that_it_claims(url: str) -> None:
    """Nothing fails, nothing is left unclear; a model that does not think is not asked to."""
    given = verdicts(url, "honest")
    assert (*given, quality.NAME) == NAMES
    assert of(given, Outcome.NOT_APPLICABLE) == _OF_REASONING
    assert of(given, Outcome.PASSED) == set(NAMES) - _OF_REASONING - {quality.NAME}


def test_a_model_that_thinks_passes_these_too(url: str) -> None:
    """Its thinking comes apart, whole and cut; it ends where it is told to."""
    wanted = Wanted(frozenset(_OF_REASONING))
    assert of(verdicts(url, "thinks", wanted), Outcome.PASSED) == _OF_REASONING


@pytest.mark.parametrize(("lie", "check"), LIES.items())
def test_each_lie_fails_its_check_alone(url: str, lie: str, check: str) -> None:
    """With what was seen and a remedy. The 200 malformed requests, half of the time, are only sent to the one that lies
    about them."""
    skip = frozenset({"malformed"} - {check})
    given = verdicts(url, lie, Wanted(skip=skip, intrusive=True))
    assert of(given, Outcome.FAILED) == {check}, [given[name] for name in of(given, Outcome.FAILED)]
    (finding,) = given[check].findings
    assert finding.seen and finding.do


def test_a_server_that_dies_of_a_malformed_request() -> None:
    """It is said so, and the check is the last that is run."""
    with tempfile.TemporaryDirectory(prefix="hd", dir="/tmp") as folder, serving(Path(folder), DEADLY) as url:
        given = verdicts(url, DEADLY, Wanted(frozenset({"malformed"}), intrusive=True))
    assert given["malformed"].findings[0].code == "malformed.died"


def test_the_command_says_what_failed_and_keeps_it(url: str, holddown: HolddownCommand) -> None:
    """Exit 1 with what was asked, seen and to be done; the verdicts come as they are given, in the suite's order."""
    done = holddown("verify", url, "--model", "schema-ignored", "--check", "json-schema", "--check", "n")
    assert done.returncode == 1
    assert [line.split(":")[0] for line in done.stderr.splitlines()] == ["ok      n", "FAILED  json-schema"]
    assert "FAILED json-schema: the answer does not fit" in done.stdout
    assert all(f"  {word}" in done.stdout for word in ("asked:", "seen:", "cause:", "do:", "record"))
    whole = json.loads(holddown("verify", url, "--model", "honest", "--check", "n", "--json").stdout)
    assert [verdict["outcome"] for verdict in whole["verdicts"]] == ["passed"]


def test_a_model_that_moved_is_found_by_its_reference(url: str, holddown: HolddownCommand, tmp_path: Path) -> None:
    """Kept in a file; against it the same passes and another fails. A URL does as well, and a run's id."""
    kept = str(tmp_path / "good.json")
    words = ("verify", url, "--check", "quality", "--model")
    saved = holddown(*words, "honest", "--save-reference", kept)
    assert saved.returncode == 0, saved.stderr
    run = saved.stdout.split()[-1]
    for good in (kept, run):
        assert holddown(*words, "honest", "--against", good).returncode == 0
    moved = holddown(*words, MOVED, "--against", kept)
    assert moved.returncode == 1 and "FAILED quality" in moved.stdout and "became" in moved.stdout


def test_words_that_cannot_be_followed(url: str, holddown: HolddownCommand, tmp_path: Path) -> None:
    """A comparison with nothing, with what is not there, and with a file that is none."""
    (tmp_path / "none.json").write_text('{"subject": 7}')
    for words in (
        ("--check", "quality"),
        ("--against", "nobody"),
        ("--against", str(tmp_path / "none.json")),
        ("--check", "no-such-check"),
    ):
        done = holddown("verify", url, "--model", "honest", *words)
        assert done.returncode == 2 and ("error[usage.against]" in done.stderr or "Error" in done.stderr), done.stderr


def test_a_deployment_of_ours_is_asked_what_its_record_claims(
    holddown: HolddownCommand, fake_engine_added: str, tiny_checkpoint: Path
) -> None:
    """By its name: started without a tool parser it claims no tools; what loads a server is asked of it."""
    port, quick = str(free_port()), {"FAKE_TOKEN_SECONDS": "0"}
    up = holddown("up", str(tiny_checkpoint), "--name", "m", "--port", port, env=quick)
    assert up.returncode == 0, up.stderr
    done = holddown("verify", "m", "--check", "tool-call", "--check", "cancellation", "--json")
    verdicts = {verdict["check"]: verdict["outcome"] for verdict in json.loads(done.stdout)["verdicts"]}
    assert (done.returncode, verdicts) == (0, {"tool-call": "not applicable", "cancellation": "passed"})
    assert holddown("down", "m").returncode == 0
    gone = holddown("verify", "m")
    assert gone.returncode == 2 and "error[target.not-up]" in gone.stderr
