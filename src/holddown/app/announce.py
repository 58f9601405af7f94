"""What a supervisor tells the service manager that started it, from what it knows of its deployment."""

from holddown import ports
from holddown.launch.lifecycle import Patience, State
from holddown.remember.record import Status

_EVERY_S = 10.0
_MARGIN_S = 60.0


class Announcer:
    """Says what is new, and asks for time while there is life. Source: sd_notify(3)."""

    def __init__(self, notify: ports.Notify, patience: Patience) -> None:
        self._notify = notify
        # as long as the supervisor itself waits for a sign of life before it ends a start
        self._extension_s = patience.quiet_s + patience.give_up_s + _MARGIN_S
        self._said = ""
        self._ready = self._stopping = False
        self._extended_at = float("-inf")

    def see(self, status: Status, now: float) -> None:
        words = []
        if status.state is State.RELEASED and not self._ready:
            self._ready = True
            words.append("READY=1")
        # not of a stop that nobody asked for: a supervisor may start another engine after it
        over = status.state.over or (status.state is State.STOPPING and status.stop_asked)
        if over and not self._stopping:
            self._stopping = True
            words.append("STOPPING=1")
        text = _text(status)
        if text != self._said:
            self._said = text
            words.append(f"STATUS={text}")
        # not while it is stuck: then systemd's patience runs out, too
        if status.state in (State.STARTING, State.READY) and now - self._extended_at >= _EVERY_S:
            self._extended_at = now
            words.append(f"EXTEND_TIMEOUT_USEC={self._extension_s * 1e6:.0f}")
        if words:
            self._notify.tell(tuple(words))


def _text(status: Status) -> str:
    """One line: a datagram's lines are assignments."""
    text = str(status.state)
    if status.state is State.STARTING and status.phases:
        text += f": {status.phases[-1].phase}"
    elif status.state is State.READY:
        text += f": checking its answers, {len(status.verdicts)} done"
    elif status.why:
        text += f": {status.why}"
    return " ".join(text.split())
