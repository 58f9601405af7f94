"""A record store in memory."""

from dataclasses import dataclass, field

from holddown.base.errors import StoreError
from holddown.remember.record import Birth, Deployment, Entry, Happening, StateChanged, Status, in_the_way
from holddown.remember.run import Run
from holddown.remember.switching import Switching
from holddown.remember.trust import TrustedCode


@dataclass
class FakeStore:
    """Port `Store`. broken: every write fails. written: each status in its order, as a reader could have seen it."""

    births: dict[str, Birth] = field(default_factory=dict)
    statuses: dict[str, Status] = field(default_factory=dict)
    happened: list[tuple[str, Entry]] = field(default_factory=list)
    written: list[Status] = field(default_factory=list)
    broken: bool = False
    trusts: list[TrustedCode] = field(default_factory=list)
    going_on: dict[str, Switching] = field(default_factory=dict)
    kept_runs: list[Run] = field(default_factory=list)

    def create(self, birth: Birth, status: Status) -> Deployment | None:
        for there in self.all(active_only=True):
            if in_the_way(there.birth, birth):
                return there
        self.births[birth.id], self.statuses[birth.id] = birth, status
        return None

    def write(self, deployment_id: str, status: Status, happenings: tuple[Happening, ...], at: float) -> None:
        if self.broken:
            raise StoreError("the record store cannot be written: disk full", code="store.unusable")
        self.statuses[deployment_id] = status
        self.written.append(status)
        for happening in happenings:
            self.happened.append((deployment_id, Entry(len(self.happened) + 1, at, happening)))

    def get(self, deployment_id: str) -> Deployment | None:
        birth = self.births.get(deployment_id)
        return None if birth is None else Deployment(birth, self.statuses[deployment_id])

    def latest(self, name: str) -> Deployment | None:
        named = [deployment for deployment in self.all() if deployment.birth.name == name]
        return named[-1] if named else self.get(name)

    def all(self, *, active_only: bool = False) -> tuple[Deployment, ...]:
        there = [Deployment(birth, self.statuses[each]) for each, birth in self.births.items()]
        return tuple(each for each in there if not (active_only and each.status.state.over))

    def entries(self, deployment_id: str, after: int = 0) -> tuple[Entry, ...]:
        return tuple(entry for owner, entry in self.happened if owner == deployment_id and entry.seq > after)

    def put_switching(self, switching: Switching) -> None:
        self.going_on[switching.before] = switching

    def end_switching(self, before: str) -> None:
        self.going_on.pop(before, None)

    def switchings(self) -> tuple[Switching, ...]:
        return tuple(self.going_on.values())

    def trust(self, code: TrustedCode) -> None:
        self.trusts.insert(0, code)

    def trusted(self) -> tuple[TrustedCode, ...]:
        return tuple(self.trusts)

    def add_run(self, run: Run) -> None:
        self.kept_runs.insert(0, run)

    def run(self, run_id: str) -> Run | None:
        return next((each for each in self.kept_runs if each.id == run_id), None)

    def runs(self, of: str) -> tuple[Run, ...]:
        return tuple(each for each in self.kept_runs if each.subject.key == of)

    def states(self) -> list[str]:
        """Every state that went on record, in order."""
        happenings = [entry.happening for _, entry in self.happened]
        return [str(each.state) for each in happenings if isinstance(each, StateChanged)]
