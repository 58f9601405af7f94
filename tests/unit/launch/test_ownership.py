"""Whose a process is."""

from dataclasses import replace

from fakes.leftovers import process
from fakes.machine import CORE, ENGINE, RUN_DIR, SUPERVISOR, WORKER, ref
from holddown.base.evidence import Unknown
from holddown.facts.machine import ProcessFacts
from holddown.launch.ownership import leader, members, reference

SERVER = process(ENGINE, "python -m vllm", parent=SUPERVISOR, cwd=RUN_DIR)
ENGINE_CORE = process(CORE, "VLLM::EngineCore", parent=ENGINE, session=ENGINE, cwd=RUN_DIR)
ENGINE_WORKER = process(WORKER, "VLLM::Worker", parent=CORE, session=ENGINE, cwd=RUN_DIR)
FAMILY = (SERVER, ENGINE_CORE, ENGINE_WORKER)
SHELL = process(50, "bash")


def pids(*processes: ProcessFacts, supervisor: int = SUPERVISOR) -> list[int]:
    return [each.pid for each in members(processes, ref(ENGINE), RUN_DIR, supervisor)]


def test_the_whole_session_belongs_to_a_living_leader() -> None:
    """Wherever its processes stand, and nobody else's."""
    elsewhere = replace(ENGINE_WORKER, cwd=Unknown("this user may not read it"))
    assert pids(SHELL, SERVER, ENGINE_CORE, elsewhere) == [ENGINE, CORE, WORKER]


def test_a_session_number_that_was_given_anew_proves_nothing() -> None:
    """All of the engine died, and another program leads a session of that number now."""
    recycled = replace(process(ENGINE, "postgres"), started_at=9_999_999)
    child = process(1500, "postgres: writer", parent=ENGINE, session=ENGINE)
    assert pids(recycled, child) == []


def test_with_its_leader_dead_a_worker_is_known_by_where_it_stands() -> None:
    """No other program stands in a deployment's private folder, not even in one whose name begins alike."""
    orphan = replace(ENGINE_WORKER, parent=1)
    beside = replace(orphan, pid=1600, cwd=replace(ENGINE_WORKER.cwd, value=RUN_DIR + "9"))  # type: ignore[call-arg]
    assert pids(orphan, beside) == [WORKER]


def test_what_the_subreaper_was_handed_in_that_session_is_ours() -> None:
    """A worker that changed its directory and lost its server."""
    orphan = process(WORKER, "VLLM::Worker", parent=SUPERVISOR, session=ENGINE, cwd="/")
    assert pids(orphan) == [WORKER]
    assert pids(orphan, supervisor=901) == []


def test_the_supervisors_other_children_are_not_the_engine() -> None:
    """The program that carries the log must outlive the engine: its last words are the diagnosis."""
    pump = process(950, "python pump.py", parent=SUPERVISOR)
    assert pids(SERVER, pump) == [ENGINE]


def test_a_daemon_that_an_engine_started_is_its_own() -> None:
    """It left the session: known by its parent, and once that is gone by the supervisor and its place."""
    daemon = process(1700, "raylet", parent=CORE, cwd="/")
    assert pids(*FAMILY, daemon) == [ENGINE, CORE, WORKER, 1700]
    assert pids(replace(daemon, parent=SUPERVISOR, cwd=SERVER.cwd)) == [1700]


def test_zombies_hold_nothing() -> None:
    """A dead leader that nobody has waited for is no living leader."""
    assert pids(replace(SERVER, state="Z"), process(1800, "x", session=ENGINE)) == []


def test_the_leader_is_found_by_its_private_folder() -> None:
    """Not its workers, nor a shell that somebody opened in another folder."""
    assert leader([SHELL, ENGINE_CORE, SERVER], RUN_DIR) == SERVER
    assert leader([SHELL, ENGINE_CORE], RUN_DIR) is None
    assert leader([replace(SERVER, state="Z")], RUN_DIR) is None


def test_a_reference_names_a_process_for_good() -> None:
    """Pid, start time and boot."""
    assert reference(SERVER, "boot-1") == ref(ENGINE)
