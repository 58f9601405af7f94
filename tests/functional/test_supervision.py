"""Deployments under supervision, with real processes and the fake engine."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from functional.deployed import NAME, Site, free_port, kill, until
from holddown.launch.lifecycle import State


@pytest.fixture
def site(home: Any, holddown: Any, fake_engine_added: str, tiny_checkpoint: Path) -> Iterator[Site]:
    site = Site(home, holddown, tiny_checkpoint)
    yield site
    for process in site.started:
        if process.poll() is None:
            process.kill()
        process.wait()


# --- killed ---------------------------------------------------------------------------------------------------


def test_a_killed_server_leaves_nothing_behind(site: Site) -> None:
    """SIGKILL of the API server: its engine core and workers are ended, their memory goes, the record says why."""
    engine = site.released().status.engine
    assert engine is not None and len(site.home.segments()) == 1
    kill(engine.pid)
    status = site.await_state(State.FAILED).status
    site.assert_nothing_is_left()
    assert status.why == "the engine was killed by signal 9 while released"
    assert status.cause is not None and status.cause.code == "engine.killed"


def test_a_killed_supervisor_is_no_outage(site: Site) -> None:
    """The engine goes on serving; the next command says what happened and adopts it; then `down` works."""
    before = site.released()
    assert before.status.supervisor is not None
    kill(before.status.supervisor.pid)
    until(lambda: not site.pids_of("holddown supervise"), "the supervisor is gone")
    assert site.get("/v1/models") == 200
    listed = site.run("list")
    assert "a new one watches its engine now" in listed.stderr
    after = site.record().status
    assert (after.state, after.engine, after.adopted) == (State.RELEASED, before.status.engine, True)
    assert after.verdicts == before.status.verdicts
    assert site.get("/v1/models") == 200
    assert site.down().returncode == 0
    assert site.record().status.state is State.STOPPED
    site.assert_nothing_is_left()


def test_workers_of_an_adopted_engine_are_ended_too(site: Site) -> None:
    """Its orphans go to process 1 and not to the new supervisor, which knows them by their private folder."""
    status = site.released().status
    assert status.supervisor is not None and status.engine is not None
    kill(status.supervisor.pid)
    site.run("list")
    kill(status.engine.pid)
    assert "a status that nobody saw" in site.await_state(State.FAILED).status.why
    site.assert_nothing_is_left()


def test_an_engine_killed_as_a_whole_leaves_no_shared_memory(site: Site) -> None:
    """All of its processes at once, while it starts, once the supervisor has seen what they map."""
    site.begin(FAKE_HANG_AT="weights")
    site.await_engine()
    until(lambda: site.record().status.segments, "its segment is on record")
    pids = site.pids_of("vllm.entrypoints") + site.pids_of("VLLM::")
    assert len(pids) >= 2
    for pid in pids:
        kill(pid)
    assert site.await_state(State.FAILED).status.exit is not None
    site.assert_nothing_is_left()


def test_engine_and_supervisor_killed_together_are_seen_as_gone(site: Site) -> None:
    """The record said `released`; the next command says that it is not so, and the shared memory goes."""
    status = site.released().status
    assert status.supervisor is not None
    for pid in (status.supervisor.pid, *site.pids_of("vllm.entrypoints"), *site.pids_of("VLLM::")):
        kill(pid)
    assert "and so is its engine" in site.run("status").stderr
    assert site.await_state(State.FAILED).status.adopted
    site.assert_nothing_is_left()


def test_a_killed_log_program_is_replaced(site: Site) -> None:
    """Without it the engine's next writes would block; what it wrote meanwhile is in the log."""
    site.released()
    (pump,) = site.pids_of("pump.py")
    kill(pump)
    until(lambda: [pid for pid in site.pids_of("pump.py") if pid != pump], "another one runs")
    assert site.get("/v1/models") == 200
    assert site.down().returncode == 0
    assert "Application shutdown complete" in Path(site.record().birth.log_path).read_text()


# --- what is recorded is not what is there --------------------------------------------------------------------


def test_a_reboot_is_recognised_and_nothing_is_signalled(site: Site) -> None:
    """The boot id on record is another: its pids mean other programs now."""
    engine = site.released().status.engine
    assert engine is not None
    site.doctor("birth", lambda birth: birth.update(boot_id="00000000-0000-0000-0000-000000000000"))
    said = site.run("status").stderr
    assert "state.reboot" in said and f"--name {NAME}" in said
    assert site.record().status.state is State.FAILED
    assert site.pids_of("vllm.entrypoints") == [engine.pid]
    assert "failed" in site.down().stdout
    assert site.pids_of("vllm.entrypoints") == [engine.pid]


def test_a_pid_that_belongs_to_another_program_is_never_signalled(site: Site) -> None:
    """Engine and supervisor died long ago, and their pids were given to somebody else."""
    status = site.released().status
    assert status.supervisor is not None
    for pid in (status.supervisor.pid, *site.pids_of("vllm.entrypoints"), *site.pids_of("VLLM::")):
        kill(pid)
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as stranger:

        def now_a_stranger(record: dict[str, Any]) -> None:
            for who in ("engine", "supervisor"):
                record[who]["pid"] = stranger.pid

        site.doctor("status", now_a_stranger)
        site.run("status")
        site.await_state(State.FAILED)
        site.down()
        try:
            assert stranger.poll() is None
        finally:
            stranger.kill()


# --- what goes wrong by itself --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phase", "named"),
    [("config", "told to refuse"), ("weights", "header"), ("kv-cache", "KV cache"), ("server", "TemplateSyntaxError")],
)
def test_a_crash_while_starting_is_a_failed_launch_with_its_cause(site: Site, phase: str, named: str) -> None:
    """Exit code 4, and the words that matter out of the log."""
    done = site.up(FAKE_CRASH_AT=phase)
    assert done.returncode == 4, done.stderr
    status = site.record().status
    assert status.state is State.FAILED and status.cause is not None
    assert named in f"{status.cause.what} {status.cause.seen}"
    assert status.cause.what in " ".join(done.stdout.split())
    site.assert_nothing_is_left()


def test_an_engine_that_dies_of_its_first_request_is_not_released(site: Site) -> None:
    """It was healthy until it was asked something."""
    done = site.up(FAKE_CRASH_AT="first-request", FAKE_CRASH_MESSAGE="ValueError: the KV dtype is not for this model")
    assert done.returncode == 4, done.stderr
    assert "the KV dtype is not for this model" in done.stdout
    assert site.record().status.state is State.FAILED
    site.assert_nothing_is_left()


def test_gibberish_is_refused(site: Site) -> None:
    """It serves, and what it says is worthless: exit code 1, never released, and the engine is ended."""
    done = site.up(FAKE_ANSWER="gibberish")
    assert done.returncode == 1, done.stderr
    assert "released" not in done.stderr
    assert site.record().status.why == "verification failed: coherence"
    site.assert_nothing_is_left()


def test_an_engine_that_hangs_is_given_up(site: Site) -> None:
    """Stuck, then ended: its GPUs are free again."""
    site.begin(FAKE_HANG_AT="weights")
    before = site.await_engine()
    until(site.home.segments, "it hangs")
    assert before.status.supervisor is not None
    kill(before.status.supervisor.pid)
    site.impatient(before.birth.id, 1, 1, 5).wait()
    status = site.record().status
    assert status.state is State.FAILED and "no sign of life" in status.why
    site.assert_nothing_is_left()


def test_an_engine_that_hangs_while_it_serves_is_stuck_and_started_again(site: Site) -> None:
    """/health stays good; a request runs and no token comes. It is said, with what its processes are at; as it stays so
    and that is its policy, it is ended, started again and checked."""
    # the checks and the measurement take some sixty requests; all that come after them hang
    before = site.released("--restart", "on-failure", FAKE_HANG_AT="after:200")
    assert before.status.supervisor is not None
    answered = 0
    while site.complete(seconds=1):
        answered += 1
        assert answered < 300
    kill(before.status.supervisor.pid)
    supervisor = site.impatient(before.birth.id, 60, 60, 5, 12, 3, 0.2)
    stuck = site.await_state(State.STUCK).status
    assert "requests run, and not a token more" in stuck.why
    assert site.get("/health") == 200
    after = site.await_state(State.RELEASED).status
    assert after.starts == 2 and site.complete(seconds=10)
    (failed,) = after.failures
    assert failed.cause is not None and failed.cause.code == "engine.silent"
    if not shutil.which("py-spy", path=f"{os.environ['PATH']}:{Path(sys.executable).parent}"):
        pytest.skip("what its processes were at cannot be asked: no py-spy")
    if "stacks.txt" not in failed.cause.do:
        pytest.skip("its processes may not be traced here")
    stacks = Path(before.birth.log_path).with_name("stacks.txt").read_text()
    assert "not a token more" in stacks and "MainThread" in stacks and "engine_core.py" in stacks
    assert site.down().returncode == 0
    supervisor.wait()
    site.assert_nothing_is_left()


def test_an_engine_that_ignores_sigterm_is_killed(site: Site) -> None:
    """After the grace, with all of its processes."""
    before = site.released(FAKE_IGNORE_TERM="1")
    assert before.status.supervisor is not None
    kill(before.status.supervisor.pid)
    supervisor = site.impatient(before.birth.id, 60, 60, 1)
    until(lambda: site.record().status.adopted, "it is adopted")
    assert site.down().returncode == 0
    supervisor.wait()
    assert site.record().status.state is State.STOPPED
    site.assert_nothing_is_left()


# --- what people do -------------------------------------------------------------------------------------------


def test_ctrl_c_detaches(site: Site) -> None:
    """It says how to stop, and the deployment is released all the same."""
    up = site.begin(FAKE_LOAD_SECONDS="2")
    site.await_engine()
    os.killpg(up.pid, signal.SIGINT)
    assert up.wait(30) == 130
    assert f"holddown down {NAME}" in site.said(up)
    site.await_state(State.RELEASED)
    assert site.down().returncode == 0
    site.assert_nothing_is_left()


def test_ctrl_c_stops_what_shall_not_detach(site: Site) -> None:
    """`--no-detach`: when the command is over, so is the engine."""
    up = site.begin("--no-detach", FAKE_LOAD_SECONDS="20")
    site.await_engine()
    os.killpg(up.pid, signal.SIGINT)
    assert up.wait(30) == 130
    assert site.record().status.state is State.STOPPED
    site.assert_nothing_is_left()


@pytest.mark.parametrize("words", [(), ("--no-detach",)])
def test_ctrl_c_as_soon_as_it_is_on_record(site: Site, words: tuple[str, ...]) -> None:
    """Before anything is shown of it, too, `up` says what becomes of it, and does that."""
    up = site.begin(*words, FAKE_LOAD_SECONDS="20")
    while site.find() is None and up.poll() is None:
        pass  # no pause: the moment is short
    os.killpg(up.pid, signal.SIGINT)
    assert up.wait(30) == 130
    assert ("stopping" if words else f"holddown down {NAME}") in site.said(up)
    assert site.record().status.state.over == bool(words)
    assert site.down().returncode == 0
    site.assert_nothing_is_left()


def test_down_twice_and_while_it_starts(site: Site) -> None:
    """The first stops it wherever it is; the second says that there is nothing to stop. Both succeed."""
    up = site.begin(FAKE_LOAD_SECONDS="20")
    until(site.find, "it is on record")
    first = site.down()
    assert first.returncode == 0 and f"{NAME} is stopped" in first.stdout
    second = site.down()
    assert second.returncode == 0 and f"{NAME} is not up" in second.stdout
    assert up.wait(30) == 1, "it was asked to stop: no failure of the engine's"
    site.assert_nothing_is_left()


def test_down_ends_a_deployment_whose_checks_hang(site: Site) -> None:
    """A request that is never answered keeps neither the engine nor its supervisor."""
    site.begin(FAKE_HANG_AT="request")
    site.await_state(State.READY)
    assert site.down().returncode == 0
    site.assert_nothing_is_left()


def test_of_two_ups_of_one_name_one_wins(site: Site) -> None:
    """At the same moment: one engine, and the other command says why there is no second."""
    both = [site.begin(), site.begin("--port", str(free_port()))]
    codes = [each.wait(60) for each in both]
    assert sorted(codes) == [0, 2], [site.said(each) for each in both]
    loser = site.said(both[codes.index(2)])
    assert f"a deployment named {NAME} is" in loser and f"holddown down {NAME}" in loser
    assert len(site.pids_of("vllm.entrypoints")) == 1
    assert site.down().returncode == 0


def test_a_port_in_use_is_said_before_the_launch(site: Site) -> None:
    """By whom, and nothing is started or recorded."""
    holder = site.released().birth.spec.port
    done = site.run("up", str(site.checkpoint), "--name", "other", "--port", str(holder))
    assert done.returncode == 1
    assert str(holder) in done.stderr and f"pid {site.record().status.engine.pid}" in done.stderr  # type: ignore[union-attr]
    assert "bringing up" not in done.stderr
    assert [each["birth"]["name"] for each in json.loads(site.run("list", "--json").stdout)] == [NAME]
    site.down()


def test_a_port_that_a_starting_deployment_will_bind_is_taken(site: Site) -> None:
    """Its engine binds it minutes from now, and a second `up` must not be given the same."""
    site.begin(FAKE_HANG_AT="config")
    first = site.await_engine()
    port = str(first.birth.spec.port)
    shown = site.run("up", str(site.checkpoint), "--name", "other", "--port", port, "--dry-run")
    assert shown.returncode == 1 and f"the deployment {NAME}" in shown.stdout, shown.stderr
    assert site.down().returncode == 0


def test_a_skipped_check_is_said_everywhere(site: Site) -> None:
    """Released, coherence unverified: in `up`, `status`, `list` and every `--json`."""
    done = site.up("--skip-check", "coherence", FAKE_ANSWER="gibberish")
    assert done.returncode == 0, done.stderr
    label = "released (coherence unverified)"
    assert label in done.stdout
    assert label in site.run("status", NAME).stdout
    assert label in site.run("list").stdout
    skipped = [one["check"] for one in site.status_json()["status"]["verdicts"] if one["outcome"] == "skipped"]
    assert skipped == ["coherence"]
    site.down()


# --- keys -----------------------------------------------------------------------------------------------------


def test_an_api_key_stays_in_the_engines_environment(site: Site) -> None:
    """Asked for by the endpoint, and in no command line, record, log or answer of ours."""
    key = "sk-only-the-engine-knows"
    file = site.home.path / "key"
    file.write_text(key + "\n")
    file.chmod(0o600)
    done = site.up("--api-key-file", str(file), "--json")
    assert done.returncode == 0, done.stderr
    assert (site.get("/v1/models"), site.get("/v1/models", key)) == (401, 200)
    assert site.titles() and not [title for title in site.titles() if key in title]
    texts = [done.stdout, done.stderr]
    texts += [site.run(*words).stdout for words in (["status", NAME, "--json"], ["logs", NAME], ["explain", NAME])]
    assert not [text for text in texts if key in text]
    site.down()
    kept = [path for path in (site.home.path / "state").rglob("*") if path.is_file()]
    assert site.database in kept and not [path for path in kept if key.encode() in path.read_bytes()]


def test_an_open_endpoint_needs_a_key(site: Site) -> None:
    """Beyond loopback without one is refused, with what to do."""
    done = site.up("--host", "0.0.0.0")
    assert done.returncode == 2
    assert "--api-key-file" in done.stderr and site.find() is None


# --- logs -----------------------------------------------------------------------------------------------------


def test_a_flood_of_log_is_taken(site: Site) -> None:
    """Ten megabytes while it is being measured: released, and the last lines can be had."""
    site.released(FAKE_LOG_FLOOD=str(10 * 1024**2))
    log = Path(site.record().birth.log_path)
    until(lambda: log.stat().st_size > 10 * 1024**2, "all of it is in the log")
    assert len(site.run("logs", NAME, "-n", "5").stdout.splitlines()) == 5
    assert site.down().returncode == 0


def test_logs_are_followed_until_the_deployment_is_over(site: Site) -> None:
    """Whatever the engine writes, each line once, to its last word."""
    site.released()
    with subprocess.Popen(
        [sys.executable, "-m", "holddown", "logs", "-f", "-n", "1", NAME],
        env=site.home.env,
        stdout=subprocess.PIPE,
        text=True,
    ) as following:
        assert following.stdout is not None
        following.stdout.readline()
        site.down()
        assert following.wait(30) == 0
        assert "Application shutdown complete" in following.stdout.read()


@pytest.fixture
def small_disk(site: Site) -> Iterator[Path]:
    """Sixteen megabytes where the logs go."""
    folder: Path = site.home.path / "state" / "holddown" / "deployments"
    folder.mkdir(parents=True)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"a small tmpfs cannot be mounted: {mounted.stderr.decode().strip()}")
    yield folder
    site.home.end_processes()
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_costs_log_lines_and_no_engine(site: Site, small_disk: Path) -> None:
    """Released on a full disk, noted on record, and the log goes on when there is room again."""
    filler = small_disk / "filler"
    up = site.begin(FAKE_LOAD_SECONDS="3")
    deployment = site.await_engine()
    with pytest.raises(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 16))
    assert up.wait(60) == 0, site.said(up)
    until(lambda: [note for note in site.record().status.notes if note.code == "disk.log-full"], "it is noted")
    assert site.get("/v1/models") == 200
    filler.unlink()
    assert site.get("/v1/models") == 200
    assert site.down().returncode == 0
    log = Path(deployment.birth.log_path).read_text()
    assert "bytes of output were lost here: No space left on device" in log
    assert "Application shutdown complete" in log


# --- others ---------------------------------------------------------------------------------------------------


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a file of another user, which only root may")
def test_another_users_shared_memory_survives_everything(site: Site) -> None:
    """Made while our engine starts, named as an engine's, in nobody's hands: still not ours."""
    site.begin(FAKE_HANG_AT="weights")
    site.await_engine()
    until(lambda: site.record().status.segments, "its segment is on record")
    theirs = Path("/dev/shm/psm_of_another_user")
    theirs.write_bytes(b"theirs")
    os.chown(theirs, 61987, 61987)
    try:
        for pid in site.pids_of("vllm.entrypoints") + site.pids_of("VLLM::"):
            kill(pid)
        site.await_state(State.FAILED)
        site.assert_nothing_is_left()
        assert theirs.read_bytes() == b"theirs"
    finally:
        theirs.unlink()


def test_status_tells_what_it_has_to_do(site: Site) -> None:
    """By the engine's own metrics, as it is asked."""
    site.released()
    assert "load      0 running, 0% of the KV cache in use" in site.run("status", NAME).stdout
    assert site.down().returncode == 0
