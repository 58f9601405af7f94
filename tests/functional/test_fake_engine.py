"""The fake engine keeps what its README promises; other tests lean on it."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

FAKE_ENGINE = Path(__file__).resolve().parents[1] / "fake_engine"
PATIENCE_S = 10.0


@dataclass
class Running:
    """One started engine: its process, its port, its log so far."""

    process: "subprocess.Popen[bytes]"
    port: int
    log_path: Path

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def request(self, method: str, path: str, body: object = None, key: str = "") -> tuple[int, str]:
        """Status and body; raises OSError while the port refuses."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def complete(self, **fields: object) -> tuple[int, dict[str, Any]]:
        status, text = self.request(
            "POST", "/v1/completions", {"model": "m", "prompt": "Tell me", "max_tokens": 8, **fields}
        )
        return status, json.loads(text)

    def wait_ready(self) -> "Running":
        until(lambda: self.process.poll() is not None or self._healthy(), "ready")
        assert self.process.poll() is None, self.log
        return self

    def _healthy(self) -> bool:
        try:
            return self.request("GET", "/health")[0] == 200
        except OSError:
            return False

    def child_titled(self, title: str) -> int:
        """The id of the one descendant with this command line."""
        pids = [self.process.pid]
        for pid in pids:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            pids.extend(int(child) for child in children)
        found = [pid for pid in pids if cmdline(pid) == title]
        assert len(found) == 1, [(pid, cmdline(pid)) for pid in pids]
        return found[0]


def cmdline(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode()
    except OSError:
        return ""


def alive(pid: int) -> bool:
    """Running; a zombie is not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline:
            pytest.fail(f"never came: {what}")
        time.sleep(0.01)


@pytest.fixture
def start(home: Any, tiny_checkpoint: Path, tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Starts the engine on a free port: `start("--enforce-eager", FAKE_CRASH_AT="weights")`."""
    started: list[Running] = []

    def go(*flags: str, **cues: str) -> Running:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(tiny_checkpoint)]
        command += ["--served-model-name", "m", "--port", str(port), *flags]
        env = {**home.env, "PYTHONPATH": str(FAKE_ENGINE), "FAKE_LOAD_SECONDS": "0.02", "FAKE_TOKEN_SECONDS": "0"}
        path = tmp_path / f"log{len(started)}"
        with path.open("wb") as log:
            process = subprocess.Popen(
                command, env={**env, **cues}, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        started.append(Running(process, port, path))
        return started[-1]

    yield go
    home.end_processes()
    for running in started:
        running.process.wait()
    for segment in home.segments():
        segment.unlink()


def test_comes_up_and_ends_cleanly(start: Callable[..., Running], home: Any) -> None:
    """SIGTERM ends all three processes with exit 0 and removes the segment; the sockets stay."""
    engine = start().wait_ready()
    core, worker = engine.child_titled("VLLM::EngineCore"), engine.child_titled("VLLM::Worker")
    assert os.getsid(core) == os.getsid(worker) == engine.process.pid
    segment = home.segments()[0]
    assert str(segment) in Path(f"/proc/{worker}/maps").read_text()
    engine.process.terminate()
    assert engine.process.wait(PATIENCE_S) == 0
    assert not alive(core)
    assert not alive(worker)
    assert home.segments() == []
    assert len([path for path in (home.path / "t").iterdir() if path.is_socket()]) == 3


def test_log_has_the_fragments_that_progress_is_read_from(start: Callable[..., Running]) -> None:
    """Every phase announces itself in vLLM's words, in vLLM's order."""
    log = start(FAKE_SHARDS="3").wait_ready().log
    fragments = [
        "non-default args: {",
        "Resolved architecture: LlamaForCausalLM",
        "Using max model len 4096",
        "Initializing a V1 LLM engine (v0.32.0) with config:",
        "Starting to load model",
        "Loading safetensors checkpoint shards:  33% Completed | 1/3",
        "Loading safetensors checkpoint shards: 100% Completed | 3/3",
        "Loading weights took",
        "Warming up model for the compilation",
        "CPU KV cache size: 32,768 tokens, Maximum concurrency for 4,096 tokens per request",
        "init engine (profile, create kv cache, warmup model) took",
        "Starting vLLM server on http://127.0.0.1:",
        "Application startup complete.",
    ]
    places = [log.find(fragment) for fragment in fragments]
    assert -1 not in places, [fragment for fragment in fragments if fragment not in log]
    assert places == sorted(places)


def test_a_killed_api_server_leaves_orphans_that_sigterm_ends(start: Callable[..., Running], home: Any) -> None:
    """EngineCore and Worker outlive a SIGKILL of the API server; SIGTERM to EngineCore ends both and the segment."""
    engine = start().wait_ready()
    core, worker = engine.child_titled("VLLM::EngineCore"), engine.child_titled("VLLM::Worker")
    engine.process.kill()
    engine.process.wait(PATIENCE_S)
    assert alive(core)
    assert alive(worker)
    assert len(home.segments()) == 1
    os.kill(core, signal.SIGTERM)
    until(lambda: not alive(core) and not alive(worker), "the end of the orphans")
    assert home.segments() == []


def test_answers_are_deterministic_and_counted(start: Callable[..., Running]) -> None:
    """A stream gives the text of the plain answer, and usage agrees with /tokenize and max_tokens."""
    engine = start().wait_ready()
    question = {"model": "m", "messages": [{"role": "user", "content": "Name the capital city of France."}]}
    status, text = engine.request("POST", "/v1/chat/completions", question)
    whole = json.loads(text)
    assert status == 200
    assert "Paris" in whole["choices"][0]["message"]["content"]
    asked = {**question, "stream": True, "stream_options": {"include_usage": True}}
    events = [
        json.loads(line.removeprefix("data: "))
        for line in engine.request("POST", "/v1/chat/completions", asked)[1].splitlines()
        if line.startswith("data: {")
    ]
    said = "".join(choice["delta"]["content"] for event in events for choice in event["choices"])
    assert said == whole["choices"][0]["message"]["content"]
    assert events[-1]["usage"] == whole["usage"]
    count = json.loads(engine.request("POST", "/tokenize", question)[1])["count"]
    assert count == whole["usage"]["prompt_tokens"]
    _, cut = engine.complete(max_tokens=5, ignore_eos=True)
    assert (cut["usage"]["completion_tokens"], cut["choices"][0]["finish_reason"]) == (5, "length")


def test_stop_echo_and_logprobs(start: Callable[..., Running]) -> None:
    """A stop sequence is withheld; echo gives the prompt's tokens, the first without a log-probability."""
    engine = start().wait_ready()
    _, free = engine.complete(max_tokens=6, ignore_eos=True)
    word = free["choices"][0]["text"].split()[3]
    _, stopped = engine.complete(max_tokens=6, stop=[word])
    assert word not in stopped["choices"][0]["text"]
    assert stopped["choices"][0]["finish_reason"] == "stop"
    _, echoed = engine.complete(prompt="The capital of France is", max_tokens=1, echo=True, logprobs=2)
    logprobs = echoed["choices"][0]["logprobs"]
    assert logprobs["tokens"] == ["The", " capital", " of", " France", " is", " Paris"]
    assert logprobs["token_logprobs"][0] is None
    assert all(value < 0 for value in logprobs["token_logprobs"][1:])


def test_refuses_a_wrong_model_and_a_wrong_key(start: Callable[..., Running]) -> None:
    """404 for a model it does not serve, 401 without the key, which /health does not ask for."""
    engine = start(VLLM_API_KEY="k").wait_ready()
    assert engine.request("GET", "/v1/models")[0] == 401
    assert engine.request("GET", "/v1/models", key="k")[0] == 200
    status, text = engine.request("POST", "/v1/completions", {"model": "other", "prompt": "x"}, key="k")
    assert (status, json.loads(text)["error"]["type"]) == (404, "NotFoundError")


@pytest.mark.parametrize("phase", ["config", "weights", "compile", "profile", "kv-cache", "server"])
def test_crash_while_starting(start: Callable[..., Running], home: Any, phase: str) -> None:
    """It exits 1 with a traceback and leaves no segment; a failed core ends with the line that points above."""
    engine = start("--enforce-eager", FAKE_CRASH_AT=phase)
    assert engine.process.wait(PATIENCE_S) == 1
    assert "Traceback (most recent call last):" in engine.log
    assert ("Engine core initialization failed. See root cause above." in engine.log) == (
        phase not in ("config", "server")
    )
    assert home.segments() == []


def test_crash_while_serving(start: Callable[..., Running], home: Any) -> None:
    """After N answers the engine dies: that request gets 500, and the API server exits by itself."""
    engine = start(FAKE_CRASH_AT="after:1", FAKE_EXIT_CODE="7").wait_ready()
    assert engine.complete()[0] == 200
    status, body = engine.complete()
    assert status == 500
    assert "See stack trace (above)" in body["error"]["message"]
    assert engine.process.wait(PATIENCE_S) == 7
    assert home.segments() == []


def test_dies_after_ready(start: Callable[..., Running]) -> None:
    """FAKE_DIE_AFTER_READY ends it without a request."""
    engine = start(FAKE_DIE_AFTER_READY="0.01")
    assert engine.process.wait(PATIENCE_S) == 0
    assert "EngineDeadError" in engine.log


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        ("gibberish", lambda body: min(body["choices"][0]["logprobs"]["token_logprobs"]) < -5),
        ("repeat", lambda body: len(set(body["choices"][0]["text"].split())) == 2),
        ("wrong-usage", lambda body: body["usage"]["completion_tokens"] > 8),
        ("ignore-max-tokens", lambda body: body["usage"]["completion_tokens"] == 24),
        ("empty", lambda body: body["choices"][0]["text"] == ""),
    ],
)
def test_wrong_answers(start: Callable[..., Running], answer: str, wrong: Callable[[Any], bool]) -> None:
    """Each FAKE_ANSWER is wrong in the way its name says."""
    engine = start(FAKE_ANSWER=answer).wait_ready()
    status, body = engine.complete(logprobs=1)
    assert status == 200
    assert wrong(body), body


def test_wrong_in_what_is_obeyed(start: Callable[..., Running]) -> None:
    """Stop sequences ignored, any model taken, a stream that says something else: one engine each."""
    engine = start(FAKE_ANSWER="ignore-stop").wait_ready()
    _, free = engine.complete()
    word = free["choices"][0]["text"].split()[2]
    assert word in engine.complete(stop=[word])[1]["choices"][0]["text"]
    engine = start(FAKE_ANSWER="any-model").wait_ready()
    assert engine.complete(model="other")[0] == 200
    engine = start(FAKE_ANSWER="stream-differs").wait_ready()
    plain = engine.complete()[1]["choices"][0]["text"]
    stream = engine.request(
        "POST", "/v1/completions", {"model": "m", "prompt": "Tell me", "max_tokens": 8, "stream": True}
    )
    lines = [json.loads(line[6:]) for line in stream[1].splitlines() if line.startswith("data: {")]
    assert "".join(line["choices"][0]["text"] for line in lines) != plain


def test_hangs_and_ignores_sigterm(start: Callable[..., Running]) -> None:
    """Hung in a phase it never opens its port, and with FAKE_IGNORE_TERM only SIGKILL ends it."""
    engine = start(FAKE_HANG_AT="weights", FAKE_IGNORE_TERM="1")
    until(lambda: "Completed | 0/1" in engine.log, "the first shard line")
    engine.process.terminate()
    with pytest.raises(subprocess.TimeoutExpired):
        engine.process.wait(0.2)
    with pytest.raises(OSError, match="refused"):
        engine.request("GET", "/health")


def test_hung_requests_leave_health_good(start: Callable[..., Running]) -> None:
    """FAKE_HANG_AT=request takes a request and never answers, while /health says 200."""
    engine = start(FAKE_HANG_AT="request").wait_ready()
    with socket.create_connection(("127.0.0.1", engine.port)) as client:
        body = b'{"model":"m","prompt":"x"}'
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1)
    assert engine.request("GET", "/health")[0] == 200


def test_keeps_what_polls_it_out_of_the_log(start: Callable[..., Running]) -> None:
    """The access log leaves out the endpoints it was told to, and /metrics speaks vLLM's names."""
    engine = start("--disable-access-log-for-endpoints", "/health").wait_ready()
    status, text = engine.request("GET", "/metrics")
    assert status == 200
    assert 'vllm:num_requests_running{engine="0",model_name="m"} 0.0' in text
    assert "GET /health" not in engine.log
    assert "GET /metrics" in engine.log


def test_log_flood_and_import_error(start: Callable[..., Running], home: Any) -> None:
    """It writes as much log as asked, and `import vllm` fails with the given words."""
    engine = start(FAKE_LOG_FLOOD="100000").wait_ready()
    until(lambda: engine.log_path.stat().st_size > 100_000, "the flood")
    env = {**home.env, "PYTHONPATH": str(FAKE_ENGINE), "FAKE_IMPORT_ERROR": "no such symbol"}
    done = subprocess.run([sys.executable, "-c", "import vllm"], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ImportError: no such symbol" in done.stderr


def test_a_misspelt_cue_ends_it(start: Callable[..., Running]) -> None:
    """An unknown word in a cue is an error at once, not a well-behaved engine."""
    engine = start(FAKE_CRASH_AT="wieghts")
    assert engine.process.wait(PATIENCE_S) == 1
    assert "none of" in engine.log
