"""How fast it is: a load run's figures as curves and distributions, each with its table."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from statistics import mean
from typing import assert_never

from holddown.base.evidence import Known
from holddown.explain.bench_text import arrival_text
from holddown.explain.figures import figure_of, figure_text, interval
from holddown.explain.report.markup import Html, pairs, section, table, tag
from holddown.explain.report.plot import Axis, Chart, Curves, Dot, Ink, Line, Plot, Spread, Spreads
from holddown.explain.report.told import Told, date_text
from holddown.measure.metrics import Measurement
from holddown.measure.run import Closed, Figure, Open, Phase
from holddown.measure.stats import percentile
from holddown.measure.why import limit
from holddown.remember.run import BenchRun

_LEAST_MS = 0.1
_LATENCIES = (("ttft", "Time to the first token"), ("itl", "Pause between tokens"))


def throughput(phase: Phase) -> float:
    """Output tokens a second; 0 where none came."""
    figure = figure_of(phase, "output_throughput")
    return figure.value if figure is not None else 0.0


def sound_phases(run: BenchRun) -> tuple[Phase, ...]:
    """Those whose figures are the server's, the lightest load first; repeated ones beside each other."""
    return tuple(each for each in sorted(run.phases, key=_weight) if not each.client.limited and throughput(each))


def _weight(phase: Phase) -> tuple[bool, float]:
    match phase.arrival:
        case Closed():
            return False, phase.arrival.concurrency
        case Open():
            return True, phase.arrival.rate_per_s
        case _:
            assert_never(phase.arrival)


def speed(told: Told, chart: Chart) -> Html:
    run = told.bench
    name = told.deployment.birth.name
    if run is None:
        ask = tag("p", "No load run is on record; this makes one: ", tag("code", f"holddown bench {name}"))
        return section("speed", "How fast is it?", _first_impression(told.deployment.status.measurements), ask)
    return section(
        "speed",
        "How fast is it?",
        tag("p", _head(run)),
        *(tag("p", note) for note in run.notes),
        tag("div", *(chart(plot, caption) for plot, caption in _plots(sound_phases(run))), class_="charts"),
        _table(run),
        tag("h3", "What limited each load"),
        pairs(_limits(run)),
        _engine_side(sorted(run.phases, key=_weight)),
        tag("p", _READING, class_="soft"),
    )


_READING = (
    "TTFT: from when a request was meant to be sent to its first token. ITL: between two tokens. p50: half are "
    "faster; p95: 19 of 20 are. Times were taken by the client."
)


def _head(run: BenchRun) -> str:
    requests = sum(len(phase.traces) for phase in run.phases)
    failed = sum(bool(trace.fault) for phase in run.phases for trace in phase.traces)
    texts = [
        f"Workload {run.workload}, seed {run.seed}: {requests} requests in {len(run.phases)} loads, "
        f"{date_text(run.at)} (run {run.id})"
    ]
    texts += [f"{failed} requests failed and count in no figure"] if failed else []
    texts += [f"it was cut short: {run.cut}"] if run.cut else []
    texts += [f"imported from {run.source}"] if run.source else []
    return "; ".join(texts) + "."


def _limits(run: BenchRun) -> Iterator[tuple[str, str]]:
    """By what client and engine told. Of a load that was repeated, what the client limited, else the last."""
    for load in _loads(sorted(run.phases, key=_weight)):
        phase = next((each for each in load if each.client.limited), load[-1])
        _, why = limit(phase)
        yield arrival_text(phase.arrival), tag("span", why, class_="bad") if phase.client.limited else why


# --- charts -----------------------------------------------------------------------------------------------------------


Load = tuple[Phase, ...]
"""The phases of one load, which may have been repeated."""


def _loads(phases: Iterable[Phase]) -> list[Load]:
    return [tuple(group) for _, group in groupby(phases, key=lambda each: each.arrival)]


def _plots(sound: Iterable[Phase]) -> Iterator[tuple[Plot, str]]:
    loads = _loads(sound)
    for metric, title in _LATENCIES if len(loads) > 1 else ():
        lines = tuple(filter(None, (_latency_line(loads, metric, 50), _latency_line(loads, metric, 95, dashed=True))))
        if lines:
            about = f"{title} over output tokens per second, a point for each load; the table below has the figures."
            axes = Axis("output tokens per second"), Axis("ms", is_log=True)
            yield Curves(f"curve-{metric}", title, about, *axes, lines), "against throughput, by load"
    for metric, title in _LATENCIES:
        spreads = [(arrival_text(load[0].arrival), _spread(load, metric)) for load in loads]
        rows = tuple(Spread(name, tuple(map(_drawable, values))) for name, values in spreads if values)
        if rows:
            about = f"{title} as distributions, a row for each load; the table below has the percentiles."
            caption = "a dot for each percent, 1 to 99; bar: the middle half; mark: the median"
            axis = Axis("ms", is_log=True)
            yield Spreads(f"spread-{metric}", f"{title}, its spread", about, axis, rows), caption


def _latency_line(loads: Iterable[Load], metric: str, rank: int, *, dashed: bool = False) -> Line | None:
    dots = []
    for load in loads:
        found = [figure for phase in load if (figure := figure_of(phase, metric, rank)) is not None]
        if found:
            text = "" if dashed else arrival_text(load[0].arrival).partition(" user")[0]
            latency = _drawable(mean(each.value for each in found))
            dots.append(Dot(mean(map(throughput, load)), latency, _within(found), text))
    ink = Ink.SECOND if dashed else Ink.FIRST
    return Line(f"p{rank}", ink, tuple(dots), dashed=dashed) if dots else None


def _drawable(latency_ms: float) -> float:
    """A logarithmic axis has no zero, and tokens of one delta have no pause between them."""
    return max(latency_ms, _LEAST_MS)


def _within(found: Sequence[Figure]) -> tuple[float, float] | None:
    """Of one load its interval; of repeated ones from the least to the most."""
    if len(found) == 1:
        return interval(found[0])
    values = [each.value for each in found]
    return min(values), max(values)


def _spread(load: Load, metric: str) -> tuple[float, ...]:
    """0 % to 100 %; empty where there is nothing to spread."""
    if metric == "itl":
        told = [phase.itl_quantiles_ms for phase in load if phase.itl_quantiles_ms]
        return tuple(map(mean, zip(*told, strict=True)))
    sound = [each for phase in load for each in phase.traces if not each.fault]
    values = [1000 * (each.first_s - each.due_s) for each in sound if each.first_s is not None]
    return tuple(percentile(values, rank) for rank in range(101)) if values else ()


# --- tables -----------------------------------------------------------------------------------------------------------

_COLUMNS = (
    ("tok/s", "output_throughput", 0),
    ("TTFT p50 ms", "ttft", 50),
    ("p95", "ttft", 95),
    ("ITL p50 ms", "itl", 50),
    ("p95", "itl", 95),
)


def _table(run: BenchRun) -> Html:
    rows = []
    for phase in sorted(run.phases, key=_weight):
        cells = (_cell(figure_of(phase, metric, rank)) for _, metric, rank in _COLUMNS)
        whose = " *" if phase.client.limited else ""
        rows.append([arrival_text(phase.arrival) + whose, *cells, f"{len(phase.traces)}"])
    names = ("load", *(each for each, *_ in _COLUMNS), "n")
    return table("Each load; in brackets the 95 % interval, where the sample carries one", names, rows)


def _cell(figure: Figure | None) -> str:
    if figure is None:
        return "–"
    within = interval(figure) if figure.percentile == 0 else None
    return figure_text(figure.value) + (f" ({figure_text(within[0])} to {figure_text(within[1])})" if within else "")


def _first_impression(measurements: Sequence[Measurement]) -> Html:
    """What was measured before the release: twelve seconds, always taken the same way."""
    if not measurements:
        return tag("p", "Nothing was measured.")
    loads = sorted({each.concurrency for each in measurements})
    by_name = {(one.concurrency, one.metric, one.percentile): one for one in measurements}
    rows = [
        [arrival_text(Closed(load)), *(_plain(by_name.get((load, metric, rank))) for _, metric, rank in _COLUMNS)]
        for load in loads
    ]
    return table("A first impression, before the release", ("load", *(each for each, *_ in _COLUMNS)), rows)


def _plain(one: Measurement | None) -> str:
    return figure_text(one.value) if one is not None else "–"


def _engine_side(phases: Sequence[Phase]) -> Html:
    """Why a load is slow, by the engine's own counters; nothing where it tells none."""
    columns = (
        ("running", "running_mean", "{:.1f}"),
        ("waiting", "waiting_mean", "{:.1f}"),
        ("KV cache at most", "kv_share_peak", "{:.0%}"),
        ("preempted", "preemptions", "{:.0f}"),
        ("prefix hits", "prefix_hit_share", "{:.0%}"),
        ("drafts taken", "draft_acceptance", "{:.0%}"),
    )
    told = [each for each in columns if any(isinstance(getattr(one.engine, each[1]), Known) for one in phases)]
    if not told:
        return Html()
    rows = []
    for phase in phases:
        facts = ((getattr(phase.engine, name), show) for _, name, show in told)
        cells = (show.format(fact.value) if isinstance(fact, Known) else "–" for fact, show in facts)
        rows.append([arrival_text(phase.arrival), *cells])
    return table("What the engine said of itself meanwhile", ("load", *(name for name, *_ in told)), rows)
