"""A report as a browser shows it: nothing to complain of, nothing from elsewhere, readable for everybody."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.reports import a_deployment, a_failed_start, a_load, a_sweep, a_verification, told
from holddown.edges.charts import MatplotlibCharts
from holddown.explain.report.page import page
from holddown.measure.run import Closed

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH (apt-get install chromium)")
VIEWS = [
    *(("whole", width, scheme) for width in (1280, 390) for scheme in ("light", "dark")),
    ("failed", 390, "light"),
    ("failed", 1280, "dark"),
]


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
    for name, each in of.items():
        (folder / f"{name}.html").write_text(page(each, MatplotlibCharts().draw), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in of}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The machine's own Chromium, once for all tests here."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        # a container's root has no sandbox to make; the pages are ours
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


def shown(browser: Any, report: Path, width: int, scheme: str) -> tuple[Any, list[str]]:
    """A page, and all that it said or asked for while it was loaded."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    view = context.new_page()
    said: list[str] = []
    view.on("console", lambda message: said.append(f"console: {message.text}"))
    view.on("pageerror", lambda error: said.append(f"error: {error}"))
    view.on("request", lambda request: said.append(f"request: {request.url}"))
    view.goto(report.as_uri())
    return view, [each for each in said if each != f"request: {report.as_uri()}"]


@pytest.mark.parametrize(("name", "width", "scheme"), VIEWS)
def test_a_report_is_quiet_fits_and_is_accessible(
    browser: Any, reports: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    """No word on the console, no request, no scrolling to the side, and nothing that axe finds."""
    from axe_playwright_python.sync_playwright import Axe

    view, said = shown(browser, reports[name], width, scheme)
    assert said == []
    assert view.evaluate("document.documentElement.scrollWidth") <= width
    # a chart is one image with a title and a description: axe need not walk its two thousand marks
    by_night = {"runOnly": ["color-contrast"]} if scheme == "dark" else None
    found = Axe().run(view, context={"exclude": [["svg > g"]]}, options=by_night)
    assert found.violations_count == 0, found.generate_report()
    view.context.close()


def test_a_name_that_would_be_a_script_is_a_name(browser: Any, reports: dict[str, Path]) -> None:
    """It stands in the heading and has not run."""
    view, _ = shown(browser, reports["whole"], 1280, "light")
    assert view.inner_text("h1") == "<script>document.title = 'taken'</script>"
    assert view.title() != "taken"
    view.context.close()


def test_text_of_charts_has_the_contrast_of_other_text(browser: Any, reports: dict[str, Path]) -> None:
    """axe looks at HTML alone. WCAG 2.1 1.4.3: 4.5 to 1, by day and by night."""
    for scheme in ("light", "dark"):
        view, _ = shown(browser, reports["whole"], 1280, scheme)
        ratios = view.evaluate(_CONTRASTS)
        assert len(ratios) > 20 and min(ratios) >= 4.5
        view.context.close()


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


def test_on_paper_it_is_dark_on_white(browser: Any, reports: dict[str, Path]) -> None:
    """Whoever reads by night prints by day."""
    view, _ = shown(browser, reports["whole"], 1280, "dark")
    view.emulate_media(media="print", color_scheme="dark")
    assert view.evaluate("getComputedStyle(document.body).color") == "rgb(27, 29, 33)"
    assert view.pdf(format="A4")[:4] == b"%PDF"
    view.context.close()


def test_a_report_is_less_than_a_megabyte(reports: dict[str, Path]) -> None:
    """With six loads; it can be sent by mail."""
    assert reports["whole"].stat().st_size < 500_000
