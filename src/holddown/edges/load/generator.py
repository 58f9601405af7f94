"""The load client as the rest of the program sees it: processes are started, fed, heard, and ended."""

import contextlib
import os
import selectors
import subprocess
import sys
import time
from array import array
from collections.abc import Callable
from statistics import median

from holddown.base.evidence import Fact, Unknown, derived
from holddown.edges.load.wire import Beat, Harvest, Order, frame_bytes, read_frame
from holddown.measure.drive import STOPPED, Drive, Driven, Language, Pulse
from holddown.measure.pauses import pauses_between
from holddown.measure.run import ClientSide, Trace
from holddown.measure.shapes import Shape
from holddown.measure.stats import percentile

_START_S = 0.02
_PROGRAM = (sys.executable, "-P", "-m")
_NULL_TOKENS, _NULL_STREAMS, _NULL_REQUESTS = 256, 32, 64


class LoadProcesses:
    """Against one server. api_key: secret; it goes to the processes through their stdin."""

    def __init__(self, base_url: str, api_key: str = "") -> None:
        self._base_url = base_url
        self._api_key = api_key
        self._capacity: Fact[float] | None = None

    def cores(self) -> int:
        return len(os.sched_getaffinity(0))

    def capacity(self) -> Fact[float]:
        """Events with a token that one process reads in a second of CPU time, from a loopback server that does nothing
        but send."""
        if self._capacity is None:
            self._capacity = _calibrated()
        return self._capacity

    def drive(self, drive: Drive, pulse: Callable[[Pulse], None]) -> Driven:
        """Ctrl-C ends it with what was measured until then."""
        processes = [
            _Process(share, drive.processes, self._base_url, self._api_key, drive) for share in range(drive.processes)
        ]
        try:
            return _driven(drive, processes, pulse)
        finally:
            for process in processes:
                process.end()


class _Process:
    def __init__(self, share: int, of: int, base_url: str, api_key: str, drive: Drive) -> None:
        self._process = subprocess.Popen(
            [*_PROGRAM, "holddown.edges.load.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            process_group=0,  # Ctrl-C in a terminal is this program's to hear
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.stdin, self.stdout = self._process.stdin, self._process.stdout
        self.beat = Beat(0, 0, 0, 0, ())
        self.harvest: Harvest | None = None
        with contextlib.suppress(OSError):  # one that died at once is seen when it is read from
            self.stdin.write(frame_bytes(Order(base_url, api_key, drive, share, of)))

    def hear(self) -> bool:
        """Takes one frame. False when no more will come."""
        frame = read_frame(self.stdout)
        if isinstance(frame, Beat):
            self.beat = frame
        else:
            self.harvest = frame
        return isinstance(frame, Beat)

    def go(self, at: float) -> None:
        with contextlib.suppress(OSError):
            self.stdin.write(frame_bytes(at))

    def stop(self) -> None:
        self.stdin.close()

    def end(self) -> None:
        self.stdin.close()
        self.stdout.close()
        if self.harvest is None:
            self._process.kill()
        self._process.wait()


def _driven(drive: Drive, processes: list[_Process], pulse: Callable[[Pulse], None]) -> Driven:
    ready = [process for process in processes if process.hear()]
    began = time.monotonic() + _START_S
    for process in ready:
        process.go(began)
    cut = ""
    with selectors.DefaultSelector() as selector:
        for process in ready:
            selector.register(process.stdout, selectors.EVENT_READ, process)
        while selector.get_map():
            try:
                _hear(selector, began, processes, pulse)
            except KeyboardInterrupt:
                if cut:
                    raise
                cut = STOPPED
                for process in ready:
                    process.stop()
    lost = sum(process.harvest is None for process in processes)
    if lost and not cut:
        cut = f"{lost} of {len(processes)} processes of the load client died"
    return _brought(drive, [process.harvest for process in processes if process.harvest is not None], cut)


def _hear(
    selector: selectors.BaseSelector, began: float, processes: list[_Process], pulse: Callable[[Pulse], None]
) -> None:
    fresh: list[float] = []
    for key, _ in selector.select():
        process: _Process = key.data
        if process.hear():
            fresh += process.beat.ttfts
        else:
            selector.unregister(process.stdout)
    beats = [process.beat for process in processes]
    pulse(
        Pulse(
            elapsed_s=time.monotonic() - began,
            running=sum(beat.running for beat in beats),
            done=sum(beat.done for beat in beats),
            failed=sum(beat.failed for beat in beats),
            deltas=sum(beat.deltas for beat in beats),
            ttft_s=median(fresh) if fresh else None,
        )
    )


def _brought(drive: Drive, harvests: list[Harvest], cut: str) -> Driven:
    traces = [
        Trace(due, sent, first, ended, tokens_in, tokens_out, deltas, fault, answer)
        for harvest in harvests
        for due, sent, first, answer, ended, tokens_in, tokens_out, deltas, fault in harvest.rows
    ]
    traces.sort(key=lambda trace: trace.due_s)
    idle = [harvest.idle_at for harvest in harvests]
    ended = min(idle, default=0.0) if drive.users else max(idle, default=0.0)
    lags = _floats([harvest.lags for harvest in harvests])
    late = [(trace.sent_s - trace.due_s) * 1000 for trace in traces]
    return Driven(
        traces=tuple(traces),
        held_s=ended if drive.users or cut else drive.seconds,
        pauses=pauses_between(
            _floats([harvest.pauses_at for harvest in harvests]),
            _floats([harvest.pauses for harvest in harvests]),
            sum(harvest.pause_count for harvest in harvests),
        ),
        client=ClientSide(
            processes=len(harvests),
            cpu_share=max((one.cpu_s / one.wall_s for one in harvests if one.wall_s), default=0.0),
            send_lag_ms=percentile(late, 99) if late else 0.0,
            loop_lag_ms=percentile(lags, 99) if lags else 0.0,
        ),
        cut=cut or next((harvest.gave_up for harvest in harvests if harvest.gave_up), ""),
    )


def _floats(parts: list[bytes]) -> "array[float]":
    values = array("f")
    for part in parts:
        values.frombytes(part)
    return values


def _calibrated() -> Fact[float]:
    with subprocess.Popen(
        [*_PROGRAM, "holddown.edges.load.null_server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdout is not None
        port = server.stdout.readline().strip().decode()
        drive = Drive(
            model="m",
            language=Language(("a",) * 256, 0, 1.0, chat=True, exact=True),
            shape=Shape("null", 16, _NULL_TOKENS),
            seed=0,
            ignore_eos=False,
            users=_NULL_STREAMS,
            requests=_NULL_REQUESTS,
            seconds=0.0,
            first_session=0,
            patience_s=10.0,
        )
        process = _Process(0, 1, f"http://127.0.0.1:{port}", "", drive)
        try:
            if _driven(drive, [process], lambda _: None).cut == STOPPED:
                raise KeyboardInterrupt
        finally:
            process.end()
            server.kill()
    harvest = process.harvest
    tokens = sum(row[7] for row in harvest.rows) if harvest else 0
    if harvest is None or not tokens or not harvest.cpu_s:
        return Unknown("the load client could not be calibrated on this machine")
    return derived(
        tokens / harvest.cpu_s, f"{tokens} events from a loopback server in {harvest.cpu_s:.3f} s of CPU time"
    )
