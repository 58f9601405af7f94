"""A load run's figures, as every view of them writes them."""

from holddown.measure.run import Figure, Phase


def figure_of(phase: Phase, metric: str, percentile: int = 0) -> Figure | None:
    return next((each for each in phase.figures if (each.metric, each.percentile) == (metric, percentile)), None)


def figure_text(value: float) -> str:
    """Three digits that count, thousands set apart."""
    return f"{value:,.{2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0}f}"


def interval(figure: Figure) -> tuple[float, float] | None:
    return (figure.low, figure.high) if figure.low is not None and figure.high is not None else None
