"""What the engine tells of itself while load is on it, from its own counters."""

from collections.abc import Callable
from dataclasses import dataclass, field

from holddown import ports
from holddown.base.evidence import Fact, Known, Unknown, from_probe
from holddown.measure.run import EngineSide
from holddown.tables.engine import EngineTable
from holddown.tables.load import engine_table

_EVERY_S = 1.0
_TELLS_NOTHING = EngineTable(kind="", package="", gone_flags=(), owned_flags=(), phases=())


@dataclass
class EngineWatch:
    """Of one phase. kind: as `Engine.kind`, Unknown for a server whose engine is not known."""

    client: ports.Client
    kind: Fact[str]
    _counters: tuple[float | None, ...] = ()
    _gauges: list[tuple[float | None, ...]] = field(default_factory=list)
    _looked_at: float = 0.0

    def begin(self) -> None:
        self._counters = self._asked(_counter_names)

    def look(self, elapsed_s: float) -> None:
        """Once a second, and not before there is load."""
        if elapsed_s - self._looked_at >= _EVERY_S:
            self._looked_at = elapsed_s
            self._gauges.append(self._asked(_gauge_names))

    def end(self) -> EngineSide:
        grown = tuple(
            None if before is None or after is None else after - before
            for before, after in zip(self._counters, self._asked(_counter_names), strict=True)
        )
        running, waiting, kv = zip(*self._gauges, strict=True) if self._gauges else ((), (), ())
        preempted, cached, prompts, accepted, drafted = grown
        return EngineSide(
            running_mean=self._of(_mean(running), "requests running"),
            waiting_mean=self._of(_mean(waiting), "requests waiting"),
            kv_share_peak=self._of(max(_told(kv), default=None), "KV cache in use"),
            preemptions=self._of(preempted, "preemptions"),
            prefix_hit_share=self._of(_share(cached, prompts), "hits of the prefix cache"),
            draft_acceptance=self._of(_share(accepted, drafted), "accepted drafts"),
        )

    def _asked(self, pick: Callable[[EngineTable], tuple[str, ...]]) -> tuple[float | None, ...]:
        table = engine_table(self.kind.value) if isinstance(self.kind, Known) else _TELLS_NOTHING
        return self.client.gauges(*pick(table))

    def _of(self, value: float | None, what: str) -> Fact[float]:
        if value is not None:
            return from_probe(value, "/metrics")
        why = f"/metrics tells no {what}" if isinstance(self.kind, Known) else self.kind.why
        return Unknown(why)


def _counter_names(table: EngineTable) -> tuple[str, ...]:
    return (
        table.preemptions_metric,
        table.cached_metric,
        table.prompt_metric,
        table.accepted_metric,
        table.drafted_metric,
    )


def _gauge_names(table: EngineTable) -> tuple[str, ...]:
    return table.running_metric, table.waiting_metric, table.kv_metric


def _told(values: tuple[float | None, ...]) -> list[float]:
    return [value for value in values if value is not None]


def _mean(values: tuple[float | None, ...]) -> float | None:
    told = _told(values)
    return sum(told) / len(told) if told else None


def _share(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None
