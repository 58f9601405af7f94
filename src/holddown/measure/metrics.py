"""The words of a measurement."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Measurement:
    """One figure. metric: ttft, itl, e2e, output_throughput. unit: ms or tok/s.

    percentile: 50, 90, ...; 0 for a figure that is no percentile (a throughput). n: how many values it rests on.
    """

    metric: str
    value: float
    unit: str
    percentile: int
    n: int
    concurrency: int
    input_tokens: int
    output_tokens: int
