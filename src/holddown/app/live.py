"""A deployment from moment to moment: what it has to do, and how many tokens come out of it."""

from collections import deque
from dataclasses import dataclass, field, replace

from holddown import ports
from holddown.app.watch import Load, load_of
from holddown.launch.lifecycle import State
from holddown.launch.phases import Phase
from holddown.remember.record import Deployment
from holddown.tables.load import engine_table

WINDOW_S = 10.0
_SERVING = frozenset({State.READY, State.RELEASED, State.STUCK})


@dataclass(frozen=True, slots=True)
class Tick:
    """at: seconds since the epoch. state: with what is unverified. for_s: since it changed. answers: /health, None
    where nobody was asked. output_tokens: that the engine has counted. recent_tok_s: of the last seconds; mean_tok_s:
    since it serves, pauses included. None where the engine does not tell. starts: of its engine so far."""

    at: float
    name: str
    id: str
    state: str
    is_over: bool
    for_s: float
    why: str
    answers: bool | None = None
    load: Load | None = None
    output_tokens: int | None = None
    recent_tok_s: float | None = None
    mean_tok_s: float | None = None
    starts: int = 1


@dataclass
class Live:
    """Looks at one deployment again and again."""

    deployment: Deployment
    store: ports.Store
    client: ports.Client
    clock: ports.Clock
    _counted: deque[tuple[float, float]] = field(default_factory=deque)

    def tick(self) -> Tick:
        self.deployment = self.store.get(self.deployment.birth.id) or self.deployment
        birth, status, now = self.deployment.birth, self.deployment.status, self.clock.now()
        for_s = max(0.0, now - status.since)
        plain = Tick(
            now, birth.name, birth.id, self.deployment.label, status.state.over, for_s, status.why, starts=status.starts
        )
        if status.state not in _SERVING:
            self._counted.clear()
            return plain
        kind = birth.engine.kind
        # the first of an engine's counters is that of output tokens, in every table
        (count,) = self.client.gauges(engine_table(kind).progress_metrics[0])
        return replace(
            plain,
            answers=self.client.healthy(),
            load=load_of(self.client, kind),
            output_tokens=None if count is None else int(count),
            recent_tok_s=None if count is None else self._recent(count),
            mean_tok_s=None if count is None else _mean(count, self.deployment, now),
        )

    def _recent(self, count: float) -> float | None:
        """None at the first look, and where another engine has begun to count anew."""
        now = self.clock.monotonic()
        if self._counted and count < self._counted[-1][1]:
            self._counted.clear()
        self._counted.append((now, count))
        while now - self._counted[0][0] > WINDOW_S and len(self._counted) > 2:
            self._counted.popleft()
        at, before = self._counted[0]
        return (count - before) / (now - at) if now > at else None


def _mean(count: float, deployment: Deployment, now: float) -> float | None:
    served = next((each.at_s for each in deployment.status.phases if each.phase is Phase.SERVER), None)
    again = deployment.status.starts > 1  # it counts from a start whose time is not in the status
    if served is None or again or now <= deployment.birth.created_at + served:
        return None
    return count / (now - deployment.birth.created_at - served)
