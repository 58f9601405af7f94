"""A load run as it is seen: a live last line on a terminal, a line per phase everywhere."""

from holddown.cli.spinner import Spinner
from holddown.explain.bench_text import phase_text, pulse_text
from holddown.measure.drive import Pulse
from holddown.measure.run import Arrival, Phase

_PLAIN_EVERY_S = 15.0


class Display(Spinner):
    """Phases as they go on and end."""

    def __init__(self) -> None:
        super().__init__()
        self._said_s = 0.0

    def pulse(self, arrival: Arrival, pulse: Pulse) -> None:
        text = pulse_text(arrival, pulse)
        if not self.turn(text) and pulse.elapsed_s - self._said_s > _PLAIN_EVERY_S:
            self._said_s = pulse.elapsed_s
            self.say(text)

    def ended(self, name: str, phase: Phase) -> None:
        self._said_s = 0.0
        self.say(phase_text(name, phase))
