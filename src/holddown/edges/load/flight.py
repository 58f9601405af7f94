"""One request under way, and what is kept of those that are over."""

from array import array

from holddown.edges.load.connection import Connection
from holddown.edges.load.response import Response
from holddown.measure.drive import Shot

SAMPLE = 400_000


class Sample:
    """At most so many values and the times that they are of, evenly thinned; count is of all."""

    def __init__(self) -> None:
        self.values, self.times = array("f"), array("f")
        self.count = 0
        self._stride = 1

    def extend(self, values: list[float], times: list[float]) -> None:
        self.count += len(values)
        self.values.extend(values[:: self._stride])
        self.times.extend(times[:: self._stride])
        if len(self.values) > SAMPLE:
            self.values, self.times = self.values[::2], self.times[::2]
            self._stride *= 2


class Flight:
    """One request under way. fresh: its connection has carried no other."""

    __slots__ = ("connection", "due", "fresh", "number", "response", "sent", "shot", "user")

    def __init__(self, user: int, number: int, shot: Shot, due: float) -> None:
        self.user, self.number, self.shot, self.due = user, number, shot, due
        self.sent = 0.0
        self.fresh = False
        self.response = Response()
        self.connection: Connection | None = None
