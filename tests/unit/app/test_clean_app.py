"""`clean`: what it would do, and what it does."""

from dataclasses import replace

import pytest

from fakes.leftovers import HERE, OWN, TRACES, FakeHost, FakeLeftovers, process, view
from holddown.app.clean import survey, sweep
from holddown.base.errors import UsageError
from holddown.base.evidence import Known, Unknown
from holddown.facts.leftovers import FileId, Form, FoundFile, Kind, KnownEngine, NotEnded, View
from holddown.facts.machine import Gpu, GpuProcess

DEAD = FoundFile("/dev/shm/psm_dead", Kind.SHM, Form.FILE, FileId(0, 26, 5), 1000, "me", 4096, 9_000.0, 9_000.0)
HELD = replace(DEAD, path="/dev/shm/psm_held", id=FileId(0, 26, 6))
YOUNG = replace(DEAD, path="/dev/shm/psm_young", id=FileId(0, 26, 7), changed_at=9_999.0)
OVER = KnownEngine("aaaa1111", 500, 50_000, "boot", active=False)
UP = replace(OVER, deployment_id="bbbb2222", active=True)
LOST = process(600, "VLLM::EngineCore", session=500, cwd="/tmp/holddown-1000/aaaa1111")
BOBS = process(700, "VLLM::Worker_TP0", session=650, user="bob")
HOLDER = View(600, "python", (1000,) * 4, Known(frozenset({HELD.id}), HERE), Known(OWN, HERE))
LINE = (
    process(1, "/sbin/init", parent=0),
    process(899, "bash"),
    process(900, "holddown clean", parent=899, session=899),
)


def machine(*files: FoundFile, stubborn: frozenset[int] = frozenset()) -> tuple[FakeHost, FakeLeftovers]:
    host = FakeHost([*LINE, LOST, BOBS])
    return host, FakeLeftovers(host, replace(TRACES, files=files, views=(HOLDER, view(899))), stubborn=stubborn)


def test_what_we_lost_and_what_it_alone_held_goes() -> None:
    """The lost process is ended first, so that its segment is nobody's; the young and the foreign stay."""
    host, leftovers = machine(DEAD, HELD, YOUNG)
    shown = survey(host, leftovers, (OVER,))
    assert [suspect.verdict.process.pid for suspect in shown.ending] == [600]
    swept = sweep(host, leftovers, (OVER,), shown)
    assert leftovers.ended == [600]
    assert leftovers.removed == ["/dev/shm/psm_dead", "/dev/shm/psm_held"]
    assert [verdict.file.path for verdict in swept.left.files] == ["/dev/shm/psm_young"]
    assert [suspect.verdict.process.pid for suspect in swept.left.suspects] == [700]
    assert not swept.left.clean


def test_a_file_that_was_not_shown_does_not_go() -> None:
    """Whoever agreed, agreed to what was shown."""
    host, leftovers = machine(DEAD)
    shown = survey(host, leftovers, (OVER,))
    leftovers.traces = replace(
        leftovers.traces, files=(DEAD, replace(DEAD, path="/dev/shm/psm_new", id=FileId(0, 26, 9)))
    )
    sweep(host, leftovers, (OVER,), shown)
    assert leftovers.removed == ["/dev/shm/psm_dead"]


def test_anybody_elses_goes_only_by_name() -> None:
    """With --pid it is among those to end, with what it holds, GPU memory too."""
    host, leftovers = machine()
    share = GpuProcess(700, Known(70, HERE), Unknown("fake"))
    host.gpus = (Gpu(3, "u", "H100", 80, 10, Unknown("-"), Unknown("-"), (), (share,)),)
    assert [suspect.verdict.process.pid for suspect in survey(host, leftovers, ()).ending] == []
    shown = survey(host, leftovers, (), [700])
    (suspect,) = shown.ending
    assert suspect.verdict.process == BOBS
    assert [(one.gpu, one.holder) for one in suspect.gpus] == [(3, share)]
    assert suspect.held.ports == (8000,)
    sweep(host, leftovers, (), shown, [700])
    assert leftovers.ended == [700]


def test_who_will_not_end_is_still_there_afterwards() -> None:
    """A refusal of the kernel is an answer, and the machine is not called clean."""
    host, leftovers = machine(stubborn=frozenset({600}))
    swept = sweep(host, leftovers, (OVER,), survey(host, leftovers, (OVER,)))
    assert swept.ended == (NotEnded(600, "it belongs to bob"),)
    assert 600 in [suspect.verdict.process.pid for suspect in swept.left.suspects]


def test_a_machine_without_traces_is_clean() -> None:
    """What a live process uses is no leftover."""
    host, leftovers = machine(HELD)
    host.alive = [*LINE, process(600, "python notebook.py")]
    assert survey(host, leftovers, ()).clean


@pytest.mark.parametrize(
    ("pid", "seen"),
    [
        (1, "runs under"),
        (899, "runs under"),
        (900, "this command itself"),
        (12345, "no process 12345"),
        (800, "holddown down ends both"),
        (810, "bbbb2222, which is on record as up"),
        (3, "thread of the kernel"),
    ],
)
def test_whom_no_name_can_end(pid: int, seen: str) -> None:
    """Ourselves and our ancestors, process 1, the kernel's threads, a supervisor, a deployment that is up."""
    host, leftovers = machine()
    host.alive += [
        process(800, "python -m holddown supervise bbbb2222"),
        process(810, "VLLM::EngineCore", session=500, cwd="/tmp/holddown-1000/bbbb2222"),
        replace(process(3, "[kworker]", parent=2, user="root"), name="kworker"),
    ]
    with pytest.raises(UsageError) as caught:
        survey(host, leftovers, (UP,), [pid, 700])
    assert seen in caught.value.seen
    assert leftovers.ended == []


def test_all_faults_of_the_names_are_said_at_once() -> None:
    """Two wrong pids are two faults in one message."""
    host, leftovers = machine()
    with pytest.raises(UsageError) as caught:
        survey(host, leftovers, (), [1, 4242])
    assert "pid 1" in caught.value.seen
    assert "4242" in caught.value.seen
