"""What of a machine's traces is a dead engine's, and what may go. Where a proof is missing, it stays.

A file goes only when it is this user's own, older than five minutes by both of its times, neither mapped nor open in
any process, with every process of its owner readable (or the kernel's word that nobody has it open), and no container
in sight that shares the IPC namespace: what is in a container's hands need not show in ours. A process goes only when
it is provably of a deployment that is over; any other only when the user names it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from holddown.base.evidence import Known
from holddown.base.units import duration_text
from holddown.facts.leftovers import FileId, Form, FoundFile, Kind, KnownEngine, Namespaces, Traces, View
from holddown.facts.machine import ProcessFacts

OLD_ENOUGH_S = 300.0
_TITLES = ("VLLM::", "sglang::")
_MODULES = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.cli.main", "sglang.launch_server")


class Standing(StrEnum):
    """DEAD: a leftover, with proof; may go. IN_USE: no leftover. UNDECIDED: left, for want of a proof."""

    DEAD = "dead"
    IN_USE = "in use"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class FileVerdict:
    """because: the proof, or what is missing of it. holders: pids that map it or have it open."""

    file: FoundFile
    standing: Standing
    because: str
    holders: tuple[int, ...] = ()


class Claim(StrEnum):
    """LOST: started by holddown for a deployment that is over. FOREIGN: not proven ours. ACTIVE: of a deployment that
    is up, never a leftover."""

    LOST = "lost"
    FOREIGN = "foreign"
    ACTIVE = "active"


@dataclass(frozen=True, slots=True)
class ProcessVerdict:
    process: ProcessFacts
    claim: Claim
    because: str


# --- processes ----------------------------------------------------------------------------------------------


def is_engine(title: str) -> bool:
    """A title that engines give their workers, or a command line that runs an engine's server.

    The words count in their places only: `grep vllm.entrypoints` or a shell's `-c "vllm serve ..."` is no engine.
    """
    words = title.split()
    if not words:
        return False
    program = words[0].rsplit("/", 1)[-1]
    if title.startswith(_TITLES) or program == "llama-server":
        return True
    if program.startswith("python"):
        return _runs_server(words[1:])
    return program == "vllm" and words[1:2] == ["serve"]


def _runs_server(words: list[str]) -> bool:
    """The arguments of an interpreter: `-m MODULE`, or the console script with `serve`."""
    rest = iter(words)
    for word in rest:
        if word in ("-X", "-W"):
            next(rest, None)
        elif word == "-m":
            return next(rest, "") in _MODULES
        elif not word.startswith("-"):
            return word.rsplit("/", 1)[-1] == "vllm" and next(rest, "") == "serve"
        elif word == "-c":
            return False
    return False


def is_holddown(title: str) -> bool:
    """Our supervisor: the parent that an engine of ours is meant to have."""
    words = title.split()
    return "holddown" in [word.rsplit("/", 1)[-1] for word in words[:5]] and "supervise" in words


@dataclass(frozen=True, slots=True)
class _Tree:
    """Processes by pid, without zombies: those hold nothing and lead nothing any more."""

    alive: dict[int, ProcessFacts]

    def orphaned(self, process: ProcessFacts) -> str:
        """Why it has lost its engine, or nothing.

        Its parent is neither engine nor holddown, and either the leader of its session is gone, or a worker is in
        another session than its parent: then the parent cannot have started it (a shell's session outlives the server).
        """
        parent = self.alive.get(process.parent)
        if parent is not None and (is_engine(parent.title) or is_holddown(parent.title)):
            return ""
        adopter = f"its parent is now pid {process.parent}" + (f" ({parent.name})" if parent else "")
        if process.session not in self.alive:
            return f"{adopter}, and its session's leader (pid {process.session}) is gone"
        led_elsewhere = parent is not None and process.session not in (parent.session, process.pid)
        if process.title.startswith(_TITLES) and led_elsewhere:
            return f"{adopter}, which did not start it: it is of session {process.session}"
        return ""


def judge_processes(traces: Traces, known: tuple[KnownEngine, ...]) -> tuple[ProcessVerdict, ...]:
    """Every orphan of an engine, and every process of an engine on record that outlived its deployment."""
    tree = _Tree({process.pid: process for process in traces.processes if process.state != "Z"})
    return tuple(_judge_processes(traces, known, tree))


def _judge_processes(traces: Traces, known: tuple[KnownEngine, ...], tree: _Tree) -> Iterator[ProcessVerdict]:
    outside = _elsewhere(traces)
    for process in tree.alive.values():
        orphaned = tree.orphaned(process)
        engine = is_engine(process.title)
        if process.pid == traces.own_pid or is_holddown(process.title):
            continue
        proof = None
        if process.user == traces.own_user and process.pid not in outside:
            proof = _proof_of_ours(process, traces, known, tree)
        if proof is not None and proof.claim is Claim.FOREIGN and not orphaned:
            # of a deployment on another record (a test's, another XDG_STATE_HOME's), and nothing says that it is lost
            continue
        if proof is not None and (engine or orphaned or proof.by_session):
            yield ProcessVerdict(process, proof.claim, "; ".join(text for text in (proof.text, orphaned) if text))
        elif engine and orphaned:
            yield ProcessVerdict(process, Claim.FOREIGN, f"{orphaned}; holddown has no record of it")


@dataclass(frozen=True, slots=True)
class _Proof:
    claim: Claim
    text: str
    by_session: bool = False


def _proof_of_ours(process: ProcessFacts, traces: Traces, known: tuple[KnownEngine, ...], tree: _Tree) -> _Proof | None:
    """By session, when its leader lives with the recorded start time: the number alone may have been given anew.
    By working directory: engines stand in their deployment's private folder, and nothing else of ours does."""
    where = _private_id(process, traces.private_roots, known)
    for engine in known:
        same_boot = engine.boot_id == traces.boot_id
        # no record has a leader below 2: session 0 is the kernel's, and a container's first process leads 1
        in_session = same_boot and process.session == engine.session_pid > 1
        if not in_session or process.started_at < engine.started_at_ticks:
            continue
        leader = tree.alive.get(engine.session_pid)
        if leader is not None and leader.started_at == engine.started_at_ticks:
            return _proof(engine, f"its session is that of deployment {engine.deployment_id}", by_session=True)
    if not where:
        return None
    for engine in known:
        if engine.deployment_id == where:
            return _proof(engine, f"it stands in the private folder of deployment {where}", by_session=False)
    # Without a record we cannot say that its deployment is over, and it may be serving.
    return _Proof(Claim.FOREIGN, f"it stands in the private folder of deployment {where}, of which there is no record")


def _proof(engine: KnownEngine, text: str, *, by_session: bool) -> _Proof:
    if engine.active:
        return _Proof(Claim.ACTIVE, f"{text}, which is on record as up", by_session)
    return _Proof(Claim.LOST, f"{text}, which is over", by_session)


def _private_id(process: ProcessFacts, roots: tuple[str, ...], known: tuple[KnownEngine, ...]) -> str:
    """The deployment in whose private folder it stands, or nothing."""
    if not isinstance(process.cwd, Known):
        return ""
    place = process.cwd.value.removesuffix(" (deleted)") + "/"
    for engine in known:
        if engine.run_dir and place.startswith(engine.run_dir + "/"):
            return engine.deployment_id
    for root in roots:
        if place.startswith(root + "/"):
            return place[len(root) + 1 :].split("/")[0]
    return ""


# --- files --------------------------------------------------------------------------------------------------


def _elsewhere(traces: Traces) -> set[int]:
    """Processes that are provably in another pid or mount namespace: the paths they know are not ours."""
    own = traces.own_namespaces
    if not isinstance(own, Known):
        return set()
    return {
        view.pid
        for view in traces.views
        if isinstance(view.namespaces, Known)
        and (view.namespaces.value.pid, view.namespaces.value.mnt) != (own.value.pid, own.value.mnt)
    }


def judge_files(
    traces: Traces, known: tuple[KnownEngine, ...], old_enough_s: float = OLD_ENOUGH_S
) -> tuple[FileVerdict, ...]:
    """Each file's standing. The first reason against it is given; use by a process comes before all others."""
    own = traces.own_namespaces
    sharers: tuple[int, ...] = ()
    if isinstance(own, Known):
        sharers = tuple(view.pid for view in traces.views if _is_sharing_container(view, own.value))
    judge = _FileJudge(traces, known, old_enough_s, sharers)
    return tuple(judge.verdict(file) for file in traces.files)


def _is_sharing_container(view: View, own: Namespaces) -> bool:
    """In our IPC namespace, but in another pid namespace, or in another mount namespace with another root.

    A service of systemd has a mount namespace of its own too (PrivateTmp), yet our root: it is no container, and on
    most servers there is always one.
    """
    if not isinstance(view.namespaces, Known) or view.namespaces.value.ipc != own.ipc:
        return False
    theirs = view.namespaces.value
    return theirs.pid != own.pid or (theirs.mnt != own.mnt and theirs.root != own.root)


@dataclass(frozen=True, slots=True)
class _FileJudge:
    traces: Traces
    known: tuple[KnownEngine, ...]
    old_enough_s: float
    sharers: tuple[int, ...]

    def verdict(self, file: FoundFile) -> FileVerdict:
        holders = self._holders(file)
        if holders:
            named = ", ".join(f"pid {pid}" for pid in holders)
            return FileVerdict(file, Standing.IN_USE, f"mapped or open in {named}", holders)
        if file.path in self.traces.bound_sockets:
            return FileVerdict(file, Standing.IN_USE, "a process has bound this socket (/proc/net/unix)")
        against = next(self._reasons_against(file), "")
        if against:
            return FileVerdict(file, Standing.UNDECIDED, against)
        # not its own age: files of one reason are shown together, and no two are of one age
        age = f"more than {duration_text(self.old_enough_s)}"
        unused = "no process has bound it" if file.form is Form.SOCKET else "no process maps it or has it open"
        over = f"its deployment is over, it is yours, {age} old" if file.kind is Kind.RUN_DIR else f"yours, {age} old"
        return FileVerdict(file, Standing.DEAD, f"{over}, and {unused}")

    def _holders(self, file: FoundFile) -> tuple[int, ...]:
        wanted: frozenset[FileId] = file.contents | {file.id}
        holding = (view for view in self.traces.views if isinstance(view.held, Known) and view.held.value & wanted)
        standing = (
            process.pid
            for process in self.traces.processes
            if file.kind is Kind.RUN_DIR
            and isinstance(process.cwd, Known)
            and (process.cwd.value + "/").startswith(file.path + "/")
        )
        return tuple(sorted({*(view.pid for view in holding), *standing}))

    def _reasons_against(self, file: FoundFile) -> Iterator[str]:
        if file.owner_uid != self.traces.own_uid:
            yield f"it belongs to {file.owner}, not to {self.traces.own_user}"
        yield from self._reasons_of_form(file)
        age_s = self.traces.looked_at - max(file.modified_at, file.changed_at)
        if age_s < self.old_enough_s:
            yield f"it is younger than {duration_text(self.old_enough_s)}: whoever made it may be about to open it"
        if file.kind is Kind.RUN_DIR:
            yield from self._reasons_of_record(file)
        yield from self._reasons_of_sight(file)

    def _reasons_of_form(self, file: FoundFile) -> Iterator[str]:
        allowed = {
            Kind.SHM: (Form.FILE,),
            # vllm_dist_* is a plain file where torch meets through a file
            Kind.SOCKET: (Form.SOCKET, Form.FILE) if "/vllm_dist_" in file.path else (Form.SOCKET,),
            Kind.RUN_DIR: (Form.FOLDER,),
        }[file.kind]
        if file.form not in allowed:
            yield f"it is a {file.form}, which no engine leaves under such a name"
        if file.strangers:
            yield f"{file.strangers} files in it belong to other users"

    def _reasons_of_record(self, file: FoundFile) -> Iterator[str]:
        deployment_id = file.path.rsplit("/", 1)[-1]
        engines = [engine for engine in self.known if engine.deployment_id == deployment_id]
        if not engines:
            yield f"there is no record of a deployment {deployment_id}"
        if any(engine.active for engine in engines):
            yield f"deployment {deployment_id} is on record as up"

    def _reasons_of_sight(self, file: FoundFile) -> Iterator[str]:
        """What we may have failed to see. The kernel's own word (`alone`) makes up for processes that do not let us
        look: every login has one (`(sd-pam)`), and so nothing would ever be removed."""
        if not isinstance(self.traces.own_namespaces, Known):
            yield "our own namespaces cannot be read, so containers cannot be told apart"
        if self.sharers:
            yield f"pid {self.sharers[0]} is in a container that shares our IPC namespace"
        for view in self.traces.views:
            if file.alone or file.owner_uid not in view.uids:
                continue
            for fact in (view.held, view.namespaces):
                if not isinstance(fact, Known):
                    yield f"pid {view.pid} ({view.name}) of {file.owner} cannot be looked into: {fact.why}"
