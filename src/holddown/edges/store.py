"""The record store: SQLite in WAL mode, so a killed writer loses at most the event it was writing."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holddown.base.codec import dumps, loads
from holddown.base.errors import StoreError
from holddown.remember.record import Birth, Deployment, Entry, Happening, Status, in_the_way
from holddown.remember.run import Run
from holddown.remember.switching import Switching
from holddown.remember.trust import TrustedCode

# Numbered by their place; one that was released is never edited, only followed by another.
MIGRATIONS = (
    """
    CREATE TABLE deployment (
        id TEXT PRIMARY KEY,
        name TEXT NOT NULL,
        active INTEGER NOT NULL,
        created_at REAL NOT NULL,
        birth TEXT NOT NULL,
        status TEXT NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX one_active_per_name ON deployment (name) WHERE active;
    CREATE TABLE happening (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        deployment TEXT NOT NULL REFERENCES deployment (id),
        at REAL NOT NULL,
        body TEXT NOT NULL
    ) STRICT;
    CREATE INDEX happenings_of_a_deployment ON happening (deployment, seq);
    """,
    """
    CREATE TABLE trusted_code (seq INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT NOT NULL) STRICT;
    """,
    # a budget's `other_bytes` became a sum, of which what was planned then is the one part
    """
    UPDATE deployment
    SET birth = json_set(birth, '$.plan.budget.runtime_bytes', json_extract(birth, '$.plan.budget.other_bytes'))
    WHERE json_extract(birth, '$.plan.budget.other_bytes') IS NOT NULL;
    """,
    """
    CREATE TABLE switching (before TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT;
    """,
    """
    CREATE TABLE run (id TEXT PRIMARY KEY, at REAL NOT NULL, of TEXT NOT NULL, body TEXT NOT NULL) STRICT;
    CREATE INDEX runs_of_a_server ON run (of, at);
    """,
)


class SqliteStore:
    """One file. Every call opens no longer than it takes; writers wait for each other up to `patience_s`."""

    def __init__(self, path: Path, patience_s: float = 10.0) -> None:
        self._path = path
        self._patience_s = patience_s
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._db = sqlite3.connect(path, timeout=patience_s, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise self._error("cannot be opened", error) from error
        try:
            with self._translated("cannot be read"):
                self._migrate()
        except StoreError:
            self.close()
            raise

    def close(self) -> None:
        self._db.close()

    def _migrate(self) -> None:
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version > len(MIGRATIONS):
            raise StoreError(
                f"the record store is of a newer holddown: version {version}, and this one knows {len(MIGRATIONS)}",
                code="store.newer",
                seen=str(self._path),
                do="update holddown; the store was left as it is",
            )
        self._use_wal()
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute("PRAGMA foreign_keys = ON")
        while version < len(MIGRATIONS):
            # read again under the write lock: two first commands may start at once
            self._db.execute("BEGIN IMMEDIATE")
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version < len(MIGRATIONS):
                for statement in MIGRATIONS[version].split(";"):
                    self._db.execute(statement)
                version += 1
                self._db.execute(f"PRAGMA user_version = {version}")
            self._db.execute("COMMIT")

    def _use_wal(self) -> None:
        """It stays with the file. SQLite's own patience does not hold for this: two first commands may meet here."""
        deadline = time.monotonic() + self._patience_s
        while self._db.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def create(self, birth: Birth, status: Status) -> Deployment | None:
        """Records a new deployment, or gives the active one that is in its way: of two `up`s at once one wins."""
        with self._transaction():
            rows = self._db.execute("SELECT birth, status FROM deployment WHERE active ORDER BY created_at").fetchall()
            for there in map(_deployment, rows):
                if in_the_way(there.birth, birth):
                    return there
            self._db.execute(
                "INSERT INTO deployment VALUES (?, ?, ?, ?, ?, ?)",
                (birth.id, birth.name, not status.state.over, birth.created_at, dumps(birth), dumps(status)),
            )
        return None

    def write(self, deployment_id: str, status: Status, happenings: tuple[Happening, ...], at: float) -> None:
        """Replaces the status and appends what happened, in one transaction."""
        with self._transaction():
            self._db.execute(
                "UPDATE deployment SET status = ?, active = ? WHERE id = ?",
                (dumps(status), not status.state.over, deployment_id),
            )
            self._db.executemany(
                "INSERT INTO happening (deployment, at, body) VALUES (?, ?, ?)",
                [(deployment_id, at, dumps(happening, Happening)) for happening in happenings],
            )

    def get(self, deployment_id: str) -> Deployment | None:
        return self._one("SELECT birth, status FROM deployment WHERE id = ?", deployment_id)

    def latest(self, name: str) -> Deployment | None:
        """The newest deployment of that name, or the one with that id."""
        return self._one(
            "SELECT birth, status FROM deployment WHERE name = ? ORDER BY created_at DESC", name
        ) or self.get(name)

    def all(self, *, active_only: bool = False) -> tuple[Deployment, ...]:
        """Oldest first."""
        where = "WHERE active " if active_only else ""
        with self._translated("cannot be read"):
            rows = self._db.execute(f"SELECT birth, status FROM deployment {where}ORDER BY created_at").fetchall()
            return tuple(_deployment(row) for row in rows)

    def entries(self, deployment_id: str, after: int = 0) -> tuple[Entry, ...]:
        with self._translated("cannot be read"):
            rows = self._db.execute(
                "SELECT seq, at, body FROM happening WHERE deployment = ? AND seq > ? ORDER BY seq",
                (deployment_id, after),
            ).fetchall()
            return tuple(Entry(seq, at, loads(Happening, body)) for seq, at, body in rows)  # type: ignore[arg-type]

    def trust(self, code: TrustedCode) -> None:
        with self._transaction():
            self._db.execute("INSERT INTO trusted_code (body) VALUES (?)", (dumps(code),))

    def trusted(self) -> tuple[TrustedCode, ...]:
        with self._translated("cannot be read"):
            rows = self._db.execute("SELECT body FROM trusted_code ORDER BY seq DESC").fetchall()
            return tuple(loads(TrustedCode, body) for (body,) in rows)

    def put_switching(self, switching: Switching) -> None:
        with self._transaction():
            row = (switching.before, dumps(switching))
            self._db.execute("INSERT OR REPLACE INTO switching VALUES (?, ?)", row)

    def end_switching(self, before: str) -> None:
        with self._transaction():
            self._db.execute("DELETE FROM switching WHERE before = ?", (before,))

    def switchings(self) -> tuple[Switching, ...]:
        with self._translated("cannot be read"):
            rows = self._db.execute("SELECT body FROM switching").fetchall()
            return tuple(loads(Switching, body) for (body,) in rows)

    def add_run(self, run: Run) -> None:
        with self._transaction():
            row = (run.id, run.at, run.subject.key, dumps(run, Run))
            self._db.execute("INSERT INTO run VALUES (?, ?, ?, ?)", row)

    def run(self, run_id: str) -> Run | None:
        with self._translated("cannot be read"):
            row = self._db.execute("SELECT body FROM run WHERE id = ?", (run_id,)).fetchone()
            return _run(row[0]) if row else None

    def runs(self, of: str) -> tuple[Run, ...]:
        with self._translated("cannot be read"):
            rows = self._db.execute("SELECT body FROM run WHERE of = ? ORDER BY at DESC", (of,)).fetchall()
            return tuple(_run(body) for (body,) in rows)

    def _one(self, query: str, value: str) -> Deployment | None:
        with self._translated("cannot be read"):
            row = self._db.execute(query, (value,)).fetchone()
            return _deployment(row) if row else None

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._translated("cannot be written"):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # a full disk makes SQLite roll back by itself
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, ValueError) as error:
            raise self._error(what, error) from error

    def _error(self, what: str, error: Exception) -> StoreError:
        locked = "locked" in str(error)
        return StoreError(
            f"the record store {what}: {error}",
            code="store.locked" if locked else "store.unusable",
            seen=str(self._path),
            do="run it again in a moment" if locked else "check the disk and the file's owner; nothing was changed",
        )


def _deployment(row: tuple[str, str]) -> Deployment:
    return Deployment(loads(Birth, row[0]), loads(Status, row[1]))


def _run(body: str) -> Run:
    return loads(Run, body)  # type: ignore[arg-type]
