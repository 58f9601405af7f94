"""A deployment coming up, as it is seen: a live last line on a terminal, plain lines elsewhere."""

from dataclasses import replace

from holddown.base.evidence import Fact, Known
from holddown.base.units import duration_text, size_text
from holddown.cli.spinner import Spinner
from holddown.explain.happening import clock_text, growing_text, happening_text, phase_text
from holddown.launch.lifecycle import State
from holddown.launch.phases import Phase
from holddown.remember import record
from holddown.remember.record import Deployment, Entry

_PLAIN_EVERY_S = 15.0
_COUNTED_EVERY_S = 5.0


class Display(Spinner):
    """Shows entries as they come."""

    def __init__(self, deployment: Deployment, estimate: Fact[float]) -> None:
        self._doing = "starting"
        super().__init__(self._doing)
        self._born = deployment.birth.created_at
        self._estimate = estimate
        self._last = ""
        self._phase: Phase | None = None
        self._serves = False
        self._said_at = self._born
        size = deployment.birth.plan
        self.say(f"bringing up {deployment.birth.name} ({deployment.birth.id}) on {size.engine}")
        if isinstance(estimate, Known):
            self.say(f"expected to serve after {duration_text(estimate.value)} ({estimate.source.where})")
        else:
            load = size_text(deployment.birth.plan.load_bytes)
            self.say(f"no estimate: {estimate.why}; {load} of weights are to be loaded")

    def show(self, entry: Entry | None, now: float) -> None:
        """An entry, or None for the passing of time."""
        if entry is not None:
            self._take(entry)
        elapsed = now - self._born
        turning = self.turn(f"{clock_text(elapsed)} {self._doing}{self._left(elapsed)}")
        if not turning and entry is None and now - self._said_at > _PLAIN_EVERY_S:
            self._print(now, f"{self._doing}{self._left(elapsed)}")

    def _take(self, entry: Entry) -> None:
        happening = entry.happening
        if isinstance(happening, record.Growing):
            self._doing = f"{self._doing.partition(' - ')[0]} - {growing_text(happening)}"
            return
        text = happening_text(happening)
        if isinstance(happening, record.Doing):
            self._doing = happening.text
        if isinstance(happening, record.StateChanged) and text:
            self._doing = text
            self._serves |= happening.state is State.READY
        if isinstance(happening, record.PhaseEntered):
            self._doing = phase_text(replace(happening, detail=""))
            text = text if self._is_news(happening, entry.at) else ""
        if text and text != self._last:
            self._last = text
            self._print(entry.at, text)

    def _is_news(self, entered: record.PhaseEntered, at: float) -> bool:
        """An engine says several times that it is in a phase, and counts every graph: news is the first of a phase,
        what brings figures, and of a count its end and a line now and then."""
        first = entered.phase is not self._phase
        self._phase = entered.phase
        if entered.total and not first:
            return entered.done == entered.total or at - self._said_at > _COUNTED_EVERY_S
        return first or bool(entered.detail)

    def _print(self, at: float, text: str) -> None:
        self._said_at = at
        self.say(f"{clock_text(at - self._born)} {text}")

    def _left(self, elapsed: float) -> str:
        if self._serves or not isinstance(self._estimate, Known) or self._estimate.value < elapsed:
            return ""
        return f" - about {duration_text(self._estimate.value - elapsed)} to go"
