"""A report as a browser shows it: nothing to complain of, nothing from elsewhere, readable for everybody."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.reports import a_deployment, a_failed_start, a_load, a_sweep, a_verification, told
from holddown.edges.charts import MatplotlibCharts
from holddown.explain.report.page import page as report_page
from holddown.measure.run import Closed

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH (apt-get install chromium)")
_MARKS = re.compile("(?<=</desc>).*?(?=</svg>)", re.DOTALL)
View = tuple[Any, list[str]]
"""A page, and what it said while it was loaded."""


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One with everything, and one of a start that failed; the first under a name that would be a script."""
    folder = tmp_path_factory.mktemp("reports")
    users = (1, 2, 4, 8, 16, 32)
    loads = [a_load(Closed(each), token_ms=5.0 + each, limited="late" if each == 32 else "") for each in users]
    hostile = a_deployment(name="<script>document.title = 'taken'</script>")
    of = {
        "whole": told(hostile, starts=(a_failed_start(),), bench=a_sweep(loads=loads), verify=a_verification()),
        "failed": told(a_failed_start()),
    }
    texts = {name: report_page(each, MatplotlibCharts().draw) for name, each in of.items()}
    # a chart is one image with a title and a description: its two thousand marks would only keep axe busy
    texts |= {f"{name}, unmarked": _MARKS.sub("", text) for name, text in texts.items()}
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in texts}


@pytest.fixture(scope="module")
def views(reports: dict[str, Path]) -> Iterator[dict[str, View]]:
    """Each in the machine's own Chromium, loaded once: what is asked of it changes its size and its light."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        # a container's root has no sandbox to make; the pages are ours
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield {name: shown(browser, path) for name, path in reports.items()}
        browser.close()


def shown(browser: Any, report: Path) -> View:
    """A page, and all that it said or asked for while it was loaded."""
    page = browser.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: said.append(f"error: {error}"))
    page.on("request", lambda request: said.append(f"request: {request.url}"))
    page.goto(report.as_uri())
    said.remove(f"request: {report.as_uri()}")
    return page, said


@pytest.mark.parametrize("name", ["whole", "failed"])
def test_a_report_fits_and_is_accessible_by_day_and_by_night(views: dict[str, View], name: str) -> None:
    """On a desk and on a phone: no scrolling to the side, nothing that axe finds, no word on the console."""
    from axe_playwright_python.sync_playwright import Axe

    (page, said), (unmarked, _) = views[name], views[f"{name}, unmarked"]
    for width in (1280, 390):
        for each in (page, unmarked):
            each.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for scheme, rules in (("light", None), ("dark", {"runOnly": ["color-contrast"]})):
            unmarked.emulate_media(color_scheme=scheme)
            found = Axe().run(unmarked, options=rules)
            assert found.violations_count == 0, f"{width} px, {scheme}: {found.generate_report()}"
    assert said == []


def test_a_name_that_would_be_a_script_is_a_name(views: dict[str, View]) -> None:
    """It stands in the heading and has not run."""
    page, _ = views["whole"]
    assert page.inner_text("h1") == "<script>document.title = 'taken'</script>"
    assert page.title() != "taken"


def test_text_of_charts_has_the_contrast_of_other_text(views: dict[str, View]) -> None:
    """WCAG 2.1 1.4.3: 4.5 to 1, by day and by night."""
    page, _ = views["whole"]
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        ratios = page.evaluate(_CONTRASTS)
        assert len(ratios) > 20 and min(ratios) >= 4.5


_CONTRASTS = """() => {
  const light = (colour) => {
    const [r, g, b] = colour.match(/[0-9.]+/g).slice(0, 3).map((each) => {
      const part = each / 255;
      return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = light(getComputedStyle(document.body).backgroundColor);
  return [...document.querySelectorAll('svg text')].map((text) => {
    const ink = light(getComputedStyle(text).fill);
    return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
  });
}"""


def test_on_paper_it_is_dark_on_white(views: dict[str, View]) -> None:
    """Whoever reads by night prints by day."""
    page, _ = views["whole"]
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(27, 29, 33)"
    assert page.pdf(format="A4")[:4] == b"%PDF"
    page.emulate_media(media="screen")


def test_a_report_can_be_sent_by_mail(reports: dict[str, Path]) -> None:
    """With six loads it is well below a megabyte."""
    assert reports["whole"].stat().st_size < 500_000
