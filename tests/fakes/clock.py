"""A clock that a test turns. What is due on the way happens on the way."""

import heapq
from collections.abc import Callable
from itertools import count


class FakeClock:
    """Port `Clock`. Time passes only by `sleep`; `at` says what happens when it comes to that second."""

    def __init__(self, now: float = 10_000.0) -> None:
        self._start = self._now = now
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._number = count()

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._now

    @property
    def elapsed(self) -> float:
        return self._now - self._start

    def at(self, seconds: float, action: Callable[[], None]) -> None:
        """seconds: since this clock's start."""
        heapq.heappush(self._due, (self._start + seconds, next(self._number), action))

    def sleep(self, seconds: float) -> None:
        until = self._now + seconds
        while self._due and self._due[0][0] <= until:
            when, _, action = heapq.heappop(self._due)
            self._now = max(self._now, when)
            action()
        self._now = max(self._now, until)
