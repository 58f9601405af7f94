"""A service manager in memory, and one that only listens."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from holddown.base.errors import MachineError


@dataclass
class FakeServiceManager:
    """Port `ServiceManager`. refuses: first words of what `systemctl` fails at. found: what `verify` has to say."""

    running: bool = True
    systemd: int = 252
    lingers: bool = False
    found: tuple[str, ...] | None = ()
    refuses: frozenset[str] = frozenset()
    units: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def runs(self) -> bool:
        return self.running

    def version(self) -> int:
        return self.systemd

    def path(self, unit: str) -> str:
        return f"/units/{unit}"

    def read(self, unit: str) -> str | None:
        return self.units.get(unit)

    def write(self, unit: str, text: str) -> None:
        self.units[unit] = text

    def delete(self, unit: str) -> None:
        self.units.pop(unit, None)

    def faults(self, unit: str, text: str) -> tuple[str, ...] | None:
        return self.found

    def ask(self, *words: str) -> None:
        self.asked.append(" ".join(words))
        if words[0] in self.refuses:
            raise MachineError(f"`systemctl {words[0]}` failed", code="service.systemctl")

    def outlives_logout(self) -> bool:
        return self.lingers


@dataclass
class FakeNotify:
    """Port `Notify`: each message as it came."""

    told: list[tuple[str, ...]] = field(default_factory=list)

    def tell(self, words: Sequence[str]) -> None:
        self.told.append(tuple(words))

    @property
    def words(self) -> list[str]:
        return [word for message in self.told for word in message]
