"""The record store against real files and real processes."""

import hashlib
import json
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fakes.records import a_birth, a_plan
from fakes.runs import a_bench_run, a_subject
from holddown.base.errors import StoreError
from holddown.edges.store import MIGRATIONS, SqliteStore
from holddown.launch.lifecycle import State
from holddown.remember.record import Growing, Status

STARTING = Status(State.STARTING, 1.0)
CAPTURES = Path(__file__).parent.parent / "captures" / "records"


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """By another connection, with its events in their order."""
    path = tmp_path / "records.sqlite"
    store = SqliteStore(path)
    assert store.create(a_birth(), STARTING) is None
    store.write("0123abcd", Status(State.RELEASED, 2.0), (Growing(1, 2), Growing(3, 4)), 5.0)
    other = SqliteStore(path)
    found = other.latest("m")
    assert found is not None and (found.birth, found.status.state) == (a_birth(), State.RELEASED)
    entries = other.entries("0123abcd")
    assert [entry.happening for entry in entries] == [Growing(1, 2), Growing(3, 4)]
    assert other.entries("0123abcd", entries[0].seq) == entries[1:]


def test_one_name_is_up_once(tmp_path: Path) -> None:
    """The second gets the first; once that is over, the name is free."""
    store = SqliteStore(tmp_path / "records.sqlite")
    store.create(a_birth(), STARTING)
    there = store.create(a_birth(id="11111111"), STARTING)
    assert there is not None and there.birth.id == "0123abcd"
    store.write("0123abcd", Status(State.STOPPED, 2.0), (), 2.0)
    assert store.create(a_birth(id="11111111", created_at=10_001.0), STARTING) is None
    assert [each.birth.id for each in store.all(active_only=True)] == ["11111111"]
    latest = store.latest("m")
    assert latest is not None and latest.birth.id == "11111111"


def test_runs_are_found_by_the_server_they_asked(tmp_path: Path) -> None:
    """Newest first; by its id each."""
    store = SqliteStore(tmp_path / "records.sqlite")
    older, newer = a_bench_run(), a_bench_run(id="be0c0002", at=10_002.0)
    store.add_run(newer)
    store.add_run(older)
    store.add_run(replace(older, id="be0c0003", subject=a_subject(deployment="ffffffff")))
    assert store.runs("0123abcd") == (newer, older)
    assert store.run("be0c0001") == older
    assert store.run("be0c0009") is None


@pytest.mark.parametrize(
    ("port", "gpus", "by_user", "free"),
    [(8000, (1,), False, False), (9000, (0,), False, False), (9000, (0,), True, True), (9000, (1,), False, True)],
)
def test_of_two_ups_at_once_one_gets_a_port_and_a_gpu(
    tmp_path: Path, port: int, gpus: tuple[int, ...], by_user: bool, free: bool
) -> None:
    """Both plans were made before either was on record. A GPU that the user names is shared knowingly."""
    store = SqliteStore(tmp_path / "records.sqlite")
    first = a_birth(plan=replace(a_plan(), gpus=(0,)))
    assert store.create(replace(first, spec=replace(first.spec, port=8000)), STARTING) is None
    second = a_birth(id="11111111", plan=replace(a_plan(), gpus=gpus))
    second = replace(second, name="other", spec=replace(second.spec, port=port), gpus_by_user=by_user)
    there = store.create(second, STARTING)
    assert (there is None) is free


def test_records_of_the_first_schema_are_read(tmp_path: Path) -> None:
    """A deployment that an older holddown left up must be seen, and can be stopped, after an update."""
    older = json.loads((CAPTURES / "of-schema-1.json").read_text(encoding="utf-8"))
    path = tmp_path / "records.sqlite"
    with sqlite3.connect(path) as database:
        database.executescript(MIGRATIONS[0])
        row = ("0123abcd", "m", 1, 10_000.0, json.dumps(older["birth"]), json.dumps(older["status"]))
        database.execute("INSERT INTO deployment VALUES (?, ?, ?, ?, ?, ?)", row)
        database.execute("PRAGMA user_version = 1")
    database.close()
    (found,) = SqliteStore(path).all(active_only=True)
    assert (found.birth.plan.budget.other_bytes, found.birth.plan.budget.free_bytes) == (5, 65)
    assert (found.birth.model.name, found.status.state) == ("llama", State.RELEASED)


def test_a_store_of_a_newer_version_is_refused_unchanged(home: Any, holddown: Any) -> None:
    """Exit code 5, and not a byte of it is touched."""
    path = home.path / "state" / "holddown" / "records.sqlite"
    path.parent.mkdir()
    SqliteStore(path).close()
    with sqlite3.connect(path) as database:
        database.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    database.close()
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    done = holddown("list")
    assert done.returncode == 5 and "newer" in done.stderr
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before


@pytest.mark.parametrize("content", [b"this is no database" * 100, b""])
def test_a_damaged_store_is_an_error_with_a_way_out(tmp_path: Path, content: bytes) -> None:
    """An empty file is a new store; any other that is no store is refused by name."""
    path = tmp_path / "records.sqlite"
    path.write_bytes(content)
    if not content:
        assert SqliteStore(path).all() == ()
        return
    with pytest.raises(StoreError) as raised:
        SqliteStore(path)
    assert raised.value.seen == str(path)
    assert path.read_bytes() == content


WRITER = """
import sys
from pathlib import Path
from holddown.edges.store import SqliteStore
from holddown.launch.lifecycle import State
from holddown.remember.record import Growing, Status
store = SqliteStore(Path(sys.argv[1]))
for number in range(1_000_000):
    store.write("0123abcd", Status(State.STARTING, float(number)), (Growing(number, 0),), 1.0)
    print(number, flush=True)
"""


def test_a_killed_writer_loses_at_most_its_last_event(tmp_path: Path) -> None:
    """SIGKILL in the middle of many writes: all that it had finished is there, and the store goes on working."""
    path = tmp_path / "records.sqlite"
    store = SqliteStore(path)
    store.create(a_birth(), STARTING)
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for line in writer.stdout:
            if int(line) >= 50:
                break
        writer.kill()
        said = [int(line), *(int(rest) for rest in writer.stdout.read().split("\n")[:-1] if rest)]
    entries = store.entries("0123abcd")
    assert max(said) <= len(entries) - 1 <= max(said) + 1
    assert [entry.happening for entry in entries] == [Growing(number, 0) for number in range(len(entries))]
    found = store.get("0123abcd")
    assert found is not None and found.status.since == len(entries) - 1
    store.write("0123abcd", STARTING, (), 2.0)


def test_many_first_commands_at_once_make_one_store(tmp_path: Path) -> None:
    """A fresh machine, and a script that calls holddown four times in parallel."""
    path = tmp_path / "new" / "records.sqlite"
    code = (
        "import sys, time; from pathlib import Path; from holddown.edges.store import SqliteStore;"
        "time.sleep(max(0, float(sys.argv[2]) - time.time())); print(len(SqliteStore(Path(sys.argv[1])).all()))"
    )
    at = str(time.time() + 1.0)
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path), at], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for _ in range(6)
    ]
    assert [each.communicate()[0] for each in started] == ["0\n"] * 6


def test_a_store_that_another_holds_is_said_to_be_locked(tmp_path: Path) -> None:
    """It is worth trying again, and that is what it says."""
    path = tmp_path / "records.sqlite"
    store = SqliteStore(path, patience_s=0.1)
    store.create(a_birth(), STARTING)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError) as raised:
        store.write("0123abcd", STARTING, (), 1.0)
    assert raised.value.code == "store.locked"
    holder.execute("ROLLBACK")
    holder.close()
    store.write("0123abcd", STARTING, (), 1.0)


def test_the_store_is_its_owners_alone(tmp_path: Path) -> None:
    """It holds paths and command lines."""
    path = tmp_path / "holddown" / "records.sqlite"
    SqliteStore(path)
    assert path.parent.stat().st_mode & 0o077 == 0


def test_a_full_disk_is_named_and_passes(tmp_path: Path) -> None:
    """SQLite rolls back by itself then; what was tried is written when there is room again."""
    store = SqliteStore(tmp_path / "records.sqlite")
    store.create(a_birth(), STARTING)
    pages = store._db.execute("PRAGMA page_count").fetchone()[0]
    store._db.execute(f"PRAGMA max_page_count = {pages}")
    many = tuple(Growing(number, 0) for number in range(2000))
    with pytest.raises(StoreError, match="full"):
        store.write("0123abcd", STARTING, many, 5.0)
    store._db.execute("PRAGMA max_page_count = 1000000")
    store.write("0123abcd", STARTING, many, 5.0)
    assert len(store.entries("0123abcd")) == len(many)
