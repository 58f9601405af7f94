"""The words of a prediction: a value never comes without its band."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """low and high: between them four of five measurements of deployments that were not fitted to lie."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Share:
    """What part of a decode step one kind of work takes, 0 to 1."""

    name: str
    fraction: float


@dataclass(frozen=True, slots=True)
class Speed:
    """At the workload's lengths and concurrency; single_stream: one request alone.

    tpot: per output token after the first. ttft: to the first token. dominated_by: largest share first.
    """

    single_stream_tok_s: Estimate
    throughput_tok_s: Estimate
    tpot_ms: Estimate
    ttft_ms: Estimate
    dominated_by: tuple[Share, ...]
