"""`up` with the stand-in for SGLang: the same code, its own flags, phases, endpoints and ways to end."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from functional.conftest import FAKE_ENGINE
from functional.deployed import NAME, Site, until
from holddown.launch.lifecycle import State
from holddown.launch.phases import Phase

FAKE_SGLANG = FAKE_ENGINE / "with_sglang"


@pytest.fixture
def site(home: Any, holddown: Any, tiny_checkpoint: Path) -> Iterator[Site]:
    done = holddown("engine", "add", sys.executable, "--pythonpath", str(FAKE_SGLANG))
    assert done.returncode == 0, done.stderr
    assert "sglang@0.5.23" in done.stdout
    site = Site(home, holddown, tiny_checkpoint)
    yield site
    for process in site.started:
        if process.poll() is None:
            process.kill()
        process.wait()


def test_it_is_planned_launched_verified_released_and_stopped(site: Site) -> None:
    """With SGLang's own names on its command line, its endpoints, and nothing left behind, though it ends itself by
    SIGKILL whenever it is told to stop."""
    deployment = site.released()
    argv = deployment.birth.spec.argv

    assert argv[1:3] == ("-m", "sglang.launch_server")
    assert {"--model-path", "--context-length", "--max-total-tokens", "--enable-metrics"} <= set(argv)
    assert argv[argv.index("--device") + 1] == "cpu"
    verdicts = {verdict.check: verdict.outcome for verdict in deployment.status.verdicts}
    assert "failed" not in verdicts.values()
    assert "wrong-model" not in verdicts
    assert {Phase.CONFIG, Phase.WEIGHTS, Phase.KV_CACHE, Phase.SERVER} <= {
        each.phase for each in deployment.status.phases
    }
    assert (site.get("/health_generate"), site.get("/get_server_info"), site.get("/metrics")) == (200, 200, 200)
    assert site.pids_of("sglang::scheduler_TP0")

    assert site.down().returncode == 0
    assert site.record().status.state is State.STOPPED
    site.assert_nothing_is_left()


def test_its_own_log_lines_tell_the_phase(site: Site) -> None:
    """While the scheduler loads, the record says so."""
    site.begin(FAKE_HANG_AT="weights")
    site.await_engine()
    until(lambda: Phase.WEIGHTS in [each.phase for each in site.record().status.phases], "the phase is on record")
    assert site.down().returncode == 0
    site.assert_nothing_is_left()


def test_a_failing_child_is_the_cause_though_all_are_killed(site: Site) -> None:
    """The scheduler tells its parent by SIGQUIT, which kills the tree: exit by signal 9 is how SGLang fails."""
    done = site.up(FAKE_CRASH_AT="kv-cache")

    assert done.returncode == 4
    status = site.record().status
    assert status.state is State.FAILED
    assert status.exit is not None
    assert status.exit.code == -9
    assert status.cause is not None
    assert status.cause.code == "engine.kv-cache-too-small"
    assert "mem-fraction-static" in status.cause.do
    site.assert_nothing_is_left()


def test_a_child_that_dies_while_serving_ends_the_deployment(site: Site) -> None:
    """The first request after the release kills it; the record names a failed child, not the kernel."""
    site.released()
    assert len(site.pids_of("sglang::scheduler_TP0")) == 1
    engine = site.record().status.engine
    assert engine is not None
    os.kill(engine.pid, signal.SIGQUIT)
    status = site.await_state(State.FAILED).status
    assert status.cause is not None
    assert status.cause.code == "engine.child-failed"
    site.assert_nothing_is_left()


def test_a_key_is_taken_from_a_file_that_only_the_engine_reads(site: Site, tmp_path: Path) -> None:
    """SGLang reads none from the environment; on a command line everybody could read it."""
    key = tmp_path / "key"
    key.write_text('s3cret-"quoted"\n', encoding="utf-8")
    deployment = site.released("--api-key-file", str(key))
    written = Path(deployment.birth.run_dir) / "api-key.yaml"

    assert not any("s3cret" in title for title in site.titles())
    log = Path(deployment.birth.log_path).read_text(encoding="utf-8")
    assert "s3cret" not in log and "api_key='***'" in log
    assert written.stat().st_mode & 0o777 == 0o600
    assert site.get("/v1/models") == 401
    assert site.get("/v1/models", key='s3cret-"quoted"') == 200
    assert site.down().returncode == 0
    assert not written.exists()


def test_a_setting_under_another_of_its_names_is_the_same_setting(site: Site) -> None:
    """`tensor-parallel-size` is `tp-size`; vLLM's name for the context is not SGLang's, and the answer names it."""
    done = site.run("up", str(site.checkpoint), "--name", NAME, "--dry-run", "--set", "max-model-len=512")

    assert done.returncode != 0
    assert "context-length" in done.stdout + done.stderr
