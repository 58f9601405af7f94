"""A load run as a table, with what limited each load, and as lines while it goes."""

from collections.abc import Sequence
from itertools import groupby

from holddown.base.units import duration_text
from holddown.explain.drawing import columns, wrapped
from holddown.measure.drive import Pulse
from holddown.measure.figures import FORMULAS, pooled
from holddown.measure.run import Arrival, Closed, Figure, Open, Phase, Spacing
from holddown.measure.why import limit, value
from holddown.remember.run import BenchRun


def arrival_text(arrival: Arrival) -> str:
    """`8 users`, `2.5/s poisson`."""
    match arrival:
        case Closed(users):
            return "1 user" if users == 1 else f"{users} users"
        case Open(Spacing.BURSTS):
            return f"{arrival.rate_per_s:.3g}/s, {arrival.burst} at once"
        case Open(Spacing.TRACE):
            return f"trace, {arrival.rate_per_s:.3g}/s"
        case Open():
            return f"{arrival.rate_per_s:g}/s {arrival.spacing}"


def pulse_text(arrival: Arrival, pulse: Pulse) -> str:
    ttft = f", ttft {pulse.ttft_s * 1000:.0f} ms" if pulse.ttft_s is not None else ""
    failed = f", {pulse.failed} FAILED" if pulse.failed else ""
    rate = pulse.deltas / pulse.elapsed_s if pulse.elapsed_s > 0 else 0.0
    return (
        f"{arrival_text(arrival)}: {duration_text(pulse.elapsed_s)}, {pulse.done} done, {pulse.running} under way"
        f"{failed}, about {rate:.0f} tok/s{ttft}"
    )


def phase_text(name: str, phase: Phase) -> str:
    """One line when a phase is over."""
    found = phase.figures
    failed = sum(1 for trace in phase.traces if trace.fault)
    parts = [f"{len(phase.traces)} requests" + (f", {failed} FAILED" if failed else "")]
    for metric, percentile, words in (
        ("output_throughput", 0, "{} tok/s"),
        ("ttft", 50, "ttft {} ms"),
        ("itl", 50, "itl {} ms"),
    ):
        one = value(found, metric, percentile)
        parts += [words.format(_number(one))] if one is not None else []
    return f"{name}, {arrival_text(phase.arrival)}: {', '.join(parts)}"


def runs_text(runs: Sequence[BenchRun]) -> str:
    return "\n\n".join(_run_text(run) for run in runs)


def _run_text(run: BenchRun) -> str:
    subject = run.subject
    if not run.phases:
        return f"{subject.name}: nothing was measured, {run.cut or 'and nothing is on record'}"
    head = f"{subject.name}: {subject.model}, {run.workload}, record {run.id}"
    lines = [head + (f", from {run.source}" if run.source else "")]
    if run.cut:
        lines += wrapped("", f"CUT SHORT: {run.cut}; what follows was measured until then", 2)
    groups = [list(phases) for _, phases in groupby(run.phases, key=lambda phase: phase.arrival)]
    lines += ["", *_table(groups, run), ""]
    for phases in groups:
        _, why = limit(_telling(phases))
        lines += wrapped(f"{arrival_text(phases[0].arrival)}: ", why, 2) if why else []
    lines += _fault_lines(run)
    for note in run.notes:
        lines += wrapped("", note, 2)
    lines += _comparison_lines(run)
    lines += _client_lines(run)
    return "\n".join(lines)


def _table(groups: Sequence[Sequence[Phase]], run: BenchRun) -> list[str]:
    goodput = any(figure.metric == "goodput" for phase in run.phases for figure in phase.figures)
    answers = any(figure.metric == "answer" for phase in run.phases for figure in phase.figures)
    joules = any(figure.metric == "energy" for phase in run.phases for figure in phase.figures)
    head = ["LOAD", "REQ", "tok/s", "±", "each", "TTFT", "p95", "ITL", "p95", "E2E"]
    head += ["ANSWER"] * answers + ["GOOD/s"] * goodput + ["J/tok"] * joules + ["LIMIT"]
    rows = [head]
    for phases in groups:
        found = pooled(phases, run.slo)
        rate = next((one for one in found if one.metric == "output_throughput"), None)
        failed = sum(1 for phase in phases for trace in phase.traces if trace.fault)
        count = sum(len(phase.traces) for phase in phases)
        row = [
            arrival_text(phases[0].arrival) + (f" x{len(phases)}" if len(phases) > 1 else ""),
            f"{count - failed}/{count}" if failed else str(count),
            _number(rate.value) if rate else "-",
            _spread(rate),
            *(
                _number(value(found, metric, percentile))
                for metric, percentile in (
                    ("user_speed", 50),
                    ("ttft", 50),
                    ("ttft", 95),
                    ("itl", 50),
                    ("itl", 95),
                    ("e2e", 50),
                )
            ),
            *([_number(value(found, "answer", 50))] * answers),
            *([_number(value(found, "goodput"))] * goodput),
            *([_number(value(found, "energy"))] * joules),
            limit(_telling(phases))[0],
        ]
        rows.append(row)
    lines = columns(rows, frozenset(range(1, len(head) - 1)))
    return [f"  {line}" for line in lines] + [
        "  each: tok/s of one user; TTFT, ITL, E2E: medians in ms; -: the sample is too small for it"
    ]


def _telling(phases: Sequence[Phase]) -> Phase:
    """Of repetitions the one of which most is to be said: where the client was the limit, else the last."""
    return next((phase for phase in phases if phase.client.limited), phases[-1])


def _number(value: float | None) -> str:
    """Three figures that mean something: `0.0123`, `12.3`, `1234`."""
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _spread(figure: Figure | None) -> str:
    """Half of the 95 % confidence interval, as a share."""
    if figure is None or figure.low is None or figure.high is None or not figure.value:
        return "-"
    return f"{(figure.high - figure.low) / 2 / figure.value:.0%}"


def _fault_lines(run: BenchRun) -> list[str]:
    faults: dict[str, int] = {}
    for phase in run.phases:
        for trace in phase.traces:
            if trace.fault:
                faults[trace.fault] = faults.get(trace.fault, 0) + 1
    if not faults:
        return []
    worst = sorted(faults.items(), key=lambda pair: -pair[1])
    lines = [line for fault, count in worst[:3] for line in wrapped(f"{count} failed: ", fault, 2)]
    rest = sum(count for _, count in worst[3:])
    return lines + ([f"  {rest} failed in {len(worst) - 3} other ways: --json has them"] if rest else [])


def _comparison_lines(run: BenchRun) -> list[str]:
    return [
        f"  predicted for {each.concurrency} users: {_number(each.predicted.value)} ({_number(each.predicted.low)} to "
        f"{_number(each.predicted.high)}) tok/s; measured {_number(each.measured)} "
        f"({each.measured / each.predicted.value - 1:+.0%})"
        for each in run.comparisons
    ]


def _client_lines(run: BenchRun) -> list[str]:
    clients = [phase.client for phase in run.phases if phase.client.processes]
    if not clients:
        return []
    most = max(client.processes for client in clients)
    capacity = f", calibrated to {clients[0].capacity_per_s:.0f} tokens/s a core" if clients[0].capacity_per_s else ""
    text = (
        f"{most} process{'es' if most > 1 else ''}{capacity}; at most {max(one.cpu_share for one in clients):.0%} of a "
        f"core, {max(one.send_lag_ms for one in clients):.1f} ms late to send, "
        f"{max(one.loop_lag_ms for one in clients):.1f} ms late to read (p99)"
    )
    return wrapped("client: ", text, 2)


def formulas_text() -> str:
    rows = columns([(name, text) for name, text in FORMULAS.items()])
    return "\n".join(
        [*rows, "", "due: when a request was to be sent; in a closed loop, when the answer before it ended"]
    )


def csv_rows(run: BenchRun) -> list[tuple[object, ...]]:
    """One row per figure, in the columns of `CSV_HEAD`."""
    rows: list[tuple[object, ...]] = []
    for number, phase in enumerate(run.phases):
        users = phase.arrival.concurrency if isinstance(phase.arrival, Closed) else ""
        rate = phase.arrival.rate_per_s if isinstance(phase.arrival, Open) else ""
        about = (run.id, run.subject.name, run.subject.model, run.workload, number, users, rate)
        rows += [
            (
                *about,
                one.metric,
                one.percentile or "",
                one.value,
                one.unit,
                one.n,
                _or_blank(one.low),
                _or_blank(one.high),
            )
            + (phase.client.limited,)
            for one in phase.figures
        ]
    return rows


CSV_HEAD = (
    "run", "server", "model", "workload", "phase", "users", "rate", "metric", "percentile", "value", "unit", "n", "low",
    "high", "client_limited",
)  # fmt: skip


def _or_blank(value: float | None) -> object:
    return "" if value is None else value
