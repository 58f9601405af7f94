"""A load run as a table, as lines while it goes, and as rows of a file."""

from dataclasses import replace

from fakes.load import a_trace
from fakes.runs import a_bench_run, a_phase
from holddown.base.evidence import from_probe
from holddown.explain.bench_text import CSV_HEAD, arrival_text, csv_rows, phase_text, pulse_text, runs_text
from holddown.facts.workload import Slo
from holddown.measure.drive import Pulse
from holddown.measure.figures import figures
from holddown.measure.pauses import Pauses
from holddown.measure.run import Closed, Open, Phase, Spacing
from holddown.remember.run import BenchRun


def a_full_run() -> BenchRun:
    """Every column: goodput, reasoning, energy, repetitions, a fault, a client that was the limit."""
    slo = Slo(ttft_ms=500)
    traces = [replace(a_trace(number * 0.1), answer_s=number * 0.1 + 0.2) for number in range(40)]
    joules = from_probe(12345.0, "a meter")
    found = figures(traces, 4.0, Pauses(200, ((123.4,) * 20,) * 10), slo, joules)
    phase = replace(
        a_phase(1024),
        arrival=Open(Spacing.BURSTS, 123.456, 16),
        traces=(*traces, a_trace(fault="HTTP 503: the queue is full")),
        figures=found,
        energy_joules=joules,
    )
    late = replace(phase, client=replace(phase.client, limited="its busiest process used 99% of a core"))
    return replace(a_bench_run(phases=(phase, late)), slo=slo, notes=("a note",), cut="stopped by Ctrl-C")


def test_every_column_fits_a_terminal() -> None:
    """110 columns, whatever was measured."""
    text = runs_text([a_full_run()])
    assert max(map(len, text.splitlines())) <= 110
    for column in ("ANSWER", "GOOD/s", "J/tok", "LIMIT", "x2", "80/82"):
        assert column in text


def test_what_a_reader_must_not_miss() -> None:
    """That it was cut short, that the client was the limit, which requests failed and why, its record."""
    text = runs_text([a_full_run()])
    assert "CUT SHORT: stopped by Ctrl-C" in text
    assert "CLIENT" in text and "not the server's" in text
    assert "2 failed: HTTP 503: the queue is full" in text
    assert "be0c0001" in text and "a note" in text


def test_nothing_was_measured() -> None:
    """No table without a row."""
    text = runs_text([replace(a_bench_run(), phases=(), cut="stopped by Ctrl-C")])
    assert text == "m: nothing was measured, stopped by Ctrl-C"


def test_lines_while_it_goes() -> None:
    """Now, and when a phase is over."""
    pulse = Pulse(elapsed_s=2.0, running=3, done=4, failed=1, deltas=100, ttft_s=0.05)
    assert pulse_text(Closed(8), pulse) == "8 users: 2.0 s, 4 done, 3 under way, 1 FAILED, about 50 tok/s, ttft 50 ms"
    assert phase_text("m", a_phase(8, 400.0)) == "m, 8 users: 2 requests, 400 tok/s, ttft 100 ms, itl 100 ms"


def test_arrivals_in_words() -> None:
    """As the options name them."""
    arrivals = (Closed(1), Open(Spacing.POISSON, 2.5), Open(Spacing.BURSTS, 4.0, 8), Open(Spacing.TRACE, 1.23456))
    assert [*map(arrival_text, arrivals)] == ["1 user", "2.5/s poisson", "4/s, 8 at once", "trace, 1.23/s"]


def test_a_row_per_figure() -> None:
    """In the same columns for every run."""
    phases: tuple[Phase, ...] = (a_phase(1), a_phase(2))
    rows = csv_rows(a_bench_run(phases=phases))
    assert len(rows) == 6
    assert {len(row) for row in rows} == {len(CSV_HEAD)}
