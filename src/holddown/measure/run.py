"""What a load run leaves: every request's times, the figures that rest on them, and whether the client kept up."""

from dataclasses import dataclass
from enum import StrEnum

from holddown.base.evidence import Fact


class Spacing(StrEnum):
    """How the requests of an open loop follow each other."""

    POISSON = "poisson"
    CONSTANT = "constant"
    BURSTS = "bursts"
    TRACE = "trace"


@dataclass(frozen=True, slots=True)
class Closed:
    """So many users at once; each sends its next request when its last is answered."""

    concurrency: int


@dataclass(frozen=True, slots=True)
class Open:
    """Requests are sent when they are due, whatever is under way. rate_per_s: their mean rate. burst: how many at once
    where they come in bursts."""

    spacing: Spacing
    rate_per_s: float
    burst: int = 1


Arrival = Closed | Open


@dataclass(frozen=True, slots=True)
class Trace:
    """One request. Times are seconds since its phase began, of one monotonic clock.

    due_s: when it was meant to be sent; latencies count from here, so that a client or a server that falls behind hides
    nothing. first_s: its first content, reasoning included; None where none came. output_tokens: by `usage`. deltas:
    events that carried text. fault: why it cannot be measured, empty where it can. answer_s: its first content that is
    no reasoning; None where none came.
    """

    due_s: float
    sent_s: float
    first_s: float | None
    ended_s: float
    input_tokens: int
    output_tokens: int
    deltas: int
    fault: str = ""
    answer_s: float | None = None


@dataclass(frozen=True, slots=True)
class Figure:
    """metric: ttft, answer, itl, tpot, e2e, output_throughput, total_throughput, user_speed, goodput, request_rate,
    energy.

    percentile: 0 for a figure that is none. n: how many values it rests on. low, high: its 95 % confidence interval,
    None where the sample carries none.
    """

    metric: str
    value: float
    unit: str
    percentile: int
    n: int
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class EngineSide:
    """What the engine told of itself during a phase: why a result is slow."""

    running_mean: Fact[float]
    waiting_mean: Fact[float]
    kv_share_peak: Fact[float]
    preemptions: Fact[float]
    prefix_hit_share: Fact[float]
    draft_acceptance: Fact[float]


@dataclass(frozen=True, slots=True)
class ClientSide:
    """cpu_share: CPU seconds per second of its busiest process. send_lag_ms: 99th percentile of sent - due.
    loop_lag_ms: 99th percentile of how late it came to look. limited: why the figures are the client's and not the
    server's; empty where they are the server's. capacity_per_s: events that one of its processes reads in a second of
    CPU time, as calibrated on this machine; 0 where it was not."""

    processes: int
    cpu_share: float
    send_lag_ms: float
    loop_lag_ms: float
    limited: str = ""
    capacity_per_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Phase:
    """One load, held for a while. began_at: seconds since the epoch. itl_quantiles_ms: 0 % to 100 % in steps of one, of
    `itl_count` pauses; empty for none. energy_joules: of the GPUs in use, where NVML tells it."""

    arrival: Arrival
    began_at: float
    seconds: float
    traces: tuple[Trace, ...]
    itl_quantiles_ms: tuple[float, ...]
    itl_count: int
    figures: tuple[Figure, ...]
    engine: EngineSide
    client: ClientSide
    energy_joules: Fact[float]
