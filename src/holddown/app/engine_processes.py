"""The processes of one deployment's engine: which they are now, their ends, and what they leave behind."""

from dataclasses import replace

from holddown import ports
from holddown.app.chronicle import Chronicle
from holddown.facts.machine import ProcessFacts
from holddown.launch.lifecycle import ProcessRef
from holddown.launch.ownership import members, reference
from holddown.remember.record import Birth


class EngineProcesses:
    def __init__(self, birth: Birth, chronicle: Chronicle, processes: ports.Processes, host: ports.Host) -> None:
        self._birth, self._chronicle, self._processes, self._host = birth, chronicle, processes, host

    @property
    def engine(self) -> ProcessRef:
        engine = self._chronicle.status.engine
        if engine is None:
            raise AssertionError("no engine was started")
        return engine

    def now(self) -> tuple[ProcessFacts, ...]:
        """Those that live. The shared memory that they map goes on record, so that it can be removed after them."""
        me = self._processes.me().pid
        found = members(self._host.processes(), self.engine, self._birth.run_dir, me)
        status = self._chronicle.status
        new = self._processes.shared_memory(found) - frozenset(status.segments) if found else frozenset()
        if new:
            segments = (*status.segments, *sorted(new, key=lambda each: each.path))
            self._chronicle.change(replace(status, segments=segments))
        return found

    def terminate(self) -> None:
        """Its server, which ends its own."""
        self._processes.terminate([self.engine])

    def sweep(self) -> None:
        """What its server left behind."""
        self._processes.terminate(self._references())

    def kill(self) -> None:
        self._processes.kill(self._references())

    def clean_up(self) -> None:
        """Its private folder and the segments that it was seen to map. One that it made after our last look is for
        `clean`: by name alone it could be another program's."""
        self._processes.remove(frozenset(self._chronicle.status.segments), self._birth.run_dir)

    def _references(self) -> list[ProcessRef]:
        return [reference(process, self._birth.boot_id) for process in self.now()]
