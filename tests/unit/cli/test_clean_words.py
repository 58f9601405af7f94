"""`holddown clean`: what is said, what is done, and the exit code."""

import json
from dataclasses import replace

import pytest

from fakes.leftovers import HERE, OWN, TRACES, FakeHost, FakeLeftovers, process
from holddown.base.evidence import Known
from holddown.cli.clean import Wish, clean
from holddown.facts.leftovers import FileId, Form, FoundFile, Kind, KnownEngine, View

DEAD = FoundFile("/dev/shm/psm_dead", Kind.SHM, Form.FILE, FileId(0, 26, 5), 1000, "me", 4096, 9_000.0, 9_000.0)
YOUNG = replace(DEAD, path="/dev/shm/psm_young", id=FileId(0, 26, 7), changed_at=9_999.0)
OVER = (KnownEngine("aaaa1111", 500, 50_000, "boot", active=False),)
LOST = process(600, "VLLM::EngineCore", session=500, cwd="/tmp/holddown-1000/aaaa1111")
BOBS = process(700, "VLLM::Worker_TP0", session=650, user="bob")
SHELL = (process(1, "/sbin/init", parent=0), process(899, "bash"), process(900, "holddown", parent=899, session=899))


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can be asked, whoever runs the tests."""
    monkeypatch.setattr("sys.stdin", None)


def machine(*files: FoundFile, lost: bool = False, bobs: bool = False) -> tuple[FakeHost, FakeLeftovers]:
    host = FakeHost([*SHELL, *([LOST] if lost else []), *([BOBS] if bobs else [])])
    return host, FakeLeftovers(host, replace(TRACES, files=files))


def test_a_clean_machine_is_yes(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is left: said so, exit 0."""
    assert clean(*machine(), OVER, Wish()) == 0
    assert capsys.readouterr().out == "nothing is left of dead engines\n"


@pytest.mark.parametrize("wish", [Wish(), Wish(dry_run=True), Wish(dry_run=True, yes=True), Wish(as_json=True)])
def test_without_a_yes_nothing_is_done(wish: Wish, capsys: pytest.CaptureFixture[str]) -> None:
    """No terminal, or --dry-run: everything is shown, nothing is touched, exit 1."""
    host, leftovers = machine(DEAD, lost=True)
    assert clean(host, leftovers, OVER, wish) == 1
    assert (leftovers.ended, leftovers.removed) == ([], [])
    out = capsys.readouterr().out
    assert "/dev/shm/psm_dead" in out
    assert "VLLM::EngineCore" in out


def test_with_yes_it_is_done_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    """What is shown first is what is then done; nothing is left, exit 0."""
    host, leftovers = machine(DEAD, lost=True)
    assert clean(host, leftovers, OVER, Wish(yes=True)) == 0
    assert (leftovers.ended, leftovers.removed) == ([600], ["/dev/shm/psm_dead"])
    shown, _, done = capsys.readouterr().out.partition("ended")
    assert "to end     pid 600 of me since" in shown
    assert "which is over" in shown
    assert "holds 600.0 KiB of memory, /dev/shm/psm_x, port 8000" in shown
    assert "dead: yours, more than 5 min 0 s old, and no process maps it or has it open" in shown
    assert "pid 600 (SIGTERM)" in done
    assert "removed    /dev/shm/psm_dead" in done
    assert done.endswith("nothing is left of dead engines\n")


def test_what_stays_makes_it_a_no(capsys: pytest.CaptureFixture[str]) -> None:
    """A young file and a stranger's process stay, with reason and remedy; exit 1 though something was done."""
    host, leftovers = machine(DEAD, YOUNG, bobs=True)
    assert clean(host, leftovers, OVER, Wish(yes=True)) == 1
    assert (leftovers.ended, leftovers.removed) == ([], ["/dev/shm/psm_dead"])
    out = capsys.readouterr().out.partition("still there")[2]
    assert "undecided: it is younger than 5 min" in out
    assert "do: holddown clean --pid 700" in out


@pytest.mark.parametrize(("file", "named"), [(YOUNG, 5), (DEAD, 40)])
def test_what_goes_is_named_to_the_last(file: FoundFile, named: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Forty files that stay are five and a count; forty that would go are forty."""
    many = (replace(file, path=f"/dev/shm/psm_{number}", id=FileId(0, 26, 100 + number)) for number in range(40))
    clean(*machine(*many), OVER, Wish(dry_run=True))
    out = capsys.readouterr().out
    assert out.count("/dev/shm/psm_") == named
    assert ("... and 35 more" in out) is (named == 5)


def test_what_live_processes_use_is_a_count(capsys: pytest.CaptureFixture[str]) -> None:
    """It is no leftover: one line, and exit 0."""
    holder = View(899, "bash", (1000,) * 4, Known(frozenset({DEAD.id}), HERE), Known(OWN, HERE))
    host, leftovers = machine(DEAD)
    leftovers.traces = replace(leftovers.traces, views=(holder,))
    assert clean(host, leftovers, OVER, Wish()) == 0
    assert "1 file(s) in use by live processes: no leftovers" in capsys.readouterr().out


def test_a_strangers_process_needs_its_name_and_a_yes() -> None:
    """--pid alone shows; --pid with --yes ends."""
    host, leftovers = machine(bobs=True)
    assert clean(host, leftovers, OVER, Wish(pids=(700,))) == 1
    assert leftovers.ended == []
    assert clean(host, leftovers, OVER, Wish(pids=(700,), yes=True)) == 0
    assert leftovers.ended == [700]


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    """With --yes what was done and what is left, as data."""
    host, leftovers = machine(DEAD, lost=True)
    clean(host, leftovers, OVER, Wish(yes=True, as_json=True))
    document = json.loads(capsys.readouterr().out)
    assert document["ended"] == [{"is": "Ended", "pid": 600, "signal": "SIGTERM"}]
    assert document["files"] == [{"is": "Removed", "path": "/dev/shm/psm_dead"}]
    assert document["left"]["suspects"] == []


def test_files_of_one_reason_are_under_one_heading(capsys: pytest.CaptureFixture[str]) -> None:
    """Their ages differ, and are no reason to tell them apart."""
    older = replace(DEAD, path="/dev/shm/psm_older", modified_at=DEAD.modified_at - 60, changed_at=DEAD.changed_at - 60)
    clean(*machine(DEAD, older), OVER, Wish(dry_run=True))
    assert capsys.readouterr().out.count("dead: ") == 1
