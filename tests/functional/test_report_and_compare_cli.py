"""`report`, `compare` and `status --watch` as a user types them: on one deployment of the fake engine."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.reports import a_load, a_sweep
from functional.deployed import NAME, Site
from holddown.edges.store import SqliteStore
from holddown.launch.lifecycle import State
from holddown.measure.run import Closed


@pytest.fixture
def site(home: Any, holddown: Any, fake_engine_added: str, tiny_checkpoint: Path) -> Iterator[Site]:
    yield Site(home, holddown, tiny_checkpoint)


def watched(site: Site, lines: int) -> tuple[list[dict[str, Any]], int]:
    """The first lines of `status --watch --json`, and how the view ended when Ctrl-C was pressed then."""
    command = [sys.executable, "-m", "holddown", "status", NAME, "--watch", "--json"]
    with subprocess.Popen(command, env=site.home.env, stdout=subprocess.PIPE, text=True) as view:
        assert view.stdout is not None
        seen = [json.loads(view.stdout.readline()) for _ in range(lines)]
        view.send_signal(signal.SIGINT)
        return seen, view.wait(30)


def test_what_is_on_record_is_watched_reported_and_compared(site: Site, tmp_path: Path) -> None:
    """The view ends and the deployment does not; one page, below a megabyte; two runs beside each other."""
    deployment = site.released()
    seen, code = watched(site, 2)
    assert [each["state"] for each in seen] == ["released", "released"]
    assert all(each["answers"] is True for each in seen) and code == 0
    assert site.record().status.state is State.RELEASED

    store = SqliteStore(site.database)
    slower = tuple(a_load(Closed(users), token_ms=20.0) for users in (1, 4))
    store.add_run(a_sweep("be0c0001", deployment.birth.id, tuple(a_load(Closed(users)) for users in (1, 4))))
    store.add_run(a_sweep("be0c0002", deployment.birth.id, slower))
    store.close()

    out = tmp_path / "page.html"
    done = site.run("report", NAME, "--out", str(out), "--json")
    document = json.loads(done.stdout)
    assert document == {
        "file": str(out),
        "bytes": out.stat().st_size,
        "deployment": deployment.birth.id,
        "bench_run": document["bench_run"],
        "verify_run": None,
    }
    text = out.read_text(encoding="utf-8")
    assert len(text) < 1_000_000 and text.count("<svg") == 4
    assert "tiny-llama" in text and "http://127.0.0.1" in text and "<script" not in text

    nowhere = site.run("report", NAME, "--out", str(tmp_path / "no" / "page.html"))
    assert nowhere.returncode == 3 and "report.unwritable" in nowhere.stderr

    compared = site.run("compare", "be0c0001", "be0c0002")
    assert compared.returncode == 0 and "B is slower in" in compared.stdout
    site.down()
    over = site.run("status", NAME, "--watch", "--json")
    assert over.returncode == 1 and json.loads(over.stdout)["is_over"] is True


def test_words_that_name_nothing_are_told_so(site: Site, tmp_path: Path) -> None:
    """One side alone, a folder, and a view of nothing in particular."""
    store = SqliteStore(site.database)
    store.add_run(a_sweep("be0c0001", ""))
    store.close()
    for words, code in (
        (("compare", "be0c0001"), "usage.compare"),
        (("compare", "be0c0001", str(tmp_path)), "compare.nothing"),
        (("status", "--watch"), "usage.watch"),
    ):
        done = site.run(*words)
        assert (done.returncode, code in done.stderr) == (2, True), done.stderr
