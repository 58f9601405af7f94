"""A report tells all that is on record, says what is not, and lets nobody's text become markup."""

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from fakes.records import a_birth, a_plan
from fakes.reports import a_deployment, a_failed_start, a_load, a_sweep, a_verification, told
from holddown.base.evidence import Unknown
from holddown.base.finding import Finding, Severity
from holddown.explain.report.markup import Html, html, joined, table, tag
from holddown.explain.report.page import page
from holddown.explain.report.plot import Curves, Plot, Spreads, Stacks
from holddown.explain.report.told import Told
from holddown.launch.events import Exit
from holddown.launch.lifecycle import State
from holddown.measure.run import Closed, Open, Spacing
from holddown.remember.record import Deployment, FailedStart, Status
from holddown.verify.verdict import Outcome, Verdict

HOSTILE = "<script>alert('&\"')</script>"


class Seen(HTMLParser):
    """What is on a page. text: in its reading order. sections: text of each by its heading's id."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes another"

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text += data + "\n"


class Drawn:
    """Keeps what it is to draw."""

    def __init__(self) -> None:
        self.plots: list[Plot] = []

    def __call__(self, plot: Plot) -> Html:
        self.plots.append(plot)
        return tag("svg", tag("title", plot.title))


def seen(of: Told) -> tuple[Seen, list[Plot]]:
    drawn = Drawn()
    found = Seen()
    found.feed(page(of, drawn))
    found.close()
    assert found.open == [], "every element is closed"
    return found, drawn.plots


def test_a_released_deployment_tells_everything() -> None:
    """What runs, each setting with its because, memory, checks, speed, prediction, environment."""
    found, _ = seen(told(bench=a_sweep(), verify=a_verification()))
    for text in (
        "--max-model-len 2048",
        "it fits",
        "TP2 on 2 x H200 SXM (GPU 0,1)",
        "100.0 GiB",
        "The engine says that it holds 790.0 K.",
        "14 of 16 calls are valid",
        "a tool call came as text",
        "16 users",
        "FLASH_ATTN (the engine's own word)",
        "Put together by holddown 0.1.0, 1970-01-01 03:03 UTC, from record 0123abcd.",
    ):
        assert text in found.text, text


def test_curves_distributions_and_the_step_are_drawn_of_the_same_run() -> None:
    """Two latencies over throughput, two distributions, throughput with its band, the parts of a step."""
    _, plots = seen(told(bench=a_sweep()))
    assert [type(plot) for plot in plots] == [Curves, Curves, Spreads, Spreads, Curves, Stacks]
    assert len({plot.name for plot in plots}) == 6
    throughput = plots[4]
    assert isinstance(throughput, Curves)
    predicted, measured = throughput.lines
    assert [dot.x for dot in measured.dots] == [1, 4, 16]
    assert all(low < dot.y < high for dot, (_, low, high) in zip(predicted.dots, predicted.band, strict=True))


def test_every_chart_has_its_table_and_a_description() -> None:
    """Who cannot see it reads the same figures."""
    found, plots = seen(told(bench=a_sweep()))
    captions = [name for name, _ in found.tags].count("caption")
    assert captions >= len({plot.title for plot in plots}) - 1
    assert all(plot.about.endswith(".") for plot in plots)


def test_a_load_whose_client_was_the_limit_is_no_figure_of_the_server() -> None:
    """It is named, and drawn nowhere."""
    loads = (a_load(Closed(1)), a_load(Closed(8)), a_load(Closed(64), limited="event loop 41 ms late"))
    found, plots = seen(told(bench=a_sweep(loads=loads)))
    assert "so these figures are not the server's: event loop 41 ms late" in found.text
    assert "64 users *" in found.text
    spreads = [plot for plot in plots if isinstance(plot, Spreads)]
    assert [row.name for row in spreads[0].rows] == ["1 user", "8 users"]


def test_without_a_load_run_the_first_impression_stands_and_the_command_that_makes_one() -> None:
    """No chart of what nobody measured but the prediction."""
    found, plots = seen(told())
    assert "A first impression, before the release" in found.text
    assert "holddown bench m" in found.text and "holddown verify m" in found.text
    assert [plot.name for plot in plots] == ["throughput", "step"]


def test_a_failed_start_says_why_and_what_to_do() -> None:
    """The cause stands above all else."""
    found, _ = seen(told(a_failed_start()))
    assert found.text.index("Why it failed") < found.text.index("What runs, and where")
    for text in ("CUDA ran out of memory", "line 7: OutOfMemoryError", "--set gpu-memory-utilization=0.88"):
        assert text in found.text, text
    assert "checks passed" not in found.text


def test_the_starts_that_led_to_it_are_told() -> None:
    """What each failed of, and what the next did otherwise."""
    found, _ = seen(told(starts=(a_failed_start(),)))
    assert "failed (0123abcc): CUDA ran out of memory while it captured graphs; then" in found.text
    assert "gpu-memory-utilization=0.88" in found.text


def test_restarts_are_told() -> None:
    """When its engine ended, and how."""
    again = a_deployment()
    failed = FailedStart(10_000.0, "the engine was killed by signal 9 while released", None, Exit(-9), 1)
    found, _ = seen(told(replace(again, status=replace(again.status, starts=2, failures=(failed,)))))
    assert "After what it was started again" in found.text
    assert "the engine was killed by signal 9 while released" in found.text


def test_what_does_not_apply_is_named_and_does_not_count() -> None:
    """A model without tools has not failed to call them; where a failure most likely lies is said."""
    run = a_verification()
    failed = replace(run.verdicts[1], asked="What is the time?", cause="the tool parser")
    others = tuple(Verdict(name, Outcome.NOT_APPLICABLE, "no such claim") for name in ("images", "reasoning"))
    unclear = Verdict("needle", Outcome.INCONCLUSIVE, "too small a model")
    found, _ = seen(told(verify=replace(run, verdicts=(run.verdicts[0], failed, unclear, *others))))
    assert "1 of 3 checks passed, 1 failed, 1 inconclusive" in found.text
    assert "Not applicable: images, reasoning." in found.text
    assert "asked: What is the time?" in found.text and "most likely the tool parser" in found.text


def test_what_is_not_known_is_said() -> None:
    """A deployment on a CPU that says nothing of itself."""
    plan = replace(a_plan(), speed=Unknown("no prediction for a CPU"))
    verdict = Verdict("needle", Outcome.SKIPPED, "too small a model")
    bare = Deployment(a_birth(plan=plan), Status(State.RELEASED, 1.0, verdicts=(verdict,)))
    found, plots = seen(told(bare))
    unknown = found.text[found.text.index("What is not known") :]
    for text in (
        "needle: skipped",
        "holddown verify m",
        "holddown bench m",
        "no prediction for a CPU",
        "engine made of",
    ):
        assert text in unknown, text
    assert plots == []


def test_loads_are_drawn_from_the_lightest_on_and_repeated_ones_as_one() -> None:
    """In whatever order they were run."""
    loads = [a_load(Closed(users), token_ms=5.0 + users, shift=shift) for shift in range(3) for users in (16, 1, 4)]
    found, plots = seen(told(bench=a_sweep(loads=loads)))
    curve, spread = plots[0], plots[2]
    assert isinstance(curve, Curves) and isinstance(spread, Spreads)
    assert [dot.text for dot in curve.lines[0].dots] == ["1", "4", "16"]
    assert all(dot.interval and dot.interval[0] < dot.y < dot.interval[1] for dot in curve.lines[0].dots)
    assert [row.name for row in spread.rows] == ["1 user", "4 users", "16 users"]
    assert "another run would differ" not in found.text


def test_tokens_without_a_pause_between_them_can_be_drawn() -> None:
    """Several came in each delta: a logarithmic axis has no zero."""
    load = replace(a_load(Closed(1)), itl_quantiles_ms=(0.0,) * 101)
    _, plots = seen(told(bench=a_sweep(loads=(load,))))
    spread = plots[1]
    assert isinstance(spread, Spreads) and min(spread.rows[0].quantiles) > 0


@pytest.mark.parametrize("arrival", [Closed(1), Open(Spacing.POISSON, 4.0)])
def test_one_load_is_a_distribution_and_no_curve(arrival: Closed | Open) -> None:
    """Of a closed and of an open loop."""
    _, plots = seen(told(bench=a_sweep(loads=(a_load(arrival),))))
    assert [type(plot) for plot in plots[:2]] == [Spreads, Spreads]


def test_names_and_texts_of_others_stay_text() -> None:
    """A checkpoint, a server, an engine's log and a check's evidence may hold anything."""
    finding = Finding(HOSTILE, Severity.WARN, HOSTILE, HOSTILE, HOSTILE, HOSTILE)
    verdicts = (Verdict(HOSTILE, Outcome.FAILED, HOSTILE, (finding,)),)
    there = a_deployment(name=HOSTILE)
    plan = replace(there.birth.plan, model_path=HOSTILE, served_model_name=HOSTILE, findings=(finding,))
    birth = replace(there.birth, plan=plan, model=replace(there.birth.model, path=HOSTILE), log_path=HOSTILE)
    status = replace(there.status, verdicts=verdicts, cause=finding, why=HOSTILE, notes=(finding,))
    bench = replace(a_sweep(), workload=HOSTILE, cut=HOSTILE, source=HOSTILE)
    found, _ = seen(told(Deployment(birth, status), bench=bench, verify=replace(a_verification(), verdicts=verdicts)))
    assert "script" not in [name for name, _ in found.tags]
    assert all(
        HOSTILE not in (value or "") or key in ("aria-label",) for _, said in found.tags for key, value in said.items()
    )
    assert found.text.count(HOSTILE) >= 20


def test_the_page_reaches_for_nothing_outside() -> None:
    """No script, no link, no address in an attribute or in the style."""
    found, _ = seen(told(bench=a_sweep(), verify=a_verification()))
    assert not {name for name, _ in found.tags} & {"script", "link", "img", "iframe", "object", "embed", "form"}
    for name, said in found.tags:
        assert not {"src", "href", "srcset"} & set(said), name
        assert not any("://" in (value or "") for value in said.values()), name
    text = page(told(), Drawn())
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style and "@import" not in style and "://" not in style


def test_what_the_engine_inherited_stays_on_record() -> None:
    """A page is shown around: a shell's variables are counted and not told."""
    there = a_deployment()
    birth = replace(there.birth, environment=(("WORKPLACE", "secret-place"),))
    found, _ = seen(told(replace(there, birth=birth)))
    assert "secret-place" not in found.text and "WORKPLACE" not in found.text
    assert "1 inherited" in found.text


# --- markup -----------------------------------------------------------------------------------------------------------


def test_text_is_escaped_once_and_markup_not_at_all() -> None:
    """Also in attributes, and where it goes through several hands."""
    inner = tag("b", "a < b")
    assert tag("p", inner, " & ", id='"x"') == '<p id="&quot;x&quot;"><b>a &lt; b</b> &amp; </p>'
    assert html(html("<")) == "&lt;"
    assert joined(["<", inner], ", ") == "&lt;, <b>a &lt; b</b>"


def test_figures_of_a_table_stand_at_the_right() -> None:
    """Words at the left; the first cell of a row is its name."""
    made = table("t", ("load", "tok/s"), [("1 at once", "12")])
    assert '<th scope="row">1 at once</th><td class="n">12</td>' in made
