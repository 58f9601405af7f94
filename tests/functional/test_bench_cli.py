"""`holddown bench` against a server on a known schedule, and against one that lies."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from functional.conftest import HolddownCommand, Home
from functional.deployed import NAME, QUICK, Site
from functional.lying_server import LyingServer
from holddown.base.codec import load
from holddown.edges.store import SqliteStore
from holddown.measure.run import Closed, Open
from holddown.measure.why import value
from holddown.remember.run import BenchRun

SERVER = Path(__file__).resolve().parents[2] / "bench" / "scheduled_server.py"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """First token after 30 ms, another each 5 ms."""
    words = [sys.executable, str(SERVER), "--ttft-ms", "30", "--itl-ms", "5"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.terminate()


@pytest.fixture(scope="module")
def liar() -> Iterator[LyingServer]:
    server = LyingServer()
    yield server
    server.close()


def runs(home: Home, url: str) -> tuple[BenchRun, ...]:
    found = SqliteStore(home.path / "state" / "holddown" / "records.sqlite").runs(url)
    return tuple(run for run in found if isinstance(run, BenchRun))


def test_users_one_after_the_other(holddown: HolddownCommand, home: Home, url: str, tmp_path: Path) -> None:
    """A table on stdout, lines on stderr, a record in the store, a row per figure in the file."""
    table = tmp_path / "figures.csv"
    words = ["--concurrency", "1,4", "--requests", "8", "--workload", "64:16", "--csv", str(table)]
    done = holddown("bench", url, *words)
    # a client on a busy machine may say that it is the limit, which is 1
    assert done.returncode in (0, 1), done.stderr
    assert "LOAD" in done.stdout and "4 users" in done.stdout and "client:" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 110
    assert "warming up" in done.stderr
    (run,) = runs(home, url)
    assert run.id in done.stdout
    assert [phase.arrival for phase in run.phases] == [Closed(1), Closed(4)]
    for phase in run.phases:
        assert [trace.fault for trace in phase.traces] == [""] * 8
        assert {(trace.input_tokens, trace.output_tokens) for trace in phase.traces} == {(64, 16)}
        ttft, itl = value(phase.figures, "ttft", 50), value(phase.figures, "itl", 50)
        assert ttft is not None and ttft >= 30
        assert itl is not None and itl > 2
    rows = [*csv.DictReader(table.read_text().splitlines())]
    assert {row["metric"] for row in rows} >= {"ttft", "itl", "tpot", "e2e", "output_throughput", "user_speed"}
    assert len(rows) == sum(len(phase.figures) for phase in run.phases)


def test_a_deployment_by_its_name(
    holddown: HolddownCommand, home: Home, fake_engine_added: str, tiny_checkpoint: Path
) -> None:
    """Its record is found by the deployment's id, and its engine's own counters are read beside."""
    site = Site(home, holddown, tiny_checkpoint)
    deployment = site.released()
    words = ["--concurrency", "2", "--requests", "6", "--workload", "64:16", "--json"]
    done = site.run("bench", NAME, *words, env=QUICK)
    assert done.returncode in (0, 1), done.stderr
    (run,) = runs(site.home, deployment.birth.id)
    assert (run.subject.name, run.subject.deployment) == (NAME, deployment.birth.id)
    assert {(one.input_tokens, one.output_tokens, one.fault) for one in run.phases[0].traces} == {(64, 16, "")}
    assert not any("ignore_eos" in note for note in run.notes)
    site.down()


def test_rates_as_json(holddown: HolddownCommand, url: str) -> None:
    """An open loop; what is printed can be read back."""
    done = holddown(
        "bench", url, "--rate", "10", "--spacing", "constant", "--duration", "1", "--workload", "32:4", "--json"
    )
    (run,) = (load(BenchRun, each) for each in json.loads(done.stdout))
    (phase,) = run.phases
    assert isinstance(phase.arrival, Open) and len(phase.traces) == 10
    assert [round(trace.due_s, 6) for trace in phase.traces] == [round(number / 10, 6) for number in range(10)]


def test_a_recorded_trace(holddown: HolddownCommand, home: Home, url: str, tmp_path: Path) -> None:
    """Each request with its own time and lengths."""
    trace = tmp_path / "trace.jsonl"
    lines = [{"timestamp": at * 100, "input_length": 20 + at, "output_length": 2 + at} for at in range(4)]
    trace.write_text("\n".join(map(json.dumps, lines)))
    done = holddown("bench", url, "--trace", str(trace))
    assert done.returncode in (0, 1), done.stderr
    (phase,) = runs(home, url)[0].phases
    assert [(one.input_tokens, one.output_tokens) for one in phase.traces] == [(20 + at, 2 + at) for at in range(4)]


def test_two_servers_by_turns(holddown: HolddownCommand, url: str) -> None:
    """A record each, and each load twice."""
    words = ["--against", url, "--concurrency", "2", "--requests", "4", "--workload", "16:2"]
    done = holddown("bench", url, *words, "--json")
    first, second = json.loads(done.stdout)
    assert first["id"] != second["id"]
    assert len(first["phases"]) == len(second["phases"]) == 2


def test_ctrl_c_keeps_what_was_measured(home: Home, url: str) -> None:
    """Exit code 130, a table of what there is, a record that says it was cut short; nothing goes on running."""
    words = ["bench", url, "--concurrency", "2", "--duration", "600", "--workload", "16:4"]
    httpx.get(f"{url}/stamps")  # forgets the answers to other tests
    with subprocess.Popen(
        [sys.executable, "-m", "holddown", *words],
        env=home.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as process:
        # two answers are the warm-up's
        answered = 0
        while answered < 5:
            answered += len(httpx.get(f"{url}/stamps").json())
            time.sleep(0.1)
        # as a terminal does: to every process of the group
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert "CUT SHORT" in out
    (run,) = runs(home, url)
    assert run.cut == "stopped by Ctrl-C" and run.id in out
    assert home.processes() == []


def test_requests_that_fail_are_told(holddown: HolddownCommand, liar: LyingServer) -> None:
    """A server that answers its warm-up with an error cannot be measured; its words are in the error."""
    done = holddown(
        "bench", liar.url, "--model", "error-event", "--concurrency", "1", "--requests", "2", "--workload", "16:4"
    )
    assert done.returncode == 3
    assert "CUDA out of memory" in done.stderr


def test_answers_that_end_early_are_told(holddown: HolddownCommand, liar: LyingServer) -> None:
    """This server gives four tokens to whoever asks for eight, and has no tokenizer endpoint: both are said."""
    done = holddown(
        "bench", liar.url, "--model", "honest", "--concurrency", "2", "--requests", "4", "--workload", "16:8"
    )
    assert done.returncode in (0, 1), done.stderr
    assert "ignore_eos" in done.stdout and "no tokenizer endpoint" in done.stdout


def test_what_another_client_measured(holddown: HolddownCommand, home: Home, tmp_path: Path) -> None:
    """Becomes a record with its source, of a server that need not be up."""
    theirs = {
        "date": "20261130-015754", "model_id": "m", "num_prompts": 2, "request_rate": "inf", "max_concurrency": 4,
        "duration": 2.0, "completed": 2, "total_input_tokens": 128, "total_output_tokens": 64,
        "output_throughput": 32.0, "median_ttft_ms": 57.0, "p95_ttft_ms": 66.0,
    }  # fmt: skip
    (tmp_path / "their.json").write_text(json.dumps(theirs))
    done = holddown("bench", "http://10.0.0.1:8000/v1", "--import", str(tmp_path / "their.json"))
    assert done.returncode == 0, done.stderr
    (run,) = runs(home, "http://10.0.0.1:8000")
    assert run.source.endswith("their.json") and "their.json" in done.stdout and "57" in done.stdout


@pytest.mark.parametrize(
    ("words", "seen"),
    [
        ([], "TARGET"),
        (["URL", "--concurrency", "1,x"], "whole numbers"),
        (["URL", "--concurrency", "0"], "above zero"),
        (["URL", "--rate", "nan"], "numbers above zero"),
        (["URL", "--rate", "900000"], "are more than"),
        (["URL", "--rate", "1", "--concurrency", "1"], "exclude each other"),
        (["URL", "--workload", "gossip"], "no workload is called gossip"),
        (["URL", "--slo", "ttft=fast"], "--slo is not understood"),
        (["URL", "--duration", "inf"], "no finite number"),
        (["URL", "--trace", "/nowhere"], "cannot be read"),
        (["URL", "--workload", "9000000:5"], "does not fit"),
    ],
)
def test_words_that_cannot_be_followed(holddown: HolddownCommand, url: str, words: list[str], seen: str) -> None:
    """Exit code 2, and what would do."""
    done = holddown("bench", *(url if word == "URL" else word for word in words))
    assert done.returncode == 2
    assert seen in done.stderr


def test_formulas(holddown: HolddownCommand) -> None:
    """Every figure's, without any server."""
    done = holddown("bench", "--formulas")
    assert done.returncode == 0
    assert "ttft" in done.stdout and "first content - due" in done.stdout
