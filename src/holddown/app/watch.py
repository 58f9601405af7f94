"""Whether an engine that answers /health computes anything: a step that hangs leaves its HTTP server as it was."""

from dataclasses import dataclass

from holddown import ports
from holddown.facts.answers import Ask, Refusal
from holddown.tables.load import engine_table
from holddown.verify.expect import NEXT_TOKEN_PROMPT

PROBE_EVERY_S = 300.0
PROBE_AGAIN_S = 60.0
"""After a token that was not answered."""


@dataclass
class Watch:
    """Of one engine that serves. kind: as `Engine.kind`. name: that it answers to."""

    client: ports.Client
    kind: str
    name: str
    _counted: float | None = None
    _busy_at: float | None = None
    _idle: bool = False
    _missed: str = ""

    def look(self, now: float) -> str:
        """What is missing, empty for nothing: requests run, and no counter has grown since the last look; or it is
        idle, and the last token that was asked of it did not come."""
        table = engine_table(self.kind)
        if not table.running_metric:
            return ""
        running, *counters = self.client.gauges(table.running_metric, *table.progress_metrics)
        self._idle = running == 0
        told = [each for each in counters if each is not None]
        if not running or not told:
            self._counted = None
            return self._missed
        before, self._counted = self._counted, sum(told)
        self._busy_at = now
        if before == self._counted:
            return f"{running:.0f} requests run, and not a token more"
        self._missed = ""
        return ""

    def due(self, now: float) -> bool:
        """Whether it has been idle for so long that one token is asked of it. One that does not tell whether it is idle
        is not asked: the token might wait in its queue for minutes."""
        self._busy_at = now if self._busy_at is None else self._busy_at
        return self._idle and now - self._busy_at >= (PROBE_AGAIN_S if self._missed else PROBE_EVERY_S)

    def probe(self, now: float) -> str:
        """What is missing, empty for nothing."""
        self._busy_at = now
        said = self.client.ask(Ask(model=self.name, prompt=NEXT_TOKEN_PROMPT, max_tokens=1))
        self._missed = f"idle, and it does not answer one token: {said.message}" if isinstance(said, Refusal) else ""
        return self._missed


@dataclass(frozen=True, slots=True)
class Load:
    """What an engine has to do now. kv_share: of its KV cache in use, None where that is not told."""

    running: int
    waiting: int
    kv_share: float | None

    @property
    def saturated(self) -> bool:
        """It works, and more is asked of it than it can take at once: other than stuck."""
        return self.waiting > 0 and self.running > 0


def load_of(client: ports.Client, kind: str) -> Load | None:
    """None where it does not tell."""
    table = engine_table(kind)
    running, waiting, kv_share = client.gauges(table.running_metric, table.waiting_metric, table.kv_metric)
    return Load(int(running), int(waiting or 0), kv_share) if running is not None else None
