"""The loop of one process: it sends what is due, and stamps and takes up what comes.

A token costs a system call, a clock and a few looks at its bytes (`Response.take`).
"""

import select
import ssl
import time
from array import array
from collections import deque
from collections.abc import Callable
from operator import sub

from holddown.edges.load.connection import READ, READ_BYTES, WRITE, Connection
from holddown.edges.load.endpoint import Endpoint, request_bytes
from holddown.edges.load.flight import SAMPLE, Flight, Sample
from holddown.edges.load.response import Response
from holddown.edges.load.schedule import Schedule
from holddown.edges.load.wire import Beat, Harvest, Order, Row

_BEAT_S = 0.25
_SPARE_CONNECTIONS = 8
_HOPELESS = 20
_CONNECT_S = 10.0
_MANY_READS_PER_S = 2000
_GATHER_S = 0.00075
"""Above so many reads a second, streams that have begun are looked at no more often than this: to be woken for each
token costs more than to read it. A first token is never waited with."""

clock = time.monotonic


class Loop:
    """tell: takes a `Beat` now and then. stop_fd: becomes readable when it is to stop."""

    def __init__(self, order: Order, to: Endpoint, tell: Callable[[Beat], None], stop_fd: int) -> None:
        self.drive, self.to, self.tell, self.stop_fd = order.drive, to, tell, stop_fd
        self.start_at = 0.0
        self.epoll = select.epoll()
        self.streams = select.epoll()  # those that have begun
        self.epoll.register(self.streams.fileno(), READ)
        self.hot: dict[int, tuple[Callable[[int], bytes], Callable[[bytes, float], bool], Flight]] = {}
        self.cold: dict[int, Connection] = {}  # being opened, or idle
        self.idle: list[Connection] = []
        self.waiting: deque[Flight] = deque()  # for a connection
        self.schedule = Schedule(order)
        self.connections = len(range(order.share, order.drive.users, order.of)) or _SPARE_CONNECTIONS
        self.rows: list[Row] = []
        self.pauses, self.lags = Sample(), array("f")
        self.failed = self.deltas = self.hopeless = 0
        self.ttfts: list[float] = []
        self.gave_up = ""
        self.beat_at = 0.0
        self.alarm = 0.0  # when there is something to do that is not reading
        self.reads = 0
        self.many = False

    # --- requests -------------------------------------------------------------------------------------------------

    def _start(self, flight: Flight) -> None:
        if self.idle:
            self._send(flight, self.idle.pop())
        else:
            self.waiting.append(flight)
            self._open_connection()
        if self.schedule.open and len(self.cold) < _SPARE_CONNECTIONS:
            self._open_connection()

    def _send(self, flight: Flight, connection: Connection) -> None:
        self.cold.pop(connection.fd, None)
        flight.connection = connection
        flight.fresh = not connection.used
        data = request_bytes(self.to, self.drive, flight.shot)
        self.hot[connection.fd] = (connection.recv, flight.response.take, flight)
        try:
            connection.send(data)
        except OSError as error:
            flight.sent = flight.sent or clock()
            if not flight.fresh:
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
        self._at_home(connection, self.epoll)

    def _at_home(self, connection: Connection, home: select.epoll) -> None:
        if connection.home is not home:
            if connection.home is not None:
                connection.home.unregister(connection.fd)
            home.register(connection.fd, connection.wanted)
            connection.home = home

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
        if connection.home is not None:
            connection.home.unregister(connection.fd)
        connection.close()

    # --- responses ------------------------------------------------------------------------------------------------

    def _hung_up(self, fd: int, flight: Flight) -> None:
        response = flight.response
        if not response.last_at and not flight.fresh:
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
            self._at_home(connection, self.epoll)
            self._free(connection)
            return
        self._drop(connection)
        if not self.schedule.open and not self.schedule.stopped:
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
            ended = deltas[1:]
            self.pauses.extend([pause * scale for pause in map(sub, ended, deltas)], [at - start for at in ended])
            self.ttfts.append(deltas[0] - flight.due)
        if self.hopeless >= _HOPELESS:
            self.gave_up = f"the first {_HOPELESS} requests failed, and no other was sent"
            self.schedule.stop(at)
        self.schedule.follow(flight, at, failed=bool(fault))
        if self.schedule.follows:
            self.alarm = at

    # --- the loop -------------------------------------------------------------------------------------------------

    def run(self, start_at: float) -> Harvest:
        self.start_at = start_at
        self.schedule.begin(start_at)
        self.epoll.register(self.stop_fd, READ)
        while (left := start_at - clock()) > 0:
            self._read(self.epoll.poll(left))
        cpu, began = time.process_time(), clock()
        self._chores(began)
        while self.hot or self.waiting or not self.schedule.over:
            events = self._wait()
            woke = clock()
            if woke >= self.alarm:
                self._chores(woke)
            self._read(events)
            if self.schedule.stopped and (self.stop_fd < 0 or not self.hot):
                break
            if events:
                self.reads += len(events)
                self.lags.append((clock() - woke + (_GATHER_S if self.many else 0.0)) * 1000)
        wall = clock() - began
        return self._harvest(time.process_time() - cpu, wall)

    def _chores(self, now: float) -> None:
        """What is due."""
        if now - self.beat_at >= _BEAT_S:
            self._beat(now)
        for flight in self.schedule.due(now):
            self._start(flight)
        self.alarm = min(self.schedule.soonest(now), self.beat_at + _BEAT_S)

    def prepare(self) -> None:
        """Connections are open before they are needed."""
        for _ in range(self.connections):
            self._open_connection()
        give_up_at = clock() + _CONNECT_S
        while len(self.idle) < len(self.cold) and clock() < give_up_at:
            for fd, _mask in self.epoll.poll(0.1):
                self._cold_event(fd)

    def _wait(self) -> list[tuple[int, int]]:
        """What can be read, as soon as there is something, or the alarm's time has come."""
        left = self.alarm - clock()
        if self.many:
            if left > 0:
                select.select((self.epoll.fileno(),), (), (), min(left, _GATHER_S))
            return self.epoll.poll(0) + self.streams.poll(0)
        if left > 0.002:
            return self.epoll.poll(left - 0.001)
        if left > 0:
            # epoll counts in whole milliseconds
            select.select((self.epoll.fileno(),), (), (), left)
        return self.epoll.poll(0)

    def _read(self, events: list[tuple[int, int]]) -> None:
        """What is due in the meantime is not kept waiting."""
        hot = self.hot
        for fd, mask in events:
            try:
                recv, take, flight = hot[fd]
            except KeyError:
                self._other_event(fd)
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
                self._turned(fd, flight)
            if now >= self.alarm:
                self._chores(now)

    def _other_event(self, fd: int) -> None:
        if fd == self.streams.fileno():
            self._read(self.streams.poll(0))
        elif fd == self.stop_fd:
            self._stop()
        else:
            self._cold_event(fd)

    def _turned(self, fd: int, flight: Flight) -> None:
        """Its answer is over, or its first token has come."""
        connection = flight.connection
        assert connection is not None
        if flight.response.over:
            self._finished(fd, flight)
        elif connection.wanted == READ:
            self._at_home(connection, self.streams)

    def _push(self, fd: int, flight: Flight) -> bool:
        connection = flight.connection
        assert connection is not None
        try:
            connection.push()
        except OSError as error:
            self._lost(fd, flight, str(error))
            return False
        if connection.wanted == READ and connection.home is not None:
            connection.home.modify(fd, READ)
        return True

    def _beat(self, now: float) -> None:
        self._gather(self.reads > _MANY_READS_PER_S * (now - self.beat_at))
        self.reads, self.beat_at = 0, now
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

    def _gather(self, many: bool) -> None:
        """Where there are few reads, a stream that has begun wakes the loop like any other."""
        if many is self.many:
            return
        self.many = many
        if many:
            self.epoll.unregister(self.streams.fileno())
        else:
            self.epoll.register(self.streams.fileno(), READ)

    def _stop(self) -> None:
        self.epoll.unregister(self.stop_fd)
        self.stop_fd = -1
        self.schedule.stop(clock())

    def _harvest(self, cpu_s: float, wall_s: float) -> Harvest:
        idle_at = (self.schedule.idle_at or clock()) - self.start_at
        return Harvest(
            rows=tuple(self.rows),
            pauses=self.pauses.values.tobytes(),
            pauses_at=self.pauses.times.tobytes(),
            pause_count=self.pauses.count,
            lags=self.lags.tobytes(),
            idle_at=idle_at,
            cpu_s=cpu_s,
            wall_s=wall_s,
            gave_up=self.gave_up,
        )
