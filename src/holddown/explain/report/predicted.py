"""The prediction with its band, what was measured laid upon it, and what a decode step is made of."""

from collections.abc import Sequence
from dataclasses import fields
from statistics import mean

from holddown.base.evidence import Unknown
from holddown.explain.bench_text import arrival_text
from holddown.explain.figures import figure_of, figure_text, interval
from holddown.explain.report.markup import Html, section, table, tag
from holddown.explain.report.plot import Axis, Chart, Curves, Dot, Ink, Line, Stacks
from holddown.explain.report.speed import sound_phases
from holddown.explain.report.told import Told
from holddown.measure.run import Closed
from holddown.plan.step import StepTime
from holddown.remember.curve import Predicted, curve, lengths

_LOADS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


def predicted(told: Told, chart: Chart) -> Html:
    plan, model = told.deployment.birth.plan, told.deployment.birth.model
    measured = _measured(told)
    sizes = _sizes(told)
    most = max([8, *(load for load, *_ in measured)])
    loads = sorted({*(load for load in _LOADS if load <= 2 * most), *(load for load, *_ in measured)})
    points = curve(plan, model, *sizes, loads)
    title = "Predicted, and measured"
    if isinstance(points, Unknown):
        return section("predicted", title, tag("p", f"Not predicted: {points.why}."))
    step = _step(points.value)
    requests = f"requests of {sizes[0]} tokens in and {sizes[1]} out"
    return section(
        "predicted",
        title,
        tag("p", f"For {requests}, by the plan's model of a decode step, which no measurement has moved."),
        tag(
            "div",
            chart(_throughput(points.value, measured), "the shade: four of five deployments lie in it"),
            chart(step, "in milliseconds, by users"),
            class_="charts",
        ),
        _table(points.value, measured),
        _step_table(step),
    )


def _measured(told: Told) -> list[tuple[int, Dot]]:
    """Output tokens a second by users: of the load run, or of the first impression."""
    if told.bench is not None:
        found = []
        for phase in sound_phases(told.bench):
            rate = figure_of(phase, "output_throughput")
            if isinstance(phase.arrival, Closed) and rate is not None:
                load = phase.arrival.concurrency
                found.append((load, Dot(load, rate.value, interval(rate))))
        return found
    return [(one.concurrency, Dot(one.concurrency, one.measured)) for one in told.deployment.status.comparisons]


def _sizes(told: Told) -> tuple[int, int]:
    """Tokens in and out of what was measured; of the plan's workload where nothing was."""
    workload = told.deployment.birth.plan.workload
    sizes = lengths(told.bench) if told.bench is not None else None
    if sizes is not None:
        return sizes
    for one in told.deployment.status.comparisons:
        return one.input_tokens, one.output_tokens
    return workload.input_tokens, workload.output_tokens


def _throughput(points: Sequence[Predicted], measured: Sequence[tuple[int, Dot]]) -> Curves:
    speeds = [(float(each.concurrency), each.speed.throughput_tok_s) for each in points]
    band = tuple((at, speed.low, speed.high) for at, speed in speeds)
    lines = [Line("predicted", Ink.FIRST, tuple(Dot(at, speed.value) for at, speed in speeds), band=band)]
    if measured:
        lines.append(Line("measured", Ink.SECOND, tuple(dot for _, dot in measured), joined=False))
    about = "Predicted output tokens a second with their band, over users, and what was measured."
    marks = tuple((float(each.concurrency), str(each.concurrency)) for each in points if each.concurrency in _LOADS)
    return Curves(
        name="throughput",
        title="Output tokens a second",
        about=about,
        x=Axis("users", is_log=True, marks=marks),
        y=Axis("tok/s", is_log=True),
        lines=tuple(lines),
    )


def _step(points: Sequence[Predicted]) -> Stacks:
    names = [field.name for field in fields(StepTime)]
    parts = [
        (name.replace("_", " "), tuple(1000 * float(getattr(each.step, name)) for each in points)) for name in names
    ]
    shown = tuple(part for part in parts if any(part[1]))
    about = "Milliseconds of one decode step by what takes them, a column for each number of users."
    columns = tuple(str(each.concurrency) for each in points)
    axes = Axis("users"), Axis("ms")
    return Stacks("step", "What a decode step is made of", about, *axes, columns, shown)


def _step_table(stacks: Stacks) -> Html:
    names = ("users", *(name for name, _ in stacks.parts))
    rows = [
        [column, *(figure_text(heights[at]) for _, heights in stacks.parts)] for at, column in enumerate(stacks.columns)
    ]
    return table("Milliseconds of a decode step", names, rows)


def _table(points: Sequence[Predicted], measured: Sequence[tuple[int, Dot]]) -> Html:
    rows = []
    for each in points:
        speed = each.speed.throughput_tok_s
        found = [dot.y for load, dot in measured if load == each.concurrency]
        rows.append(
            [
                arrival_text(Closed(each.concurrency)),
                f"{figure_text(speed.value)} ({figure_text(speed.low)} to {figure_text(speed.high)})",
                figure_text(mean(found)) if found else "–",
                f"{mean(found) / speed.value - 1:+.0%}" if found else "–",
            ]
        )
    names = ("load", "predicted tok/s", "measured", "off by")
    return table("Output tokens a second of all requests together", names, rows)
