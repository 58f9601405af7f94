"""What a supervisor puts on record. A store that cannot be written must not end an engine: it is tried again."""

from dataclasses import replace

from holddown import ports
from holddown.base.errors import StoreError
from holddown.base.finding import Finding
from holddown.explain.supervision import written_late
from holddown.facts.engine_report import read_report
from holddown.measure.metrics import Measured
from holddown.remember.calibrate import comparisons
from holddown.remember.record import Birth, Growing, Happening, MeasurementTaken, Noted, Status, VerdictGiven
from holddown.verify.verdict import Verdict

_AGAIN_AFTER_S = 1.0
_LAST_WRITE_S = 60.0


class Chronicle:
    """The status of one deployment and what has happened since it was last written."""

    def __init__(self, birth: Birth, status: Status, store: ports.Store, clock: ports.Clock) -> None:
        self.status = status
        self._birth, self._store, self._clock = birth, store, clock
        self._pending: list[Happening] = []
        self._dirty = False
        self._failed_at: float | None = None
        self._failing_since, self._error = 0.0, ""

    def change(self, status: Status) -> None:
        self._dirty = self._dirty or status != self.status
        self.status = status

    def add(self, happening: Happening) -> None:
        """Where nothing can be written, how an engine grows is not kept for later: it would pile up."""
        if self._failed_at is None or not isinstance(happening, Growing):
            self._pending.append(happening)

    def hear(self, processes: ports.Processes) -> None:
        """What the engine resolved, from its own mouth, once. One without the plug-in says nothing."""
        if self.status.report is None:
            self.change(replace(self.status, report=read_report(processes.reports(self._birth.run_dir))))

    def addressed(self, finding: Finding) -> Finding:
        """Its commands as they can be pasted: the diagnosis knows the log, not whose it is."""
        birth = self._birth
        do = finding.do.replace("logs NAME", f"logs {birth.name}").replace("holddown up ...", birth.up_again)
        return replace(finding, do=do)

    def note(self, finding: Finding) -> None:
        """Something to know about the deployment, for its status and for its history."""
        self.change(replace(self.status, notes=(*self.status.notes, finding)))
        self.add(Noted(finding))

    def keep_verdict(self, verdict: Verdict) -> None:
        told = replace(verdict, findings=tuple(self.addressed(each) for each in verdict.findings))
        self.change(replace(self.status, verdicts=(*self.status.verdicts, told)))
        self.add(VerdictGiven(told))

    def keep_measured(self, measured: Measured) -> None:
        taken = measured.measurements
        compared = comparisons(self._birth.plan, self._birth.model, taken)
        self.change(replace(self.status, measurements=taken, comparisons=compared))
        self.add(MeasurementTaken(taken))
        for finding in measured.findings:
            self.note(self.addressed(finding))

    def write(self) -> None:
        """All that is new, in one transaction. Raises: StoreError; nothing is lost by it, and it may be tried again."""
        if not self._pending and not self._dirty:
            return
        now = self._clock.now()
        self._store.write(self._birth.id, self.status, tuple(self._pending), now)
        self._pending.clear()
        self._dirty = False

    def try_to_write(self) -> None:
        """As `write`; a failure is kept, and is on record as soon as the store can be written again."""
        now = self._clock.monotonic()
        if self._failed_at is not None and now - self._failed_at < _AGAIN_AFTER_S:
            return
        try:
            self.write()
            if self._failed_at is not None:
                self._failed_at = None
                self.note(written_late(self._birth.name, now - self._failing_since, self._error))
                self.write()
        except StoreError as error:
            if self._failed_at is None:
                self._failing_since, self._error = now, error.what
            self._failed_at = self._clock.monotonic()

    def finish(self) -> None:
        """The last word. Raises: StoreError when it cannot be written for a minute; the next command finds it out."""
        deadline = self._clock.monotonic() + _LAST_WRITE_S
        while self._clock.monotonic() < deadline:
            self.try_to_write()
            if not self._pending and not self._dirty:
                return
            self._clock.sleep(_AGAIN_AFTER_S)
        self.write()
