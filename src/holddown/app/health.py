"""Whether the engine answers: that it is ours that does, and that it computes."""

from holddown import ports
from holddown.app.jobs import Jobs
from holddown.facts.machine import ProcessFacts
from holddown.launch.events import HealthAnswered
from holddown.launch.lifecycle import Life, State

_UNSEEN_S = 1.0
_STARTING_EVERY_S = 0.2
_SERVING_EVERY_S = 10.0  # an engine logs each request


class Health:
    """Of one start. reached: /health answered well when it was asked last. stranger: another program that answers on
    its port."""

    def __init__(self, port: int, client: ports.Client, jobs: Jobs, host: ports.Host, traces: ports.Leftovers) -> None:
        self.reached = False
        self.stranger: ProcessFacts | None = None
        self._port, self._client, self._jobs, self._host, self._traces = port, client, jobs, host, traces
        self._asked_at = float("-inf")
        self._unseen_since: float | None = None

    def due(self, life: Life, now: float) -> bool:
        """A server that is busy with our checks may answer late; its log and its CPU time say that it lives."""
        every_s = _SERVING_EVERY_S if life.state is State.RELEASED else _STARTING_EVERY_S
        return not self._jobs.running() and now - self._asked_at >= every_s

    def ask(self, life: Life, members: tuple[ProcessFacts, ...], now: float) -> HealthAnswered:
        self._asked_at = now
        self.reached = self._client.healthy()
        if not self.reached:
            self._unseen_since = None
            return HealthAnswered(False)
        if life.within(State.STARTING):
            return HealthAnswered(self._is_own(members, now))
        silence = self._jobs.watch.look(now) if life.within(State.RELEASED) else ""
        return HealthAnswered(not silence, silence)

    def _is_own(self, members: tuple[ProcessFacts, ...], now: float) -> bool:
        """The port was free when it was chosen, and an engine binds it many seconds later: another may have been first.

        Its good health would be taken for ours, and its answers for our model's.
        """
        own = {each.pid for each in members}
        if any(self._port in self._traces.held(pid).ports for pid in own):
            return True
        others = (each for each in self._host.processes() if each.pid not in own)
        self.stranger = next((each for each in others if self._port in self._traces.held(each.pid).ports), None)
        if self.stranger is not None:
            self._unseen_since = None
            return False
        # nobody is seen to listen: /proc hides it, or the one that answered has just ended; that one answers no more
        self._unseen_since = self._unseen_since if self._unseen_since is not None else now
        return now - self._unseen_since >= _UNSEEN_S
