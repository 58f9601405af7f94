"""An engine that gives no sign, or takes far too long: what it is at, and whether that is work."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath

from holddown import ports
from holddown.base.evidence import Fact, Known
from holddown.base.units import MIB
from holddown.explain.supervision import activity_text
from holddown.facts.machine import ProcessFacts
from holddown.launch.lifecycle import Patience
from holddown.launch.ownership import Activity
from holddown.launch.phases import Phase
from holddown.remember.estimate import usual_seconds
from holddown.remember.record import Birth, Deployment

_SAMPLE_S = 1.0
_FAR_OVER = 5.0
_ALLOCATES_BYTES, _READS_BYTES = 8 * MIB, MIB


@dataclass(frozen=True, slots=True)
class Standing:
    """activity: of its processes and its GPUs, for a person. stacks: file of what its processes are at."""

    activity: str
    stacks: Fact[str]


def standing(
    birth: Birth, members: tuple[ProcessFacts, ...], head: str, processes: ports.Processes, host: ports.Host,
    clock: ports.Clock,
) -> Standing:  # fmt: skip
    """Takes a second, and the time of a dump for each process."""
    before = processes.activity(members)
    clock.sleep(_SAMPLE_S)
    after = processes.activity(members)
    loads = dict(zip(birth.plan.gpus, host.gpu_loads(birth.plan.gpus), strict=True))
    path = str(PurePath(birth.log_path).with_name("stacks.txt"))
    kept = processes.keep_stacks(members, birth.engine.executable, path, head)
    return Standing(activity_text(before, after, _SAMPLE_S, loads), kept)


@dataclass(frozen=True, slots=True)
class Overdue:
    """A phase that takes far longer than ever before, without a word in the log, and nothing read or allocated.
    hopeless: for so long that it is to be ended, although its CPU is busy: a collective that waits for a peer for ever
    keeps it so, and a compiler, which does too, reads and allocates."""

    phase: Phase
    spent_s: float
    usual_s: float
    quiet_s: float
    hopeless: bool


class Pace:
    """Of one start, phase by phase. past: all deployments on record; it is asked for only where the log is silent."""

    def __init__(self, birth: Birth, past: Callable[[], tuple[Deployment, ...]], now: float) -> None:
        self._birth, self._past = birth, past
        self._phase, self._entered_at, self._moved_at = Phase.PROCESS, now, now
        self._usual: dict[Phase, Fact[float]] = {}

    def speaks(self, now: float) -> None:
        self._moved_at = now

    def looks(self, before: Activity, after: Activity, now: float) -> None:
        """before, after: two seconds apart. Threads that only watch allocate and read a little, too."""
        allocates = abs(after.rss_bytes - before.rss_bytes) > _ALLOCATES_BYTES
        if allocates or after.read_bytes - before.read_bytes > _READS_BYTES:
            self._moved_at = now

    def enters(self, phase: Phase, now: float) -> None:
        if phase is not self._phase:
            self._phase, self._entered_at = phase, now

    def overdue(self, now: float, patience: Patience) -> Overdue | None:
        quiet_s, spent_s = now - self._moved_at, now - self._entered_at
        if quiet_s <= patience.quiet_s:
            return None
        if self._phase not in self._usual:
            self._usual[self._phase] = usual_seconds(self._past(), self._birth.plan, self._phase)
        usual = self._usual[self._phase]
        if not isinstance(usual, Known) or spent_s <= (limit_s := _FAR_OVER * usual.value + patience.quiet_s):
            return None
        hopeless = spent_s > limit_s + patience.give_up_s and quiet_s > patience.give_up_s
        return Overdue(self._phase, spent_s, usual.value, quiet_s, hopeless)
