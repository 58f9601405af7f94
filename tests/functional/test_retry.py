"""A start that fails of a known cause is mended and tried again, with a record of each, and within its limits."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.failing_logs import failing_logs
from functional.deployed import NAME, Site
from holddown.base.evidence import SourceKind
from holddown.edges.store import SqliteStore
from holddown.launch.lifecycle import State
from holddown.remember.record import Deployment

SAID = frozenset({
    "unknown-flag", "bad-parser-on-cpu", "unsupported-architecture", "heads-not-divisible", "shard-cut-short",
    "no-tokenizer", "port-taken-vllm",
})  # fmt: skip


@pytest.fixture
def site(home: Any, holddown: Any, fake_engine_added: str, tiny_checkpoint: Path) -> Iterator[Site]:
    site = Site(home, holddown, tiny_checkpoint)
    yield site
    site.down()


def starts(site: Site) -> list[Deployment]:
    """All of them, the first one first."""
    return sorted(SqliteStore(site.database).all(), key=lambda each: each.birth.created_at)


def test_a_context_that_is_too_long_is_shortened_and_released(site: Site) -> None:
    """The engine names the length that fits; the record of both starts stands, and explain tells why."""
    done = site.up(FAKE_ROOM_TOKENS="1024")

    assert done.returncode == 0, done.stderr
    first, second = starts(site)
    assert (first.status.state, second.status.state) == (State.FAILED, State.RELEASED)
    assert first.status.edits == (("max-model-len", "1024"),)
    assert second.birth.after == first.birth.id
    setting = second.birth.plan.setting("max-model-len")
    assert setting is not None and setting.value == "1024"
    assert setting.source.kind is SourceKind.MEASURED
    assert "trying again with --set max-model-len=1024" in done.stderr
    told = site.run("explain", NAME, "max-model-len").stdout
    assert "one sequence of 4096 tokens needs 8.00 GiB" in told
    assert first.birth.id in told
    assert "start 2" in site.run("explain", NAME).stdout


def test_what_the_user_set_is_not_changed_unasked(site: Site) -> None:
    """It says so, and which word would let it."""
    done = site.up("--set", "max-model-len=2048", FAKE_ROOM_TOKENS="1024")

    assert done.returncode == 4
    assert len(starts(site)) == 1
    assert "--set max-model-len is yours" in done.stderr
    assert "--retry-user-settings" in done.stderr


def test_with_consent_what_the_user_set_is_changed(site: Site) -> None:
    """Once said, it counts."""
    done = site.up("--set", "max-model-len=2048", "--retry-user-settings", FAKE_ROOM_TOKENS="1024")

    assert done.returncode == 0, done.stderr
    assert len(starts(site)) == 2
    assert "--max-model-len 1024" in site.run("explain", NAME).stdout


def test_it_is_tried_again_twice_and_no_more(site: Site) -> None:
    """A cause that comes back with another figure each time."""
    done = site.up(FAKE_CRASH_AT="kv-cache")

    assert done.returncode == 4
    assert [each.status.state for each in starts(site)] == [State.FAILED] * 3
    assert "is left to you" in done.stderr
    site.assert_nothing_is_left()


def test_no_retry_is_one_start(site: Site) -> None:
    """As before."""
    done = site.up("--no-retry", FAKE_ROOM_TOKENS="1024")

    assert done.returncode == 4
    assert len(starts(site)) == 1
    assert "trying again" not in done.stderr


def test_a_cause_without_a_safe_change_is_one_start(site: Site) -> None:
    """Nothing of the plan mends a broken file."""
    done = site.up(FAKE_CRASH_AT="weights")

    assert done.returncode == 4
    assert len(starts(site)) == 1


def test_what_real_engines_said_is_the_cause_of_a_failed_start(site: Site, tmp_path: Path) -> None:
    """Captured from vLLM: `up` says what it was, with its exit code, and what to do; nothing is left."""
    for log in (each for each in failing_logs() if each.name in SAID):
        file = tmp_path / "engine.log"
        file.write_text(log.log, encoding="utf-8")
        done = site.up("--no-retry", FAKE_CRASH_LOG=str(file), FAKE_EXIT_CODE=str(log.exit))

        assert done.returncode == 4, done.stderr
        cause = site.record().status.cause
        assert cause is not None and cause.code == log.code
        assert log.what in cause.what and log.do in cause.do
        assert cause.what in " ".join(done.stdout.split())
        site.assert_nothing_is_left()
