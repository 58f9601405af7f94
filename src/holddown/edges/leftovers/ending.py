"""Ending processes, each held by a pidfd whose start time was checked."""

import os
import select
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from holddown.edges.leftovers.looking import GONE, PROC, text_of
from holddown.facts.leftovers import Ended, NotEnded
from holddown.facts.machine import ProcessFacts
from holddown.facts.proc import read_stat

_GRACE_S = 10.0
_KILL_S = 5.0


def end(targets: Sequence[ProcessFacts]) -> tuple[Ended | NotEnded, ...]:
    """SIGTERM to all, then SIGKILL to those that are still there after ten seconds."""
    with ExitStack() as stack:
        ending = [_Ending(target) for target in targets]
        for one in ending:
            one.open(stack)
        for which, patience_s in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, _KILL_S)):
            for one in ending:
                one.signal(which)
            deadline = time.monotonic() + patience_s
            for one in ending:
                one.wait(deadline)
        return tuple(one.result() for one in ending)


@dataclass(slots=True)
class _Ending:
    """One process on its way out, held by a pidfd, which cannot come to mean another process."""

    target: ProcessFacts
    handle: int = -1
    sent: str = ""
    why_not: str = ""
    gone: bool = False

    def open(self, stack: ExitStack) -> None:
        try:
            self.handle = os.pidfd_open(self.target.pid)
            stack.callback(os.close, self.handle)
            # after opening: from here on the handle means whoever has this start time
            now = read_stat(text_of(PROC / str(self.target.pid) / "stat"))
        except GONE:
            self.gone = True
            return
        except OSError as error:
            self.why_not = error.strerror or str(error)
            return
        if now.started_at != self.target.started_at:
            self.why_not = "its pid now belongs to another process"

    def signal(self, which: signal.Signals) -> None:
        if self.gone or self.why_not:
            return
        try:
            signal.pidfd_send_signal(self.handle, which)
        except ProcessLookupError:
            self.gone = True
        except PermissionError:
            self.why_not = f"it belongs to {self.target.user}: only that user or root may end it"
        else:
            self.sent = which.name

    def wait(self, deadline: float) -> None:
        if self.gone or self.why_not:
            return
        poll = select.poll()
        poll.register(self.handle, select.POLLIN)
        # a pidfd becomes readable when its process has ended, reaped or not
        self.gone = bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))

    def result(self) -> Ended | NotEnded:
        if self.gone:
            return Ended(self.target.pid, self.sent or "none: it had ended by itself")
        return NotEnded(
            self.target.pid, self.why_not or "it survives SIGKILL: it waits in the kernel (a disk, a driver)"
        )
