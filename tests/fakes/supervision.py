"""The rest of what a supervisor stands on: its engine's log, its signals, its job beside the loop."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from fakes.clock import FakeClock


@dataclass
class FakeLog:
    """Port `Log`."""

    lines: list[str] = field(default_factory=list)
    read: int = 0

    def new(self) -> Iterator[str]:
        while self.read < len(self.lines):
            self.read += 1
            yield self.lines[self.read - 1]

    def tail(self, count: int) -> tuple[str, ...]:
        return tuple(self.lines[-count:]) if count else ()


@dataclass
class FakeSignals:
    """Port `Signals`. Waiting lets the time pass; `ask` is what SIGTERM does."""

    clock: FakeClock
    asked: str | None = None

    def ask(self) -> None:
        self.asked = "SIGTERM"

    def wait(self, seconds: float) -> str | None:
        self.clock.sleep(seconds)
        asked, self.asked = self.asked, None
        return asked


@dataclass
class FakeBackground:
    """Port `Background`. A job takes `seconds`, and is run when they are over; None: it never ends."""

    clock: FakeClock
    seconds: float | None = 1.0
    under_way: bool = False
    raised: Exception | None = None

    def start(self, job: Callable[[], None]) -> None:
        assert not self.under_way, "two jobs at once"
        self.under_way = True
        if self.seconds is not None:
            self.clock.at(self.clock.elapsed + self.seconds, lambda: self._run(job))

    def _run(self, job: Callable[[], None]) -> None:
        try:
            job()
        except Exception as error:  # noqa: BLE001 - raised where the real one raises it
            self.raised = error
        self.under_way = False

    def running(self) -> bool:
        raised, self.raised = self.raised, None
        if raised is not None:
            raise raised
        return self.under_way
