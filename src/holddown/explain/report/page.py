"""The page: one idea per section, in the order in which a reader asks."""

from collections.abc import Iterator

from holddown.explain.bench_text import arrival_text
from holddown.explain.figures import figure_of, figure_text
from holddown.explain.report.markup import Html, joined, pairs, section, table, tag
from holddown.explain.report.memory import memory
from holddown.explain.report.plot import Draw, Plot
from holddown.explain.report.predicted import predicted
from holddown.explain.report.running import failure, notes, place, reasons, running
from holddown.explain.report.speed import sound_phases, speed, throughput
from holddown.explain.report.style import STYLE
from holddown.explain.report.told import Told, date_text
from holddown.explain.report.unknown import unknown
from holddown.explain.report.verified import counted_text, verified
from holddown.launch.lifecycle import State
from holddown.measure.metrics import summary

_CLASSES = {State.RELEASED: "good", State.FAILED: "bad", State.STUCK: "bad"}
"""Any other is neither."""


def page(told: Told, draw: Draw) -> str:
    def chart(plot: Plot, caption: str) -> Html:
        return tag("figure", tag("figcaption", tag("strong", plot.title), caption), draw(plot))

    name = told.deployment.birth.name
    head = [
        Html('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        tag("title", f"{name}: {told.deployment.label}"),
        # a constant: nothing that a record holds gets here
        Html(f"<style>{STYLE}</style>"),
    ]
    body = tag(
        "main",
        _head(told),
        failure(told),
        notes(told),
        running(told),
        reasons(told),
        memory(told),
        verified(told),
        speed(told, chart),
        predicted(told, chart),
        environment(told),
        unknown(told),
    )
    foot = tag(
        "footer",
        f"Put together by holddown {told.version}, {date_text(told.at)}, from record {told.deployment.birth.id}.",
    )
    return "<!doctype html>\n" + tag("html", tag("head", *head), tag("body", body, foot), lang="en") + "\n"


def _head(told: Told) -> Html:
    deployment = told.deployment
    state = tag("span", deployment.label, class_=_CLASSES.get(deployment.status.state, "neither"))
    what = f": {deployment.birth.model.name} with {deployment.birth.plan.engine}, {place(deployment.birth.plan)}"
    figures = (tag("div", tag("dt", name), tag("dd", text)) for name, text in _figures(told))
    return tag(
        "header",
        tag("h1", deployment.birth.name),
        tag("p", state, what, class_="lead"),
        tag("dl", *figures, class_="figures"),
    )


def _figures(told: Told) -> Iterator[tuple[str, str]]:
    """The few that a reader wants first: of the load run, or of the first impression where there is none."""
    count, is_counted, _ = counted_text(told).partition(" checks passed")
    if is_counted:
        yield "checks passed", count
    sound = sound_phases(told.bench) if told.bench is not None else ()
    if sound:
        first = figure_of(sound[0], "ttft", 50)
        if first is not None:
            yield f"ms to the first token, {arrival_text(sound[0].arrival)}", figure_text(first.value)
        best = max(sound, key=throughput)
        for phase in (sound[0], best) if best is not sound[0] else (best,):
            yield f"output tokens a second, {arrival_text(phase.arrival)}", figure_text(throughput(phase))
        return
    measured = summary(told.deployment.status.measurements)
    if measured.single_tokens_per_second is not None:
        yield "output tokens a second, 1 user", figure_text(measured.single_tokens_per_second)
    if measured.crowd_tokens_per_second is not None:
        yield f"output tokens a second, {measured.crowd} users", figure_text(measured.crowd_tokens_per_second)


def environment(told: Told) -> Html:
    """What it ran with. What the engine inherited from a shell stays on record: this page goes to other places."""
    birth, report = told.deployment.birth, told.deployment.status.report
    rows = [
        ("engine", tag("code", birth.engine.executable)),
        ("checkpoint", joined(["digest ", tag("code", birth.plan.model_digest[:16])])),
        ("fabric", birth.plan.hardware.fabric if birth.plan.hardware else ""),
        ("variables", f"{len(birth.environment)} inherited, not shown here: holddown explain {birth.name} --json"),
    ]
    made = report.config if report is not None else ()
    settings = table("What the engine made of its settings", ("setting", "value"), made, words=2) if made else ""
    return section("environment", "Environment", pairs(rows), settings)
