"""`holddown up` on a real llama.cpp: the demo model's GGUF, and what can be claimed of it."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from holddown.edges.client.http import HttpClient
from holddown.edges.hosts.local import LocalHost
from holddown.edges.probes.llamacpp import LlamaCppProbe
from holddown.facts.answers import Ask, Message
from holddown.facts.engine import Engine
from holddown.remember.record import Deployment
from holddown.verify.expect import CHECK_NAMES, WrongModel
from live.guarded import ALL_CLAIMED, COMPARED, damaged
from live.place import Place, free_port, loaded

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def place(llama_server: Path) -> Iterator[Place]:
    path = Path(tempfile.mkdtemp(prefix="hdlive", dir="/tmp"))
    homes = {f"XDG_{name.upper()}_HOME": f"{path}/{name}" for name in ("data", "state", "cache")}
    (path / "t").mkdir()
    place = Place(path, {**os.environ, **homes, "TMPDIR": f"{path}/t", "NO_COLOR": "1"})
    added = place.run("engine", "add", str(llama_server))
    assert added.returncode == 0, added.stderr
    yield place
    place.run("down", "gguf")
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def up(place: Place, demo_gguf: Path) -> "subprocess.CompletedProcess[str]":
    """The one start that the claims below rest on. No engine is named: the format finds it."""
    return place.run("up", str(demo_gguf), "--name", "gguf", "--port", free_port())


@pytest.fixture(scope="module")
def released(place: Place, up: "subprocess.CompletedProcess[str]") -> Deployment:
    assert up.returncode == 0, up.stderr + up.stdout
    return place.record("gguf")


def test_it_is_released_with_every_check_that_fits(up: Any, released: Deployment) -> None:
    """All but the one that asks for another model: this server answers under any name, and `up` says so."""
    assert released.label == "released"
    assert [verdict.check for verdict in released.status.verdicts] == [
        name for name in CHECK_NAMES if name != WrongModel.name
    ]
    assert {verdict.outcome for verdict in released.status.verdicts} == {"passed"}
    assert "endpoint.any-model" in up.stderr


def test_its_start_was_followed(released: Deployment) -> None:
    """From the process over weights and cache to the server."""
    assert [str(phase.phase) for phase in released.status.phases] == ["process", "weights", "kv-cache", "server"]


def test_its_speed_was_measured(released: Deployment) -> None:
    """Alone and eight at once, with tokens counted by the server."""
    rates = {
        each.concurrency: each.value for each in released.status.measurements if each.metric == "output_throughput"
    }
    assert set(rates) == {1, 8}
    assert all(rate > 0 for rate in rates.values())


def test_its_speed_under_load(place: Place, released: Deployment) -> None:
    """`bench` by its name: exact lengths by its own tokenizer, each answer to its length, and a record."""
    phase = loaded(place, "gguf", released)
    assert {one["metric"] for one in phase["figures"]} >= {"ttft", "itl", "tpot", "e2e", "output_throughput"}


def test_the_plan_has_a_because_for_each_flag(place: Place, released: Deployment) -> None:
    """And the cache that was planned is the one that the server made."""
    shown = place.run("explain", "gguf").stdout
    assert "--ctx-size" in shown and "--kv-unified" in shown and "because" in shown
    context = json.loads(place.run("status", "gguf", "--json").stdout)["birth"]["plan"]["context"]
    assert f"n_ctx_slot = {context}" in Path(released.birth.log_path).read_text(encoding="utf-8")


def test_the_servers_own_tokenizer_agrees_with_its_usage(released: Deployment) -> None:
    """It counts under other addresses than vLLM: for chats and for plain text."""
    client = HttpClient(released.birth.spec.base_url)
    assert client.prompt_tokens(Ask("gguf", 1, prompt="The capital of France is")) == 5
    assert client.prompt_tokens(Ask("gguf", 1, messages=(Message("user", "Hello!"),))) == 32
    client.close()


def test_it_is_verified_and_thinks_what_another_engine_thought(place: Place, released: Deployment) -> None:
    """Its quantised weights on llama.cpp beside the same weights in bfloat16 on vLLM."""
    done = place.run("verify", "gguf", *ALL_CLAIMED, *COMPARED, "--json")
    verdicts = {verdict["check"]: verdict for verdict in json.loads(done.stdout)["verdicts"]}
    assert {verdict["outcome"] for verdict in verdicts.values()} == {"passed"}, verdicts


def test_it_is_stopped_and_nothing_is_left(place: Place, released: Deployment) -> None:
    """The last claim on the deployment, since it ends it."""
    engine = released.status.engine
    assert engine is not None
    assert place.run("down", "gguf").returncode == 0
    assert place.record("gguf").status.state == "stopped"
    assert not [one for one in LocalHost().processes() if one.session == engine.pid and one.state != "Z"]
    assert not Path(released.birth.run_dir).exists()


def test_a_damaged_tensor_is_found(place: Place, llama_server: Path, demo_gguf: Path, tmp_path: Path) -> None:
    """One of 30 layers: it still writes English, and coherence passes; beside the reference it does not."""
    port = free_port()
    words = [str(llama_server), "--model", str(damaged(demo_gguf, tmp_path)), "--port", port, "--ctx-size", "2048"]
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            client, deadline = HttpClient(url), time.monotonic() + 120
            while not client.healthy():
                assert server.poll() is None and time.monotonic() < deadline
                time.sleep(0.1)
            done = place.run("verify", url, "--check", "coherence", *COMPARED, "--json")
        finally:
            server.terminate()
    client.close()
    outcomes = {verdict["check"]: verdict["outcome"] for verdict in json.loads(done.stdout)["verdicts"]}
    assert (done.returncode, outcomes) == (1, {"coherence": "passed", "quality": "failed"})


def test_health_is_503_while_it_loads(llama_server: Path, demo_gguf: Path) -> None:
    """Its port is open long before it can answer: that is not taken for health."""
    port = free_port()
    words = [str(llama_server), "--model", str(demo_gguf), "--port", port, "--ctx-size", "2048"]
    seen: list[int] = []
    client = HttpClient(f"http://127.0.0.1:{port}")
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            deadline = time.monotonic() + 120
            while 200 not in seen:
                assert time.monotonic() < deadline
                assert server.poll() is None
                try:
                    seen.append(httpx.get(f"http://127.0.0.1:{port}/health").status_code)
                except httpx.ConnectError:
                    time.sleep(0.005)
                if seen[-1:] == [503]:
                    assert not client.healthy() or httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200
            assert client.healthy()
        finally:
            server.terminate()
    client.close()
    assert seen[0] == 503


def test_what_it_says_of_itself_is_read_whole(llama_server: Path, tmp_path: Path) -> None:
    """As many options as its shell completion names, and its library's architectures."""
    engine = Engine("llamacpp", "any", "llamacpp", "", "", False, 0.0, program=str(llama_server))
    facts = LlamaCppProbe(tmp_path).facts(engine, str)
    script = subprocess.run([llama_server, "--completion-bash"], capture_output=True, text=True, check=True).stdout
    completed = set(script.partition('opts="')[2].partition('"')[0].split())

    assert completed <= {name for flag in facts.flags for name in (flag.name, *flag.aliases)}
    assert {"llama", "deepseek2", "glm-dsa"} <= set(facts.architectures)
    assert len(facts.architectures) > 100
