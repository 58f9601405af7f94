"""What may go and what stays: the judgement as a table."""

from dataclasses import replace

import pytest

from fakes.leftovers import HERE, OWN, TRACES, process, view
from holddown.base.evidence import Known, Unknown
from holddown.facts.leftovers import FileId, Form, FoundFile, Kind, KnownEngine, Traces, View
from holddown.facts.machine import ProcessFacts
from holddown.launch.leftovers import Claim, Standing, is_engine, is_holddown, judge_files, judge_processes

PSM = FoundFile("/dev/shm/psm_x", Kind.SHM, Form.FILE, FileId(0, 26, 5), 1000, "me", 4096, 9_000.0, 9_000.0)
SOCKET = replace(PSM, path="/tmp/3d08bad5-199b-407a-ad9b-a67d0fc77452", kind=Kind.SOCKET, form=Form.SOCKET)
RUN_DIR = replace(PSM, path="/tmp/holddown-1000/aaaa1111", kind=Kind.RUN_DIR, form=Form.FOLDER)
OVER = KnownEngine("aaaa1111", 500, 50_000, "boot", active=False)
UP = replace(OVER, active=True)
QUIET = replace(TRACES, views=(view(7), view(8, uid=0)))


def standing(file: FoundFile, traces: Traces = QUIET, known: tuple[KnownEngine, ...] = ()) -> tuple[Standing, str]:
    (verdict,) = judge_files(replace(traces, files=(file,)), known)
    return verdict.standing, verdict.because


@pytest.mark.parametrize("file", [PSM, SOCKET, replace(SOCKET, path="/tmp/vllm_dist_ab", form=Form.FILE)])
def test_old_own_and_unused_is_dead(file: FoundFile) -> None:
    """All proofs together make a file removable, and the text says them."""
    found, because = standing(file)
    assert found is Standing.DEAD
    assert "yours, more than 5 min 0 s old" in because


@pytest.mark.parametrize(
    ("file", "because"),
    [
        (replace(PSM, owner_uid=0, owner="root"), "belongs to root"),
        (replace(PSM, owner_uid=1001, owner="bob"), "belongs to bob"),
        (replace(PSM, modified_at=9_701.0), "younger than 5 min"),
        (replace(PSM, changed_at=9_701.0), "younger than 5 min"),
        (replace(PSM, changed_at=20_000.0), "younger than 5 min"),
        (replace(PSM, form=Form.LINK), "symbolic link"),
        (replace(PSM, form=Form.FOLDER), "folder"),
        (replace(PSM, form=Form.OTHER), "special file"),
        (replace(SOCKET, form=Form.FILE), "it is a file"),
    ],
)
def test_what_a_file_itself_says_against_its_removal(file: FoundFile, because: str) -> None:
    """Another's, too young by either time, or not of the form that engines leave: it stays, with the reason."""
    found, why = standing(file)
    assert found is Standing.UNDECIDED
    assert because in why


@pytest.mark.parametrize("old_enough_s", [1000.0, 999.0])
def test_the_age_is_reached_at_its_limit(old_enough_s: float) -> None:
    """A file of exactly the age is old enough."""
    (verdict,) = judge_files(replace(QUIET, files=(PSM,)), (), old_enough_s)
    assert verdict.standing is Standing.DEAD


def test_a_file_that_a_process_holds_is_in_use() -> None:
    """Whoever maps or has it open is named; it is no leftover, whatever else may be said of it."""
    holder = View(7, "python", (1000,) * 4, Known(frozenset({PSM.id}), HERE), Known(OWN, HERE))
    (verdict,) = judge_files(replace(QUIET, files=(replace(PSM, changed_at=9_999.0),), views=(holder,)), ())
    assert (verdict.standing, verdict.holders) == (Standing.IN_USE, (7,))


def test_a_bound_socket_is_in_use() -> None:
    """A path in /proc/net/unix has a live socket behind it."""
    assert standing(SOCKET, replace(QUIET, bound_sockets=(SOCKET.path,)))[0] is Standing.IN_USE


BLIND = View(7, "sshd", (1000,) * 4, Unknown("not readable"), Known(OWN, HERE))
NO_NAMESPACES = View(7, "x", (0, 0, 1000, 0), Known(frozenset(), HERE), Unknown("not readable"))
CONTAINER = view(7, uid=0, namespaces=replace(OWN, pid="pid:[9]", mnt="mnt:[9]", root="9:9"))
HOST_PID_CONTAINER = view(7, uid=0, namespaces=replace(OWN, mnt="mnt:[9]", root="9:9"))


@pytest.mark.parametrize(
    ("seen", "because"),
    [
        (BLIND, "pid 7 (sshd) of me cannot be looked into"),
        (NO_NAMESPACES, "cannot be looked into"),
        (CONTAINER, "pid 7 is in a container"),
        (HOST_PID_CONTAINER, "pid 7 is in a container"),
    ],
)
def test_what_may_be_hidden_keeps_a_file(seen: View, because: str) -> None:
    """A process of the owner that cannot be read, by any of its user ids, and a container that shares our IPC."""
    found, why = standing(PSM, replace(QUIET, views=(seen,)))
    assert found is Standing.UNDECIDED
    assert because in why


def test_the_kernels_word_makes_up_for_what_cannot_be_read() -> None:
    """Nobody has it open: then a process that hides has not either. A container in sight still keeps it."""
    alone = replace(PSM, alone=True)
    assert standing(alone, replace(QUIET, views=(BLIND,)))[0] is Standing.DEAD
    assert standing(alone, replace(QUIET, views=(CONTAINER,)))[0] is Standing.UNDECIDED


@pytest.mark.parametrize(
    "seen",
    [
        replace(BLIND, uids=(0, 0, 0, 0)),
        view(7, uid=0, namespaces=replace(OWN, ipc="ipc:[9]", pid="pid:[9]", mnt="mnt:[9]", root="9:9")),
        view(7, uid=0, namespaces=replace(OWN, mnt="mnt:[9]")),
    ],
)
def test_what_does_not_keep_a_file(seen: View) -> None:
    """Another user's process that we cannot read, a container with its own IPC, a service with a private /tmp."""
    assert standing(PSM, replace(QUIET, views=(seen,)))[0] is Standing.DEAD


def test_without_our_own_namespaces_nothing_goes() -> None:
    """Containers could not be told apart."""
    found, why = standing(PSM, replace(QUIET, own_namespaces=Unknown("no /proc/self/ns")))
    assert found is Standing.UNDECIDED
    assert "namespaces" in why


@pytest.mark.parametrize(
    ("known", "expected", "because"),
    [
        ((OVER,), Standing.DEAD, "its deployment is over"),
        ((UP,), Standing.UNDECIDED, "is on record as up"),
        ((), Standing.UNDECIDED, "no record of a deployment aaaa1111"),
        ((replace(OVER, deployment_id="bbbb"),), Standing.UNDECIDED, "no record"),
    ],
)
def test_a_private_folder_goes_with_its_deployment(
    known: tuple[KnownEngine, ...], expected: Standing, because: str
) -> None:
    """Only a record that says it is over lets it go."""
    found, why = standing(RUN_DIR, QUIET, known)
    assert found is expected
    assert because in why


def test_a_private_folder_with_a_stranger_in_it_stays() -> None:
    """A file of another user in it, or a process that stands in it, or one that holds a file of it."""
    assert standing(replace(RUN_DIR, strangers=1), QUIET, (OVER,))[0] is Standing.UNDECIDED
    visitor = process(60, "bash", cwd="/tmp/holddown-1000/aaaa1111/sub")
    assert standing(RUN_DIR, replace(QUIET, processes=(visitor,)), (OVER,))[0] is Standing.IN_USE
    holder = View(7, "x", (1000,) * 4, Known(frozenset({FileId(0, 1, 77)}), HERE), Known(OWN, HERE))
    held = replace(RUN_DIR, contents=frozenset({FileId(0, 1, 77)}))
    assert standing(held, replace(QUIET, views=(holder,)), (OVER,))[0] is Standing.IN_USE


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("VLLM::EngineCore", True),
        ("VLLM::Worker_TP0", True),
        ("sglang::scheduler_TP0", True),
        ("/e/bin/python3.12 -m vllm.entrypoints.openai.api_server --port 1", True),
        ("python -X dev -u -m vllm.entrypoints.cli.main serve m", True),
        ("/usr/bin/python3 /e/bin/vllm serve m", True),
        ("vllm serve m", True),
        ("python -m sglang.launch_server", True),
        ("/opt/llama-server -m x.gguf", True),
        ("", False),
        ("grep VLLM::EngineCore", False),
        ("bash -c vllm serve m", False),
        ("vim vllm.entrypoints.openai.api_server", False),
        ("python -m pytest vllm.entrypoints.openai.api_server", False),
        ("python -c import vllm.entrypoints.cli.main", False),
        ("python train.py -m vllm.entrypoints.cli.main", False),
        ("python /e/bin/vllm bench", False),
        ("vllm bench serve", False),
        ("python -m", False),
        ("tail -f llama-server", False),
    ],
)
def test_what_counts_as_an_engine(title: str, expected: bool) -> None:
    """Words count in their places only: who speaks of an engine is none."""
    assert is_engine(title) is expected


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("/v/bin/python -P -m holddown supervise 1a2b3c4d", True),
        ("/v/bin/python /v/bin/holddown supervise 1a2b3c4d", True),
        ("/v/bin/python /v/bin/holddown clean", False),
        ("bash", False),
    ],
)
def test_what_counts_as_our_supervisor(title: str, expected: bool) -> None:
    """An engine under it is where it belongs."""
    assert is_holddown(title) is expected


INIT = process(1, "/sbin/init", parent=0)
IN_FOLDER = "/tmp/holddown-1000/aaaa1111"


def claims(*processes: ProcessFacts, known: tuple[KnownEngine, ...] = ()) -> dict[int, Claim]:
    traces = replace(QUIET, processes=(INIT, *processes))
    return {verdict.process.pid: verdict.claim for verdict in judge_processes(traces, known)}


def test_an_orphan_is_one_whose_session_leader_is_gone() -> None:
    """A worker that process 1 adopted, in a session without a leader; whoever it is of, it is foreign to us."""
    assert claims(process(600, "VLLM::EngineCore", session=500)) == {600: Claim.FOREIGN}
    assert claims(process(600, "VLLM::EngineCore", session=500, user="bob")) == {600: Claim.FOREIGN}


def test_a_shell_that_lives_on_does_not_hide_the_orphan() -> None:
    """The server was killed, its terminal was not: the worker's session differs from its parent's all the same."""
    shell = process(500, "bash", parent=400)
    assert claims(shell, process(600, "VLLM::EngineCore", session=500)) == {600: Claim.FOREIGN}


@pytest.mark.parametrize(
    "family",
    [
        (process(500, "python -m vllm.entrypoints.openai.api_server"), process(600, "VLLM::EngineCore", parent=500)),
        (process(500, "python script.py"), process(600, "VLLM::EngineCore", parent=500, session=500)),
        (process(500, "python -m vllm.entrypoints.openai.api_server", parent=1),),
        (process(600, "VLLM::EngineCore", parent=1, session=1),),
        (process(600, "python train.py", session=500),),
        (process(400, "python -m holddown supervise ab"), process(600, "VLLM::EngineCore", parent=400, session=500)),
    ],
)
def test_who_is_no_orphan(family: tuple[ProcessFacts, ...]) -> None:
    """A worker under its server, under a script that made it, under a container's first process or our supervisor;
    a server that leads its own session; a program that is no engine."""
    assert claims(*family) == {}


def test_a_zombie_is_nobody() -> None:
    """It holds nothing, and as a leader it is gone."""
    leader = replace(process(500, "bash"), state="Z")
    assert claims(leader, process(600, "VLLM::Worker", session=500)) == {600: Claim.FOREIGN}
    assert claims(replace(process(600, "VLLM::Worker", session=500), state="Z")) == {}


def test_lost_by_its_private_folder() -> None:
    """It stands where only an engine of that deployment does, and the deployment is over."""
    orphan = process(600, "VLLM::EngineCore", session=500, cwd=IN_FOLDER)
    assert claims(orphan, known=(OVER,)) == {600: Claim.LOST}
    assert claims(replace(orphan, cwd=Known(IN_FOLDER + " (deleted)", HERE)), known=(OVER,)) == {600: Claim.LOST}
    elsewhere = replace(orphan, cwd=Known("/scratch/run/sub", HERE))
    assert claims(elsewhere, known=(replace(OVER, run_dir="/scratch/run"),)) == {600: Claim.LOST}


def test_lost_by_its_session() -> None:
    """Its leader lives with the recorded start time: a whole engine that outlived its deployment."""
    leader = process(500, "python -m vllm.entrypoints.openai.api_server")
    child = process(600, "python -c spawn", parent=500, session=500)
    assert claims(leader, child, known=(OVER,)) == {500: Claim.LOST, 600: Claim.LOST}


@pytest.mark.parametrize(
    "known",
    [
        replace(OVER, started_at_ticks=49_999),
        replace(OVER, started_at_ticks=50_001),
        replace(OVER, boot_id="an earlier boot"),
        replace(OVER, session_pid=0),
    ],
)
def test_a_session_number_given_anew_proves_nothing(known: KnownEngine) -> None:
    """Another start time or another boot: the pid now belongs to another program, which is let be."""
    leader = process(500, "python -m vllm.entrypoints.openai.api_server")
    assert claims(leader, known=(known,)) == {}


def test_a_deployment_that_is_up_is_never_a_leftover() -> None:
    """Even an orphan of it: its supervisor, or the next one, looks after it."""
    orphan = process(600, "VLLM::EngineCore", session=500, cwd=IN_FOLDER)
    leader = process(500, "python -m vllm.entrypoints.openai.api_server", cwd=IN_FOLDER)
    assert claims(orphan, known=(UP,)) == {600: Claim.ACTIVE}
    assert claims(leader, orphan, known=(UP,)) == {500: Claim.ACTIVE, 600: Claim.ACTIVE}


def test_without_a_record_a_private_folder_proves_nothing() -> None:
    """It may be serving for a record that we do not see: an orphan is shown as foreign, a whole engine not at all."""
    assert claims(process(600, "VLLM::EngineCore", session=500, cwd=IN_FOLDER)) == {600: Claim.FOREIGN}
    assert claims(process(500, "python -m vllm.entrypoints.openai.api_server", cwd=IN_FOLDER)) == {}


def test_a_person_who_looks_around_is_let_be() -> None:
    """A shell in the private folder, and its editor, are no engine and no orphans."""
    shell = process(500, "bash", parent=400, cwd=IN_FOLDER)
    editor = process(510, "vim log", parent=500, session=500, cwd=IN_FOLDER)
    assert claims(shell, editor, known=(replace(OVER, session_pid=77),)) == {}


def test_another_users_process_is_never_ours() -> None:
    """A folder name can be imitated; the user id cannot."""
    orphan = process(600, "VLLM::EngineCore", session=500, user="bob", cwd=IN_FOLDER)
    assert claims(orphan, known=(OVER,)) == {600: Claim.FOREIGN}


def test_a_path_in_a_container_is_not_our_path() -> None:
    """`/tmp/holddown-1000` of another mount namespace is another folder."""
    orphan = process(7, "VLLM::EngineCore", session=5, cwd=IN_FOLDER)
    traces = replace(TRACES, processes=(INIT, orphan), views=(view(7, namespaces=replace(OWN, mnt="mnt:[9]")),))
    (verdict,) = judge_processes(traces, (OVER,))
    assert verdict.claim is Claim.FOREIGN
