"""A load run's figures and loads, in the words that every view of them uses."""

from typing import assert_never

from holddown.measure.run import Arrival, Closed, Figure, Open, Phase


def arrival_text(arrival: Arrival) -> str:
    """`8 users`, `4/s poisson`."""
    match arrival:
        case Closed():
            return "1 user" if arrival.concurrency == 1 else f"{arrival.concurrency} users"
        case Open():
            return f"{arrival.rate_per_s:g}/s {arrival.spacing}"
        case _:
            assert_never(arrival)


def figure_of(phase: Phase, metric: str, percentile: int = 0) -> Figure | None:
    return next((each for each in phase.figures if (each.metric, each.percentile) == (metric, percentile)), None)


def figure_text(value: float) -> str:
    """Three digits that count, thousands set apart."""
    return f"{value:,.{2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0}f}"


def interval(figure: Figure) -> tuple[float, float] | None:
    return (figure.low, figure.high) if figure.low is not None and figure.high is not None else None
