"""A load run as it is seen: a live last line on a terminal, a line per phase everywhere."""

import sys
from types import TracebackType

from rich.console import Console
from rich.progress import Progress as RichProgress
from rich.progress import SpinnerColumn, TextColumn

from holddown.explain.bench_text import phase_text, pulse_text
from holddown.measure.drive import Pulse
from holddown.measure.run import Arrival, Phase

_PLAIN_EVERY_S = 15.0


class Display:
    """On stderr, since the answer is stdout's."""

    def __init__(self) -> None:
        self._console = Console(file=sys.stderr, highlight=False, markup=False, soft_wrap=True)
        self._live: RichProgress | None = None
        self._said_s = 0.0

    def __enter__(self) -> "Display":
        if self._console.is_terminal:
            columns = (SpinnerColumn(), TextColumn("{task.description}"))
            self._live = RichProgress(*columns, console=self._console, transient=True)
            self._live.start()
            self._task = self._live.add_task("", total=None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def say(self, line: str) -> None:
        self._console.print(line)

    def pulse(self, arrival: Arrival, pulse: Pulse) -> None:
        text = pulse_text(arrival, pulse)
        if self._live:
            self._live.update(self._task, description=text)
        elif pulse.elapsed_s - self._said_s > _PLAIN_EVERY_S:
            self._said_s = pulse.elapsed_s
            self._console.print(text)

    def ended(self, name: str, phase: Phase) -> None:
        self._said_s = 0.0
        self._console.print(phase_text(name, phase))
