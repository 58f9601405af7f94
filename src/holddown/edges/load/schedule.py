"""Which request is due, and when, for one process."""

from collections import deque
from collections.abc import Iterator

from holddown.edges.load.flight import Flight
from holddown.edges.load.wire import Order

_START_SPACING_S = 0.002
_AFTER_FAILURE_S = 0.25
_FAR_S = 0.05


class Schedule:
    """Times are of the monotonic clock. idle_at: when its first user found nothing more to do, or its last request was
    due; 0 before. open: requests come whatever is under way. stopped: nothing more is sent."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._drive = order.drive
        self._start_at = 0.0
        self._starts: Iterator[Flight] = iter(())
        self._next: Flight | None = None
        self._again: deque[Flight] = deque()  # what follows on an answer
        requests = order.drive.requests
        self._left = len(range(order.share, requests, order.of)) if requests else 1 << 60
        self.open = not order.drive.users
        self.idle_at = 0.0
        self.stopped = False

    def begin(self, start_at: float) -> None:
        self._start_at = start_at
        self._starts = self._arrivals() if self.open else self._first_of_each_user()
        self._next = next(self._starts, None)

    def _first_of_each_user(self) -> Iterator[Flight]:
        """They come one by one: a server is not met by all of them at once again."""
        for user in range(self._order.share, self._drive.users, self._order.of):
            yield Flight(user, 0, self._drive.shot(user, 0), self._start_at + user * _START_SPACING_S)

    def _arrivals(self) -> Iterator[Flight]:
        for shot in self._drive.shots[self._order.share :: self._order.of]:
            yield Flight(-1, 0, shot, self._start_at + shot.due_s)

    @property
    def over(self) -> bool:
        return self._next is None and not self._again

    @property
    def follows(self) -> bool:
        """Something follows on an answer that has just come."""
        return bool(self._again)

    def due(self, now: float) -> Iterator[Flight]:
        """What is to be sent now."""
        while self._next is not None and self._next.due <= now:
            flight, self._next = self._next, next(self._starts, None)
            if self._takes(flight):
                yield flight
            if self._next is None and self.open:
                self.idle_at = now
        for _ in range(len(self._again)):
            flight = self._again.popleft()
            if flight.due > now:
                self._again.append(flight)
            elif self._takes(flight):
                yield flight

    def _takes(self, flight: Flight) -> bool:
        if not self.open and self._ends_before(flight.due):
            self.idle_at = self.idle_at or flight.due
            return False
        self._left -= 1
        return True

    def soonest(self, now: float) -> float:
        """When something is due next, or not long from now."""
        times = [flight.due for flight in self._again] + ([self._next.due] if self._next is not None else [])
        return min(times, default=now + _FAR_S)

    def follow(self, flight: Flight, now: float, failed: bool) -> None:
        """A user whose request is over sends the next, if it has one."""
        if self.open:
            return
        due = now + (_AFTER_FAILURE_S if failed else 0.0)
        if self._ends_before(due):
            self.idle_at = self.idle_at or now
            return
        number = flight.number + 1
        self._again.append(Flight(flight.user, number, self._drive.shot(flight.user, number), due))

    def _ends_before(self, due: float) -> bool:
        seconds = self._drive.seconds
        return self.stopped or self._left <= 0 or bool(seconds and due >= self._start_at + seconds)

    def stop(self, now: float) -> None:
        self.stopped = True
        self.idle_at = self.idle_at or now
