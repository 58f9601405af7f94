"""A last line on stderr that turns while something long goes on; nothing turns where stderr is no terminal."""

import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn


class Spinner:
    """stderr, since the answer is stdout's. What is said stands above the line."""

    def __init__(self, doing: str = "") -> None:
        self._console = Console(file=sys.stderr, highlight=False, markup=False, soft_wrap=True)
        self._live = Progress(SpinnerColumn(), TextColumn("{task.description}"), console=self._console, transient=True)
        self._task = self._live.add_task(doing, total=None)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:  # where it is none, rich would print an empty line
            self._live.stop()

    def say(self, line: str) -> None:
        self._console.print(line)

    def turn(self, doing: str) -> bool:
        """Whether anybody sees it."""
        self._live.update(self._task, description=doing)
        return self._console.is_terminal
