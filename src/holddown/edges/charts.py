"""Charts by matplotlib, as SVG that stands inside of a page and takes its colours and type from there."""

import io
import math
import re
from typing import TYPE_CHECKING, Any, assert_never

from holddown.explain.report.markup import Html, html, tag
from holddown.explain.report.plot import Axis, Curves, Ink, Line, Plot, Spreads, Stacks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# matplotlib wants colours that it knows: each of these stands for a variable of the page's style, and for it alone
_INK, _GRID = "#010203", "#010204"
_OF = {Ink.FIRST: "#010205", Ink.SECOND: "#010206"}
_PARTS = tuple(f"#0103{number:02x}" for number in range(7))
_VARIABLES = {
    _INK: "--ink-soft",
    _GRID: "--rule",
    **{colour: f"--{ink}" for ink, colour in _OF.items()},
    **{colour: f"--part-{number}" for number, colour in enumerate(_PARTS)},
}
# the file's own metadata and rules, the fonts it was measured with, and names that each chart of a page would repeat
_NEEDLESS = (
    re.compile(r"<metadata>.*?</metadata>", re.DOTALL),
    re.compile(r"<style.*?</style>", re.DOTALL),
    re.compile(r" font-family: [^;]*;"),
    re.compile(r"(?<=<g) id=\"[^\"]*\""),
)
_WIDTH, _HEIGHT, _ROW = 5.0, 3.1, 0.34
"""Inches. Drawn for the width of a phone: there its type is as it is, and two stand side by side on a desk."""


class MatplotlibCharts:
    """Port `Charts`."""

    def draw(self, plot: Plot) -> Html:
        import matplotlib as mpl
        from matplotlib.figure import Figure

        # the page's own type; the same ids at every run, and different ones in each chart of a page
        settings: Any = {
            "svg.fonttype": "none",
            "svg.hashsalt": plot.name,
            "font.size": 11,
            "text.color": _INK,
            "axes.labelcolor": _INK,
            "xtick.color": _INK,
            "ytick.color": _INK,
            "axes.edgecolor": _GRID,
            "grid.color": _GRID,
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
        with mpl.rc_context(settings):
            figure = Figure(figsize=(_WIDTH, _height(plot)), layout="constrained")
            axes = figure.add_subplot()
            axes.set_axisbelow(True)
            match plot:
                case Curves():
                    _curves(axes, plot)
                case Spreads():
                    _spreads(axes, plot)
                case Stacks():
                    _stacks(axes, plot)
                    figure.legend(loc="outside lower left", ncols=3, frameon=False, fontsize=9)
                case _:
                    assert_never(plot)
            return _inline(figure, plot)


def _height(plot: Plot) -> float:
    match plot:
        case Spreads():
            return 0.7 + _ROW * len(plot.rows)
        case Stacks():
            return _HEIGHT + 0.5  # for its legend
        case _:
            return _HEIGHT


def _curves(axes: "Axes", plot: Curves) -> None:
    axes.margins(x=0.08, y=0.12)
    for line in plot.lines:
        _line(axes, line)
    _axis(axes, "x", plot.x)
    _axis(axes, "y", plot.y)
    axes.grid(axis="y", linewidth=0.8)
    if not plot.y.is_log:
        axes.set_ylim(bottom=0)
    if len(plot.lines) > 1:
        axes.legend(frameon=False, fontsize=10, loc="best")


def _line(axes: "Axes", line: Line) -> None:
    colour = _OF[line.ink]
    xs, ys = [dot.x for dot in line.dots], [dot.y for dot in line.dots]
    if line.band:
        at, low, high = zip(*line.band, strict=True)
        axes.fill_between(at, low, high, color=colour, alpha=0.15, linewidth=0)
    style = ("--" if line.dashed else "-") if line.joined else "none"
    mark = "none" if line.band else "o"
    axes.plot(xs, ys, linestyle=style, marker=mark, markersize=4.5, color=colour, linewidth=1.8, label=line.name)
    for dot in line.dots:
        if dot.interval is not None:
            axes.vlines(dot.x, *dot.interval, color=colour)
        axes.annotate(dot.text, (dot.x, dot.y), (5, -11), textcoords="offset points", fontsize=9)


def _spreads(axes: "Axes", plot: Spreads) -> None:
    colour = _OF[Ink.FIRST]
    for at, row in enumerate(plot.rows):
        # without the least and the most: one pause of nothing would make the axis three times as long
        dots = row.quantiles[1:-1]
        axes.plot(dots, [at] * len(dots), "o", color=colour, alpha=0.25, markersize=3.5, mew=0)
        quarter = len(row.quantiles) // 4
        axes.plot([row.quantiles[quarter], row.quantiles[-1 - quarter]], [at, at], color=colour, linewidth=5)
        axes.plot(row.quantiles[len(row.quantiles) // 2], at, "|", color=_INK, markersize=13, mew=2)
    axes.set_yticks(range(len(plot.rows)), [row.name for row in plot.rows])
    axes.set_ylim(len(plot.rows) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", linewidth=0.8)
    _axis(axes, "x", plot.x)


def _stacks(axes: "Axes", plot: Stacks) -> None:
    under = [0.0] * len(plot.columns)
    at = range(len(plot.columns))
    for number, (name, heights) in enumerate(plot.parts):
        axes.bar(at, heights, 0.62, bottom=under, color=_PARTS[number], label=name, edgecolor=_GRID, linewidth=0.4)
        under = [below + height for below, height in zip(under, heights, strict=True)]
    axes.set_xticks(at, plot.columns)
    axes.tick_params(length=0)
    axes.grid(axis="y", linewidth=0.8)
    axes.set(xlabel=plot.x.label, ylabel=plot.y.label)


def _axis(axes: "Axes", which: str, axis: Axis) -> None:
    from matplotlib.ticker import NullLocator, StrMethodFormatter

    one = getattr(axes, f"{which}axis")
    axes.set(**{f"{which}label": axis.label})
    if axis.is_log:
        axes.set(**{f"{which}scale": "log"})
        one.set_ticks(_round_numbers(*one.get_view_interval()))
    one.set_major_formatter(StrMethodFormatter("{x:,g}"))
    if axis.marks:
        one.set_ticks([at for at, _ in axis.marks], [text for _, text in axis.marks])
    one.set_minor_locator(NullLocator())
    one.set_tick_params(length=0)


def _round_numbers(low: float, high: float) -> list[float]:
    """Three at least, of the roundest that give as many: on a logarithmic axis the library labels powers of ten, and
    latencies of one deployment seldom span two."""
    found: list[float] = []
    for digits in ((1,), (1, 3), (1, 2, 5), (1, 2, 3, 5, 7), (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)):
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        found = [digit * 10.0**power for power in powers for digit in digits if low <= digit * 10.0**power <= high]
        if len(found) >= 3:
            break
    return found


def _inline(figure: "Figure", plot: Plot) -> Html:
    """Without the file's own head, which names addresses; with a title and a description to be read out."""
    text = io.StringIO()
    figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    drawn = text.getvalue()
    drawn = drawn[drawn.index("<svg") :]
    for needless in _NEEDLESS:
        drawn = needless.sub("", drawn)
    for colour, variable in _VARIABLES.items():
        drawn = drawn.replace(colour, f"var({variable})")
    box = re.search(r'viewBox="[^"]*"', drawn)
    body = drawn[drawn.index(">") + 1 : drawn.rindex("</svg>")]
    named = tag("title", plot.title, id=f"{plot.name}-title") + tag("desc", plot.about, id=f"{plot.name}-about")
    head = f'<svg {box[0] if box else ""} role="img" aria-labelledby="{html(plot.name)}-title {html(plot.name)}-about">'
    return Html(f"{head}{named}{body}</svg>")
