"""Charts as matplotlib draws them: parts of a page, in its colours and its type, that name nothing outside of it."""

import re
from xml.etree import ElementTree

import pytest

from holddown.edges.charts import MatplotlibCharts
from holddown.explain.report.plot import Axis, Curves, Dot, Ink, Line, Plot, Spread, Spreads, Stacks

CURVES = Curves(
    "curve",
    "Time <to> the first token",
    "About it.",
    Axis("tokens per second"),
    Axis("ms", is_log=True),
    (
        Line("p50", Ink.FIRST, (Dot(10, 20, (18, 22), "1"), Dot(40, 27, None, "8")), band=((10, 15, 30), (40, 20, 40))),
        Line("p95", Ink.SECOND, (Dot(10, 30), Dot(40, 50)), dashed=True),
    ),
)
SPREADS = Spreads("spread", "Pauses", "About.", Axis("ms", is_log=True), (Spread("1 at once", tuple(range(1, 102))),))
STACKS = Stacks("step", "A step", "About.", Axis("at once"), Axis("ms"), ("1", "2"), (("a", (1, 2)), ("b", (2, 1))))
PLOTS = pytest.mark.parametrize("plot", [CURVES, SPREADS, STACKS], ids=lambda plot: plot.name)


def drawn(plot: Plot) -> str:
    return MatplotlibCharts().draw(plot)


@PLOTS
def test_a_chart_is_well_formed_and_tells_its_title_and_what_it_shows(plot: Plot) -> None:
    """For who cannot see it."""
    root = ElementTree.fromstring(drawn(plot).replace("xlink:href", "href"))
    title, about = root[0], root[1]
    assert (root.get("role"), title.text, about.text) == ("img", plot.title, plot.about)
    assert root.get("aria-labelledby") == f"{title.get('id')} {about.get('id')}"


@PLOTS
def test_its_colours_are_the_pages_and_so_is_its_type(plot: Plot) -> None:
    """By day and by night: no colour of its own is left, and no font."""
    text = drawn(plot)
    assert "var(--ink-soft)" in text
    assert not re.search(r"#[0-9a-f]{6}\b", text)
    assert "font-family" not in text


@PLOTS
def test_it_names_nothing_outside(plot: Plot) -> None:
    """Neither an address nor a rule that would hold for the whole page."""
    text = drawn(plot)
    assert "http" not in text and "<style" not in text and "<metadata" not in text
    assert all(href.startswith("#") for href in re.findall(r'href="([^"]*)"', text))


def test_charts_of_one_page_share_no_id() -> None:
    """A clip path or a mark of one would be taken for the other's."""
    ids = [re.findall(r' id="([^"]*)"', drawn(plot)) for plot in (CURVES, SPREADS, STACKS)]
    every = [each for found in ids for each in found]
    assert len(every) == len(set(every))


def test_the_same_is_drawn_alike() -> None:
    """Two reports of one record are equal to the last byte."""
    assert drawn(CURVES) == drawn(CURVES)


@pytest.mark.parametrize("values", [(1.0, 1.2), (90.0, 110.0), (3.0, 4000.0), (0.01, 0.02)])
def test_a_logarithmic_axis_has_numbers_whatever_it_spans(values: tuple[float, float]) -> None:
    """Latencies of one deployment seldom span two powers of ten."""
    line = Line("p50", Ink.FIRST, tuple(Dot(at, value) for at, value in enumerate(values)))
    text = drawn(Curves("c", "t", "a", Axis("x", marks=((0.0, "none"),)), Axis("ms", is_log=True), (line,)))
    numbers = re.findall(r">([\d.,]+)</text>", text)
    assert len(numbers) >= 2
