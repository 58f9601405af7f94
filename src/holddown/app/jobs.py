"""What is asked of one engine beside the supervisor's loop: its checks, its measurement, a token now and then."""

import queue
from collections.abc import Iterator

from holddown import ports
from holddown.app.measure import measure
from holddown.app.verify import verify
from holddown.app.watch import Watch
from holddown.launch import events
from holddown.measure.metrics import Measured
from holddown.remember.record import Birth, Doing
from holddown.verify import expect
from holddown.verify.verdict import Outcome, Verdict

Found = Verdict | Doing | Measured | events.VerificationEnded | events.MeasurementEnded | events.HealthAnswered


class Jobs:
    """Of one start: what a job finds out after its engine has ended is not heard by the next one."""

    def __init__(self, birth: Birth, client: ports.Client, background: ports.Background, clock: ports.Clock) -> None:
        self.watch = Watch(client, birth.engine.kind, birth.plan.served_model_name)
        self._birth, self._client, self._background, self._clock = birth, client, background, clock
        self._found: queue.SimpleQueue[Found] = queue.SimpleQueue()

    def running(self) -> bool:
        """Raises: what a job raised: a bug of ours is no silence."""
        return self._background.running()

    def found(self) -> Iterator[Found]:
        while not self._found.empty():
            yield self._found.get()

    def verify(self) -> None:
        self._background.start(self._verify)

    def measure(self) -> None:
        self._background.start(self._measure)

    def probe(self) -> None:
        self._background.start(self._probe)

    def _verify(self) -> None:
        checks = expect.checks(self._birth.model, self._birth.plan)
        verdicts = verify(self._client, checks, frozenset(self._birth.skip_checks), self._found.put)
        failed = tuple(verdict.check for verdict in verdicts if verdict.outcome is Outcome.FAILED)
        self._found.put(events.VerificationEnded(failed, alive=not failed or self._client.healthy()))

    def _measure(self) -> None:
        name = self._birth.plan.served_model_name
        self._found.put(measure(self._client, name, lambda text: self._found.put(Doing(text))))
        self._found.put(events.MeasurementEnded(alive=self._client.healthy()))

    def _probe(self) -> None:
        silence = self.watch.probe(self._clock.monotonic())
        self._found.put(events.HealthAnswered(not silence, silence))
