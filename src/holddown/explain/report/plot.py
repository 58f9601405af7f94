"""Charts as values: what is to be drawn, for whoever draws it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from holddown.explain.report.markup import Html


class Ink(StrEnum):
    """A colour by its role; the page says which colour that is, in the light and in the dark."""

    FIRST = "first"
    SECOND = "second"


@dataclass(frozen=True, slots=True)
class Axis:
    """label: with the unit. marks: where it is labelled; empty for the library's choice."""

    label: str
    is_log: bool = False
    marks: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Dot:
    """interval: of y. text: beside it."""

    x: float
    y: float
    interval: tuple[float, float] | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """Dots in their order. joined: by a line. dashed: so it is told from another without its colour. band: (x, low,
    high) of a shade behind it."""

    name: str
    ink: Ink
    dots: tuple[Dot, ...]
    joined: bool = True
    dashed: bool = False
    band: tuple[tuple[float, float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Curves:
    """One value over another. about: in a sentence, for who cannot see it."""

    name: str
    title: str
    about: str
    x: Axis
    y: Axis
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Spread:
    """quantiles: 0 % to 100 % in steps of one."""

    name: str
    quantiles: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Spreads:
    """Distributions, one row each: a dot for each percent from 1 to 99, a bar from the first quartile to the third, the
    median."""

    name: str
    title: str
    about: str
    x: Axis
    rows: tuple[Spread, ...]


@dataclass(frozen=True, slots=True)
class Stacks:
    """Columns of parts, one on another. parts: name, and a height for each column."""

    name: str
    title: str
    about: str
    x: Axis
    y: Axis
    columns: tuple[str, ...]
    parts: tuple[tuple[str, tuple[float, ...]], ...]


Plot = Curves | Spreads | Stacks

Draw = Callable[[Plot], Html]
"""A chart -> its SVG."""
Chart = Callable[[Plot, str], Html]
"""A chart and what is to be said below its title -> a figure."""
