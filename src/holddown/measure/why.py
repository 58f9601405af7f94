"""What limited a phase, in one sentence, from what client and engine told beside it."""

from collections.abc import Sequence
from dataclasses import replace

from holddown.base.evidence import Known, known_or
from holddown.measure.run import ClientSide, Closed, EngineSide, Figure, Open, Phase

_BUSY_SHARE = 0.85
_FULL_KV_SHARE = 0.95
_BEHIND = 0.9


def judged(client: ClientSide, figures: Sequence[Figure]) -> ClientSide:
    """The client with `limited` set where its own lateness or its CPU reaches into the figures: more than a tenth of
    the median TTFT or of the pause between tokens, but never for less than a millisecond, which no reader misses."""
    ttft, itl = value(figures, "ttft", 50), value(figures, "itl", 50)
    why = ""
    if client.cpu_share > _BUSY_SHARE:
        why = f"its busiest process used {client.cpu_share:.0%} of a core"
    elif ttft is not None and client.send_lag_ms > max(1.0, ttft / 10):
        why = f"1 % of the requests were sent {client.send_lag_ms:.1f} ms late or more"
    elif itl is not None and client.loop_lag_ms > max(1.0, itl / 10):
        why = f"it came {client.loop_lag_ms:.1f} ms late to its sockets"
    return replace(client, limited=why)


def value(figures: Sequence[Figure], metric: str, percentile: int = 0) -> float | None:
    return next((one.value for one in figures if (one.metric, one.percentile) == (metric, percentile)), None)


def limit(phase: Phase) -> tuple[str, str]:
    """A word for a table, and a sentence where the word does not say it all.

    one user, users: no more were there, and none waited. none: it kept up with what was asked of it. not told: it has
    no counters that would tell.
    """
    engine = phase.engine
    if phase.client.limited:
        return "CLIENT", f"the load client was the limit, so these figures are not the server's: {phase.client.limited}"
    failed = sum(1 for trace in phase.traces if trace.fault)
    if failed * 10 > len(phase.traces):
        return "failures", f"{failed} of {len(phase.traces)} requests failed"
    preemptions = known_or(engine.preemptions, 0.0)
    if preemptions > 0:
        return "KV cache", f"the KV cache was too small: {preemptions:.0f} requests were preempted and computed again"
    return _queue(phase, engine) or _offered(phase)


def _queue(phase: Phase, engine: EngineSide) -> tuple[str, str] | None:
    waiting, kv = known_or(engine.waiting_mean, 0.0), known_or(engine.kv_share_peak, 0.0)
    if waiting < 0.5:
        return None
    running = f" while {engine.running_mean.value:.0f} ran" if isinstance(engine.running_mean, Known) else ""
    if kv >= _FULL_KV_SHARE:
        return "KV cache", f"{waiting:.1f} requests waited on average{running}: the KV cache was {kv:.0%} full"
    return "queue", f"{waiting:.1f} requests waited on average{running}: more was asked than it takes at once"


def _offered(phase: Phase) -> tuple[str, str]:
    rate = value(phase.figures, "request_rate")
    match phase.arrival:
        case Open() if rate is not None and rate < _BEHIND * phase.arrival.rate_per_s:
            asked = phase.arrival.rate_per_s
            return "server", f"it answered {rate:.2f} of the {asked:g} requests a second that were asked of it"
        case Open():
            return "none", ""
        case Closed(1):
            return "one user", ""
        case _ if isinstance(phase.engine.waiting_mean, Known):
            return "users", ""
        case _:
            return "not told", ""
