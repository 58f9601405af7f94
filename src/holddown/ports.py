"""The doors between the pure core and the world. Real ones: `edges/`, chosen in `wiring.py`; fakes: `tests/fakes/`."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from holddown.base.evidence import Fact
from holddown.explain.report.markup import Html
from holddown.explain.report.plot import Plot
from holddown.facts.answers import Ask, Refusal, Reply
from holddown.facts.asked import Asked, Questions
from holddown.facts.engine import Engine, EngineFacts
from holddown.facts.fetched import FetchedModel
from holddown.facts.leftovers import Ended, FoundFile, Held, Kept, NotEnded, Removed, Traces
from holddown.facts.machine import Disk, MachineFacts, ProcessFacts
from holddown.facts.model import Inspection
from holddown.facts.served import Served
from holddown.launch.events import Exit
from holddown.launch.lifecycle import ProcessRef
from holddown.launch.ownership import Activity, ShmSegment
from holddown.measure.drive import Drive, Driven, Pulse
from holddown.remember.record import Birth, Deployment, Entry, Happening, Status
from holddown.remember.run import Run
from holddown.remember.switching import Switching
from holddown.remember.trust import TrustedCode

LOG_BYTES = 160 * 1024**2
"""How much of an engine's log is kept, rotated files included."""

Progress = Callable[[str], None]
"""Takes one line about what a long step is doing."""


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch: for records."""

    def monotonic(self) -> float:
        """Seconds that never jump: for durations."""

    def sleep(self, seconds: float) -> None: ...


class Host(Protocol):
    """This machine. Every call asks anew."""

    def facts(self, paths: Sequence[str] = ()) -> MachineFacts:
        """paths: whose file systems belong among the disks. Raises: MachineError."""

    def processes(self) -> tuple[ProcessFacts, ...]: ...

    def process(self, pid: int) -> ProcessFacts | None: ...

    def disk(self, path: str) -> Disk: ...

    def port_holder(self, host: str, port: int) -> str | None:
        """Who listens where a bind to (host, port) would fail, as text for a person; None when it is free."""

    def gpu_loads(self, indices: Sequence[int]) -> tuple[int | None, ...]:
        """Of each of these GPUs for how many percent of the last instants it computed; None where it is not told."""

    def energy_joules(self, gpus: Sequence[int]) -> Fact[float]:
        """That these GPUs have used since their driver was loaded."""

    def oom_kills(self) -> int:
        """How many processes of our own control group the kernel has killed for want of memory since it was made."""


class Leftovers(Protocol):
    """What engines left behind. Looking is free; `remove` and `end` check again that they act on what was judged."""

    def look(self, processes: tuple[ProcessFacts, ...]) -> Traces: ...

    def held(self, pid: int) -> Held: ...

    def remove(self, file: FoundFile) -> Removed | Kept: ...

    def end(self, targets: Sequence[ProcessFacts]) -> tuple[Ended | NotEnded, ...]:
        """SIGTERM, and SIGKILL to those that are still there after ten seconds."""


class Checkpoints(Protocol):
    def inspect(self, path: str) -> Inspection:
        """Reads headers only. Raises: CheckpointError when there is no checkpoint to speak of."""


class DemoModel(Protocol):
    def fetch(self, progress: Progress) -> FetchedModel:
        """Brings the small chat model, or keeps the one that is there whole. Raises: UsageError, FactError."""


class Engines(Protocol):
    """The registered engine environments."""

    def all(self) -> tuple[Engine, ...]:
        """Newest version last within a name."""

    def install(self, name: str, version: str | None, progress: Progress) -> Engine:
        """A venv of its own. Idempotent: an environment that is complete is returned as it is. Raises: EngineError."""

    def add(self, name: str | None, python: str, pythonpath: str) -> Engine:
        """Registers an environment that exists. Raises: EngineError when no engine is found in it."""

    def remove(self, ref: str) -> Engine:
        """Forgets it; deletes the folder only of an environment that holddown made. Raises: EngineError."""


class EngineProbe(Protocol):
    def facts(self, engine: Engine, progress: Progress) -> EngineFacts:
        """As `read`, and whether it can be imported at all, which is tried once. Raises: EngineError."""

    def read(self, engine: Engine) -> EngineFacts:
        """What its files say, in less than a second; kept until they change. Raises: EngineError."""


class EngineSelector(Protocol):
    """What an installed build's own code would choose."""

    def ask(self, engine: Engine, facts: EngineFacts, questions: Questions, progress: Progress) -> Fact[Asked]:
        """Runs the build's selectors beside any GPU, or gives what they said before. Unknown says why they did not
        answer, with the last lines of what they printed."""


class Client(Protocol):
    """An OpenAI-compatible endpoint. Failures of the endpoint are values (`Refusal`)."""

    def healthy(self) -> bool:
        """GET /health answered 200."""

    def gauges(self, *metrics: str) -> tuple[float | None, ...]:
        """Of each metric its value now, summed over its labels; None where the endpoint does not tell it."""

    def ask(self, ask: Ask) -> Reply: ...

    def stream(self, ask: Ask) -> Reply:
        """The same as a stream, with the arrival time of every delta, and `usage` asked for."""

    def abandon(self, ask: Ask, deltas: int) -> Refusal | None:
        """Reads so many deltas of a stream, and hangs up."""

    def post(self, path: str, content: bytes) -> Refusal:
        """Sends that as it is. The status is whatever came, 200 too; the message the beginning of what was said."""

    def served(self) -> Served | Refusal:
        """What it says of itself."""

    def prompt_tokens(self, ask: Ask) -> int | None:
        """How many tokens the engine's own tokenizer makes of this prompt; None where it has no such endpoint."""

    def token_ids(self, ask: Ask) -> tuple[int, ...]:
        """Those tokens; empty where it does not tell them."""


class LoadClient(Protocol):
    """Puts load on one server, from processes of its own."""

    def cores(self) -> int:
        """That its processes may use."""

    def capacity(self) -> Fact[float]:
        """Events with a token that one of its processes reads in a second of CPU time, as calibrated here."""

    def drive(self, drive: Drive, pulse: Callable[[Pulse], None]) -> Driven:
        """One phase, to its end; `pulse` is told a few times a second. Ctrl-C ends it with what was measured."""


class Log(Protocol):
    """One engine's log: a file that grows and rotates."""

    def new(self) -> Iterator[str]:
        """Complete lines since the last call, without their line ends; `\\r` redraws count as lines."""

    def tail(self, count: int) -> tuple[str, ...]:
        """The last lines, oldest first."""


class Processes(Protocol):
    """Starting, watching and ending the processes of a deployment. Nothing here touches a process by pid alone."""

    def me(self) -> ProcessRef: ...

    def start_engine(self, birth: Birth, head: str = "") -> ProcessRef:
        """In a session of its own, with its private folder as working directory and TMPDIR, and what it inherited at
        its birth. head: a line of ours that stands in the log before its own. Raises: LaunchError."""

    def start_supervisor(self, deployment_id: str, log_path: str) -> ProcessRef:
        """Detached: outlives this program and its terminal."""

    def reports(self, run_dir: str) -> tuple[bytes, ...]:
        """What the engine's own processes wrote there about themselves; none of an engine that writes nothing."""

    def exit_of(self, engine: ProcessRef) -> Exit | None:
        """None while it runs. Reaps whatever else was handed to us as the subreaper."""

    def activity(self, members: Sequence[ProcessFacts]) -> Activity: ...

    def shared_memory(self, members: Sequence[ProcessFacts]) -> frozenset[ShmSegment]:
        """The /dev/shm files that they map now."""

    def keep_stacks(self, members: Sequence[ProcessFacts], executable: str, path: str, head: str) -> Fact[str]:
        """Appends what each of them is at to the file, under the head, and gives its path. Unknown says why not.
        executable: the engine's, beside which the program for it may lie."""

    def terminate(self, members: Sequence[ProcessRef]) -> None:
        """SIGTERM, through a pidfd whose start time was checked."""

    def kill(self, members: Sequence[ProcessRef]) -> None: ...

    def remove(self, segments: frozenset[ShmSegment], run_dir: str) -> None:
        """The segments that are still the same files, and the private folder."""


class Signals(Protocol):
    def wait(self, seconds: float) -> str | None:
        """Sleeps, or gives the name of the signal that asked this supervisor to stop its engine."""


class Notify(Protocol):
    """The service manager that started this program."""

    def tell(self, words: Sequence[str]) -> None:
        """Assignments such as `READY=1`, all in one message. One that does not get through is nobody's failure."""


class ServiceManager(Protocol):
    """systemd: a user's own, or the system's."""

    def runs(self) -> bool:
        """Whether it can be asked from here: not in most containers, nor where the user has no session."""

    def version(self) -> int:
        """0 where no program of it is here."""

    def path(self, unit: str) -> str:
        """Where a unit of that name belongs."""

    def read(self, unit: str) -> str | None:
        """None where there is none. Raises: FactError."""

    def write(self, unit: str, text: str) -> None:
        """In place of what is there, whole. Raises: UsageError where this user may not."""

    def delete(self, unit: str) -> None:
        """Raises: UsageError where this user may not."""

    def faults(self, unit: str, text: str) -> tuple[str, ...] | None:
        """What `systemd-analyze verify` has against it; None where that program is not here."""

    def ask(self, *words: str) -> None:
        """`systemctl WORDS`. Raises: MachineError with what it said."""

    def outlives_logout(self) -> bool:
        """Whether its services run while this user has no session."""


class Background(Protocol):
    """At most one long job beside the supervisor's loop."""

    def start(self, job: Callable[[], None]) -> None: ...

    def running(self) -> bool:
        """Raises: what the job raised, once."""


class Charts(Protocol):
    def draw(self, plot: Plot) -> Html:
        """As SVG that stands inside of a page and takes its colours from there."""


class Store(Protocol):
    """The record of deployments. Each call is one transaction. Raises: StoreError."""

    def create(self, birth: Birth, status: Status) -> Deployment | None:
        """Gives the active deployment that is in its way (name, port, GPU) instead, when there is one."""

    def write(self, deployment_id: str, status: Status, happenings: tuple[Happening, ...], at: float) -> None: ...

    def get(self, deployment_id: str) -> Deployment | None: ...

    def latest(self, name: str) -> Deployment | None: ...

    def all(self, *, active_only: bool = False) -> tuple[Deployment, ...]: ...

    def entries(self, deployment_id: str, after: int = 0) -> tuple[Entry, ...]: ...

    def trust(self, code: TrustedCode) -> None: ...

    def put_switching(self, switching: Switching) -> None:
        """In place of what was on record of the same `before`."""

    def end_switching(self, before: str) -> None: ...

    def switchings(self) -> tuple[Switching, ...]: ...

    def trusted(self) -> tuple[TrustedCode, ...]:
        """Newest first."""

    def add_run(self, run: Run) -> None: ...

    def run(self, run_id: str) -> Run | None: ...

    def runs(self, of: str) -> tuple[Run, ...]:
        """Of one server, by `Subject.key`; newest first."""
