"""What a supervisor that is gone left of a deployment, for the one that takes over."""

from collections.abc import Iterable
from dataclasses import dataclass

from holddown.facts.machine import ProcessFacts
from holddown.launch.lifecycle import Left, ProcessRef, State
from holddown.launch.ownership import leader, reference
from holddown.remember.record import Deployment, Entry, in_a_row, past_of


@dataclass(frozen=True, slots=True)
class TakenOver:
    """engine: None where none was started, or the next one is not yet. starts: its number. began_at: its start."""

    engine: ProcessRef | None
    starts: int
    began_at: float
    left: Left

    @property
    def lost(self) -> bool:
        """There is nothing to take over."""
        return self.engine is None and self.left.state is not State.WAITING


def taken_over(
    deployment: Deployment, entries: Iterable[Entry], processes: Iterable[ProcessFacts], now: float
) -> TakenOver:
    """An engine that was started in the instant before the record of it is found by its private folder."""
    birth, status = deployment.birth, deployment.status
    past, state, starts, engine = past_of(entries), status.state, status.starts, status.engine
    if engine is None and (found := leader(processes, birth.run_dir)) is not None:
        engine = reference(found, birth.boot_id)
        if state is State.WAITING:
            state, starts = State.STARTING, starts + 1
    left = Left(
        state,
        status.why,
        status.stop_asked,
        released=state is State.RELEASED or (state is State.STUCK and past.released),
        restart=birth.restart,
        served=past.served,
        failures=in_a_row(status, now),
    )
    return TakenOver(engine, starts, past.started_at or birth.created_at, left)
