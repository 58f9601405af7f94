"""`holddown up` on a real engine: one deployment of the demo model, and what can be claimed of it."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holddown.edges.hosts.local import LocalHost
from holddown.launch.lifecycle import State
from holddown.measure.stats import carried_percentiles
from holddown.remember.record import Deployment
from holddown.verify.expect import CHECK_NAMES
from live.guarded import ALL_CLAIMED, COMPARED
from live.place import Place, free_port, loaded

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]


def processes(place: Place) -> list[str]:
    """Titles of every engine's processes: those in the sessions that our engines led. Their environment does not tell,
    since an engine writes its processes' titles over it."""
    sessions = {each.status.engine.pid for each in place.store.all() if each.status.engine is not None}
    return [one.title for one in LocalHost().processes() if one.session in sessions and one.state != "Z"]


@pytest.fixture(scope="module")
def place(vllm_python: str) -> Iterator[Place]:
    path = Path(tempfile.mkdtemp(prefix="hdlive", dir="/tmp"))
    # not its cache: asking an engine what it supports takes up to a minute, and is right for whoever asks
    homes = {f"XDG_{name.upper()}_HOME": f"{path}/{name}" for name in ("data", "state")}
    (path / "t").mkdir()
    env = {**os.environ, **homes, "TMPDIR": f"{path}/t", "NO_COLOR": "1"}
    place = Place(path, env)
    added = place.run("engine", "add", vllm_python)
    assert added.returncode == 0, added.stderr
    yield place
    for deployment in json.loads(place.run("list", "--json").stdout):
        place.run("down", deployment["birth"]["name"])
    assert processes(place) == []
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def up(place: Place, demo_model: Path) -> "subprocess.CompletedProcess[str]":
    """The one start that the claims below rest on."""
    words = ("--set", "max-model-len=2048", "--port", free_port(), "--restart", "on-failure")
    return place.run("up", str(demo_model), "--name", "demo", *words)


@pytest.fixture(scope="module")
def released(place: Place, up: "subprocess.CompletedProcess[str]") -> Deployment:
    assert up.returncode == 0, up.stderr + up.stdout
    return place.record("demo")


def test_it_is_released_with_every_check_passed(up: Any, released: Deployment) -> None:
    """All that fit a chat model; nothing skipped, and `up` prints them."""
    assert released.label == "released"
    assert [verdict.check for verdict in released.status.verdicts] == list(CHECK_NAMES)
    assert {verdict.outcome for verdict in released.status.verdicts} == {"passed"}
    assert f"verified  {', '.join(CHECK_NAMES)}" in up.stdout
    assert f"{released.birth.spec.base_url}/v1" in up.stdout and "holddown down demo" in up.stdout


def test_its_progress_named_the_phases_of_the_engine(up: Any, released: Deployment) -> None:
    """In the engine's order, with the time that each began."""
    times = [phase.at_s for phase in released.status.phases]
    names = [str(phase.phase) for phase in released.status.phases]
    assert times == sorted(times)
    assert [name for name in ("process", "config", "weights", "kv-cache", "server") if name in names] == [
        "process",
        "config",
        "weights",
        "kv-cache",
        "server",
    ]
    assert "loading weights" in up.stderr and "server up" in up.stderr


def test_its_speed_was_measured(released: Deployment) -> None:
    """Alone and eight at once; every figure positive, and no percentile that its sample cannot carry."""
    figures = released.status.measurements
    for concurrency in (1, 8):
        metrics = {figure.metric for figure in figures if figure.concurrency == concurrency}
        assert metrics == {"ttft", "itl", "e2e", "output_throughput"}
    assert all(figure.value > 0 and figure.n >= 3 for figure in figures)
    assert all(not figure.percentile or figure.percentile in carried_percentiles(figure.n) for figure in figures)
    rate = {one.concurrency: one.value for one in figures if one.metric == "output_throughput"}
    assert rate[8] > rate[1]


def test_its_speed_under_load(place: Place, released: Deployment) -> None:
    """`bench` by its name: exact lengths by its own tokenizer, each answer to its length, and its own counters."""
    phase = loaded(place, "demo", released)
    assert phase["engine"]["preemptions"]["value"] == 0


def test_the_engines_own_word_is_on_record_and_is_what_its_log_says(released: Deployment) -> None:
    """The plug-in on its path: the attention backend, and a KV cache of as many tokens as the log has."""
    report = released.status.report
    assert report is not None
    tokens = report.setting("cache_config.kv_cache_size_tokens")
    assert report.attention == ("CPU_ATTN",)
    assert report.kv_blocks * int(report.setting("cache_config.block_size")) == int(tokens)
    assert f"KV cache size: {int(tokens):,} tokens" in Path(released.birth.log_path).read_text(encoding="utf-8")


def test_every_view_says_so(place: Place, released: Deployment) -> None:
    """status, list, explain, logs: the same deployment."""
    assert "demo is released" in place.run("status", "demo").stdout
    assert released.birth.id in place.run("list").stdout
    explained = place.run("explain", "demo").stdout
    assert "--max-model-len 2048" in explained and "because" in explained
    assert "Application startup complete" in place.run("logs", "demo").stdout
    assert json.loads(place.run("status", "demo", "--json").stdout)["status"]["state"] == "released"


def test_it_is_verified_and_is_the_model_that_it_was(place: Place, released: Deployment) -> None:
    """Seed, log-probabilities, n, schema, cache, its context's end; and it thinks what was recorded of it."""
    done = place.run("verify", "demo", *ALL_CLAIMED, "--check", "cancellation", *COMPARED, "--json")
    verdicts = {verdict["check"]: verdict for verdict in json.loads(done.stdout)["verdicts"]}
    assert {verdict["outcome"] for verdict in verdicts.values()} == {"passed"}, verdicts
    assert len(verdicts) == 8 and "554 positions" in verdicts["quality"]["seen"]
    assert place.store.runs(released.birth.id)


def test_a_killed_server_is_started_again_and_leaves_nothing_behind(place: Place, released: Deployment) -> None:
    """SIGKILL of its API server: neither process nor memory of that engine is left, and another one serves under the
    same id on the same port, with every check passed; the status tells of it."""
    status = place.record("demo").status
    assert status.engine is not None and status.segments
    assert [title for title in processes(place) if title.startswith("VLLM::")]
    os.kill(status.engine.pid, 9)
    _until(lambda: place.record("demo").status.state is State.WAITING)
    assert not processes(place)
    assert not [segment.path for segment in status.segments if Path(segment.path).exists()]
    assert not Path(released.birth.run_dir).exists()
    again = _until(lambda: place.record("demo") if place.record("demo").status.state is State.RELEASED else None, 300)
    assert again.birth == released.birth and again.status.starts == 2
    assert [each.check for each in again.status.verdicts] == list(CHECK_NAMES)
    shown = place.run("status", "demo")
    assert shown.returncode == 0 and "killed by signal 9 while released" in " ".join(shown.stdout.split())


@pytest.mark.parametrize(
    "words", [("--engine", "nothing@1.0"), ("--set", "tensor-parallel-size=7"), ("--set", "max-model-len=9000000")]
)
def test_a_switch_to_what_cannot_run_stops_nothing(
    place: Place, released: Deployment, demo_model: Path, words: tuple[str, ...]
) -> None:
    """All that can be known of it is known while the first one serves."""
    done = place.run("switch", "demo", str(demo_model), "--name", "other", *words)
    assert done.returncode in (1, 2, 3), done.stderr + done.stdout
    assert place.record("demo").status.state is State.RELEASED
    assert place.store.latest("other") is None


@pytest.mark.timeout(900)  # six starts
def test_a_switch_and_back(place: Place, released: Deployment, demo_model: Path, mla_checkpoint: Path) -> None:
    """The demo model in two configurations on one port: the second takes the first one's place; a third, whose KV cache
    is too small, does not, and the second serves again; nor does one whose answers are no language."""
    done = place.run("switch", "demo", str(demo_model), "--name", "short", "--set", "max-model-len=1024")
    assert done.returncode == 0, done.stderr + done.stdout
    assert "short is released" in done.stdout and "outage " in done.stdout
    assert place.record("short").birth.spec.port == released.birth.spec.port
    assert place.record("demo").status.state is State.STOPPED

    words = ("--set", "kv-cache-memory-bytes=1048576", "--set", "max-model-len=2048", "--no-retry")
    foreseen = ("--despite", "plan.max-model-len")
    failed = place.run("switch", "short", str(demo_model), "--name", "tiny", *words, *foreseen)
    assert failed.returncode == 4, failed.stderr + failed.stdout
    assert "short serves again" in failed.stdout
    assert place.record("tiny").status.cause is not None
    assert place.record("short").status.state is State.RELEASED

    refused = place.run("switch", "short", str(mla_checkpoint), "--name", "random", "--no-retry")
    assert refused.returncode == 4, refused.stderr + refused.stdout
    assert "verification failed: coherence" in place.record("random").status.why
    assert "short serves again" in refused.stdout and place.record("short").status.state is State.RELEASED
    assert place.run("down", "short").returncode == 0


def _until(what: Callable[[], Any], patience_s: float = 60.0) -> Any:
    deadline = time.monotonic() + patience_s
    while not (found := what()):
        assert time.monotonic() < deadline, f"not within {patience_s:.0f} s"
        time.sleep(0.1)
    return found


@pytest.fixture(scope="module")
def mla_checkpoint(place: Place, vllm_python: str, demo_model: Path) -> Path:
    """Two layers of multi-head latent attention with random weights."""
    folder = place.path / "mla"
    script = Path(__file__).with_name("write_mla_checkpoint.py")
    done = subprocess.run([vllm_python, str(script), str(folder), str(demo_model)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_healthy_is_not_released(place: Place, mla_checkpoint: Path) -> None:
    """An FP8 KV cache under MLA on a CPU: the plan forbids it. Started despite that, the engine comes up healthy and
    dies of the first request: it is not released, the diagnosis names the KV cache's type, and with consent it is
    started again with the model's own. That is released, and what was skipped is said.
    """
    version = place.run("engine", "list").stdout
    if "0.32.0" not in version:
        pytest.skip(f"vLLM 0.32.0 does so; here is {version.strip()}")
    words = ("up", str(mla_checkpoint), "--name", "mla", "--skip-check", "coherence", "--port", free_port())
    fp8 = ("--set", "kv-cache-dtype=fp8")
    planned = place.run(*words, *fp8)
    assert planned.returncode == 1 and "block[compat.kv-cache-dtype]" in planned.stderr, planned.stderr

    released = place.run(*words, *fp8, "--despite", "compat.kv-cache-dtype", "--retry-user-settings")
    assert released.returncode == 0, released.stderr + released.stdout
    healthy, mended = released.stderr.split("trying again with --set kv-cache-dtype=auto")
    assert "it answers" in healthy and "released" not in healthy
    second = place.record("mla")
    first = place.store.get(second.birth.after)
    assert first is not None and first.status.cause is not None
    assert first.status.cause.code == "engine.kv-cache-dtype"
    assert "released" in mended
    assert "mla is released (coherence unverified)" in released.stdout
