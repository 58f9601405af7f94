"""The loop of one process: it sends what is due, and stamps and takes up what comes.

A token costs a system call, a clock and a few looks at its bytes; see `Response.take`.
"""

import select
import ssl
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from operator import sub

from holddown.edges.load.connection import READ, READ_BYTES, WRITE, Connection
from holddown.edges.load.endpoint import Endpoint, request_bytes
from holddown.edges.load.flight import SAMPLE, Flight, Sample
from holddown.edges.load.response import Response
from holddown.edges.load.wire import Beat, Harvest, Order, Row

_START_SPACING_S = 0.002
_BEAT_S = 0.25
_SPARE_CONNECTIONS = 8
_AFTER_FAILURE_S = 0.25
_HOPELESS = 20
_CONNECT_S = 10.0
_LONGEST_WAIT_S = 0.05

clock = time.monotonic


class Loop:
    """tell: takes a `Beat` now and then. stop_fd: becomes readable when it is to stop."""

    def __init__(self, order: Order, to: Endpoint, tell: Callable[[Beat], None], stop_fd: int) -> None:
        self.drive, self.to, self.tell, self.stop_fd = order.drive, to, tell, stop_fd
        self.start_at = 0.0
        self.epoll = select.epoll()
        self.hot: dict[int, tuple[Callable[[int], bytes], Callable[[bytes, float], bool], Flight]] = {}
        self.cold: dict[int, Connection] = {}  # being opened, or idle
        self.idle: list[Connection] = []
        self.waiting: deque[Flight] = deque()  # for a connection
        self.share, self.of = order.share, order.of
        self.starts: Iterator[Flight] = self._closed(order) if self.drive.users else self._open(order)
        self.next: Flight | None = None
        self.again: deque[Flight] = deque()  # of a closed loop: what follows on an answer
        self.left = self._quota(order)
        self.rows: list[Row] = []
        self.pauses, self.lags = Sample(), array("f")
        self.failed = self.deltas = self.hopeless = 0
        self.ttfts: list[float] = []
        self.idle_at = 0.0
        self.stopped = False
        self.gave_up = ""
        self.beat_at = 0.0

    # --- what is due ----------------------------------------------------------------------------------------------

    def _quota(self, order: Order) -> int:
        requests = order.drive.requests
        return len(range(order.share, requests, order.of)) if requests else 1 << 60

    def _closed(self, order: Order) -> Iterator[Flight]:
        """The first request of each user. They come one by one: a server is not met by all of them at once again."""
        for user in range(order.share, self.drive.users, order.of):
            yield Flight(user, 0, self.drive.shot(user, 0), self.start_at + user * _START_SPACING_S)

    def _open(self, order: Order) -> Iterator[Flight]:
        for shot in self.drive.shots[order.share :: order.of]:
            yield Flight(-1, 0, shot, self.start_at + shot.due_s)

    def _follow(self, flight: Flight, now: float, failed: bool) -> None:
        """A user whose request is over sends the next, if it has one."""
        if flight.user < 0:
            return
        due = now + (_AFTER_FAILURE_S if failed else 0.0)
        if self._ends_before(due):
            self.idle_at = self.idle_at or now
            return
        number = flight.number + 1
        self.again.append(Flight(flight.user, number, self.drive.shot(flight.user, number), due))

    def _ends_before(self, due: float) -> bool:
        seconds = self.drive.seconds
        return self.stopped or self.left <= 0 or bool(seconds and due >= self.start_at + seconds)

    def _send_due(self, now: float) -> float:
        """Gives the time of the next that is due."""
        while self.next is not None and self.next.due <= now:
            flight, self.next = self.next, next(self.starts, None)
            self._start(flight)
            if self.next is None and flight.user < 0:
                self.idle_at = now
        for _ in range(len(self.again)):
            flight = self.again.popleft()
            if flight.due <= now:
                self._start(flight)
            else:
                self.again.append(flight)
        soonest = min((flight.due for flight in self.again), default=now + _LONGEST_WAIT_S)
        return min(soonest, self.next.due) if self.next is not None else soonest

    def _start(self, flight: Flight) -> None:
        if flight.tried == 0:
            if flight.user >= 0 and self._ends_before(flight.due):
                self.idle_at = self.idle_at or clock()
                return
            self.left -= 1
        if not self.idle:
            self.waiting.append(flight)
            self._open_connection()
            return
        self._send(flight, self.idle.pop())
        if not self.drive.users and len(self.cold) < _SPARE_CONNECTIONS:
            self._open_connection()

    def _send(self, flight: Flight, connection: Connection) -> None:
        self.cold.pop(connection.fd, None)
        flight.connection = connection
        flight.tried = 2 if not connection.used else flight.tried + 1
        data = request_bytes(self.to, self.drive, flight.shot)
        self.hot[connection.fd] = (connection.recv, flight.response.take, flight)
        try:
            connection.send(data)
        except OSError as error:
            flight.sent = flight.sent or clock()
            if flight.tried < 2:
                self._again(connection.fd, flight)
            else:
                self._lost(connection.fd, flight, str(error))
            return
        flight.sent = flight.sent or clock()
        if connection.wanted != READ:
            self.epoll.modify(connection.fd, connection.wanted)

    # --- connections ----------------------------------------------------------------------------------------------

    def _open_connection(self) -> None:
        try:
            connection = Connection(self.to)
        except OSError as error:
            self._no_connection(str(error))
            return
        self.cold[connection.fd] = connection
        self.epoll.register(connection.fd, connection.wanted)

    def _no_connection(self, why: str) -> None:
        if self.waiting:
            flight = self.waiting.popleft()
            flight.sent = clock()
            flight.response.fault = f"no connection: {why}"
            self._over(flight, flight.sent)

    def _cold_event(self, fd: int) -> None:
        connection = self.cold.get(fd)
        if connection is None:
            return
        if connection.ready:
            # idle: all that a server has to say on it is that it closes it
            self.idle.remove(connection)
            self._drop(connection)
            return
        wanted = connection.wanted
        try:
            connection.go_on(self.to)
        except OSError as error:
            self._drop(connection)
            self._no_connection(str(error))
            return
        if connection.wanted != wanted:
            self.epoll.modify(fd, connection.wanted)
        if connection.ready:
            self._free(connection)

    def _free(self, connection: Connection) -> None:
        if self.waiting:
            self._send(self.waiting.popleft(), connection)
        else:
            self.cold[connection.fd] = connection
            self.idle.append(connection)

    def _drop(self, connection: Connection) -> None:
        self.cold.pop(connection.fd, None)
        self.epoll.unregister(connection.fd)
        connection.close()

    # --- responses ------------------------------------------------------------------------------------------------

    def _hung_up(self, fd: int, flight: Flight) -> None:
        response = flight.response
        if not response.last_at and flight.tried < 2:
            self._again(fd, flight)
            return
        response.end()
        self._finished(fd, flight)

    def _finished(self, fd: int, flight: Flight) -> None:
        response = flight.response
        self._release(fd, flight, reusable=not response.closes)
        self._over(flight, response.last_at or clock())

    def _again(self, fd: int, flight: Flight) -> None:
        """A connection that was kept alive was closed just when it was used: the request goes out on a new one."""
        del self.hot[fd]
        assert flight.connection is not None
        self._drop(flight.connection)
        self.waiting.appendleft(flight)
        flight.response = Response()
        self._open_connection()

    def _lost(self, fd: int, flight: Flight, why: str) -> None:
        flight.response.fault = flight.response.fault or why
        self._release(fd, flight, reusable=False)
        self._over(flight, clock())

    def _release(self, fd: int, flight: Flight, reusable: bool) -> None:
        del self.hot[fd]
        connection = flight.connection
        assert connection is not None
        if reusable and connection.wanted == READ:
            self._free(connection)
            return
        self._drop(connection)
        if self.drive.users and not self.stopped:
            self._open_connection()

    def _over(self, flight: Flight, at: float) -> None:
        response = flight.response
        fault = response.verdict()
        start, deltas, usage = self.start_at, response.deltas, response.usage
        first = deltas[0] - start if deltas else None
        answer = response.answer_at - start if response.answer_at is not None else None
        tokens_in, tokens_out = (usage.prompt_tokens, usage.completion_tokens) if usage else (0, 0)
        times = (flight.due - start, flight.sent - start, first, answer, at - start)
        self.rows.append((*times, tokens_in, tokens_out, len(deltas), fault))
        self.deltas += len(deltas)
        self.failed += bool(fault)
        self.hopeless = self.hopeless + 1 if fault else -(1 << 30)
        if not fault:
            scale = 1000 * len(deltas) / tokens_out if tokens_out else 1000.0
            self.pauses.extend([pause * scale for pause in map(sub, deltas[1:], deltas)])
            self.ttfts.append(deltas[0] - flight.due)
        if self.hopeless >= _HOPELESS:
            self.stopped, self.gave_up = True, f"the first {_HOPELESS} requests failed, and no other was sent"
            self.idle_at = self.idle_at or at
        self._follow(flight, at, failed=bool(fault))

    # --- the loop -------------------------------------------------------------------------------------------------

    def run(self, start_at: float) -> Harvest:
        self.start_at = start_at
        self.next = next(self.starts, None)
        self.epoll.register(self.stop_fd, READ)
        while (left := start_at - clock()) > 0:
            self._read(self.epoll.poll(left), start_at)
        cpu, began = time.process_time(), clock()
        alarm = self._chores(began)
        while self.hot or self.waiting or self.again or self.next is not None:
            events = self._wait(alarm)
            woke = clock()
            now = self._read(events, woke)
            if self.again or now >= alarm:
                alarm = self._chores(now)
            if self.stopped and (self.stop_fd < 0 or not self.hot):
                break
            if events:
                self.lags.append((clock() - woke) * 1000)
        wall = clock() - began
        return self._harvest(time.process_time() - cpu, wall)

    def _chores(self, now: float) -> float:
        """What is due. Gives when there is something to do again."""
        if now - self.beat_at >= _BEAT_S:
            self._beat(now)
        return min(self._send_due(now), self.beat_at + _BEAT_S)

    def prepare(self) -> None:
        """Connections are open before they are needed."""
        users = len(range(self.share, self.drive.users, self.of))
        for _ in range(users or _SPARE_CONNECTIONS):
            self._open_connection()
        give_up_at = clock() + _CONNECT_S
        while len(self.idle) < len(self.cold) and clock() < give_up_at:
            for fd, _mask in self.epoll.poll(0.1):
                self._cold_event(fd)

    def _wait(self, alarm: float) -> list[tuple[int, int]]:
        """What can be read, as soon as there is something, or the alarm's time has come."""
        left = alarm - clock()
        if left > 0.002:
            return self.epoll.poll(left - 0.001)
        if left > 0:
            # epoll counts in whole milliseconds
            select.select((self.epoll.fileno(),), (), (), left)
        return self.epoll.poll(0)

    def _read(self, events: list[tuple[int, int]], now: float) -> float:
        """Gives the time of the last read."""
        hot = self.hot
        for fd, mask in events:
            try:
                recv, take, flight = hot[fd]
            except KeyError:
                if fd == self.stop_fd:
                    self._stop()
                else:
                    self._cold_event(fd)
                continue
            if mask & WRITE and not self._push(fd, flight):
                continue
            try:
                data = recv(READ_BYTES)
            except (BlockingIOError, ssl.SSLWantReadError):
                continue
            except OSError:
                data = b""
            now = clock()
            if not data:
                self._hung_up(fd, flight)
            elif take(data, now):
                self._finished(fd, flight)
        return now

    def _push(self, fd: int, flight: Flight) -> bool:
        connection = flight.connection
        assert connection is not None
        try:
            connection.push()
        except OSError as error:
            self._lost(fd, flight, str(error))
            return False
        if connection.wanted == READ:
            self.epoll.modify(fd, READ)
        return True

    def _beat(self, now: float) -> None:
        self.beat_at = now
        if len(self.lags) > SAMPLE:
            self.lags = self.lags[::2]
        patience_s = self.drive.patience_s
        for fd, (*_, flight) in list(self.hot.items()):
            response = flight.response
            if now - (response.last_at or flight.sent) > patience_s:
                self._lost(fd, flight, f"silent for {patience_s:g} s after {len(response.deltas)} deltas")
        while self.waiting and now - self.waiting[0].due > patience_s:
            self._no_connection(f"none within {patience_s:g} s")
        under_way = sum(len(entry[2].response.deltas) for entry in self.hot.values())
        done = len(self.rows) - self.failed
        self.tell(Beat(len(self.hot), done, self.failed, self.deltas + under_way, tuple(self.ttfts)))
        self.ttfts = []

    def _stop(self) -> None:
        self.epoll.unregister(self.stop_fd)
        self.stop_fd = -1
        self.stopped = True
        self.idle_at = self.idle_at or clock()

    def _harvest(self, cpu_s: float, wall_s: float) -> Harvest:
        idle_at = (self.idle_at or clock()) - self.start_at
        return Harvest(
            rows=tuple(self.rows),
            pauses=self.pauses.values.tobytes(),
            pause_count=self.pauses.count,
            lags=self.lags.tobytes(),
            idle_at=idle_at,
            cpu_s=cpu_s,
            wall_s=wall_s,
            gave_up=self.gave_up,
        )
