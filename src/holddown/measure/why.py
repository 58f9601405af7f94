"""What limited a phase, in one sentence, from what client and engine told beside it."""

from collections.abc import Sequence
from dataclasses import replace

from holddown.base.evidence import Known, known_or
from holddown.measure.figures import e2e_ms, sound
from holddown.measure.run import ClientSide, Closed, EngineSide, Figure, Open, Phase, Trace
from holddown.measure.stats import percentile

_BUSY_SHARE = 0.85
_FULL_KV_SHARE = 0.95
_LEAST_MS, _LATE_SHARE = 2.0, 0.2
_BEHIND = 2.0
_LEAST_WAITING, _WAITING_SHARE = 0.5, 0.1
_FEWEST = 6


def judged(client: ClientSide, figures: Sequence[Figure]) -> ClientSide:
    """The client with `limited` set where its own lateness or its CPU reaches into the figures: more than a fifth of
    the median TTFT or of the pause between tokens, but never for less than two milliseconds, which no reader misses."""
    ttft, itl = value(figures, "ttft", 50), value(figures, "itl", 50)
    why = ""
    if client.cpu_share > _BUSY_SHARE:
        why = f"its busiest process used {client.cpu_share:.0%} of a core"
    elif ttft is not None and client.send_lag_ms > max(_LEAST_MS, ttft * _LATE_SHARE):
        why = f"1 % of the requests were sent {client.send_lag_ms:.1f} ms late or more"
    elif itl is not None and client.loop_lag_ms > max(_LEAST_MS, itl * _LATE_SHARE):
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


def behind(traces: Sequence[Trace]) -> tuple[float, float] | None:
    """Where a server falls behind what is asked of it: median ms of the first third of the requests and of the last,
    which took twice as long or more. Counting what it answered would not tell: what is under way when a phase ends
    is more, the longer its answers are."""
    good = sorted(sound(traces), key=lambda trace: trace.due_s)
    if len(good) < _FEWEST:
        return None
    third = len(good) // 3
    first, last = (percentile([e2e_ms(one) for one in part], 50) for part in (good[:third], good[-third:]))
    return (first, last) if last >= _BEHIND * first else None


def _queue(phase: Phase, engine: EngineSide) -> tuple[str, str] | None:
    waiting, kv = known_or(engine.waiting_mean, 0.0), known_or(engine.kv_share_peak, 0.0)
    # a few always wait for the step under way: on an H200 1.7 beside 117 that ran, far below what it takes at once
    if waiting < max(_LEAST_WAITING, known_or(engine.running_mean, 0.0) * _WAITING_SHARE):
        return None
    running = f" while {engine.running_mean.value:.0f} ran" if isinstance(engine.running_mean, Known) else ""
    if kv >= _FULL_KV_SHARE:
        return "KV cache", f"{waiting:.1f} requests waited on average{running}: the KV cache was {kv:.0%} full"
    return "queue", f"{waiting:.1f} requests waited on average{running}: more was asked than it takes at once"


def _offered(phase: Phase) -> tuple[str, str]:
    match phase.arrival:
        case Open() if slowed := behind(phase.traces):
            first, last = (f"{each / 1000:.1f} s" for each in slowed)
            return "server", f"it fell behind: the first third of the requests took {first}, the last third {last}"
        case Open():
            return "none", ""
        case Closed(1):
            return "one user", ""
        case _ if isinstance(phase.engine.waiting_mean, Known):
            return "users", ""
        case _:
            return "not told", ""
