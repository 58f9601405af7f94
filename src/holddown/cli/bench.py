"""`holddown bench TARGET`."""

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holddown import wiring
from holddown.base.errors import UsageError
from holddown.cli.output import answer, json_option, progress
from holddown.cli.target import target_options
from holddown.cli.workload import POSITIVE
from holddown.facts.workload import Slo
from holddown.measure.drive import STOPPED
from holddown.measure.run import Arrival, Closed, Open, Spacing
from holddown.measure.shapes import SHAPES, Shape, shape_of

if TYPE_CHECKING:
    from holddown.app.bench import Wish
    from holddown.remember.run import BenchRun

_PATIENCE = "How long the server may stay silent before a request has failed."
_SLO_DO = "--slo ttft=500ms,itl=50ms"


@click.command(name="bench")
@click.argument("target", required=False)
@target_options
@click.option("--concurrency", metavar="N[,N...]", help="Users at once, one phase each; a sweep where nothing is said.")
@click.option("--rate", metavar="R[,R...]|sweep", help="Requests per second, answered or not; `sweep`: to the knee.")
@click.option(
    "--spacing",
    type=click.Choice(["poisson", "constant", "bursts"]),
    default="poisson",
    show_default=True,
    help="How the requests of --rate follow each other.",
)
@click.option("--burst", type=click.IntRange(2), default=8, show_default=True, help="Requests of one burst.")
@click.option("--trace", metavar="FILE", help="Requests as recorded: JSON lines or CSV with times and lengths.")
@click.option(
    "--workload",
    default="chat",
    show_default=True,
    metavar="NAME|IN:OUT",
    help=f"What is asked: {', '.join(SHAPES)}, or tokens in and out of one request.",
)
@click.option("--duration", metavar="SECONDS", type=POSITIVE, help="Of each phase; 20.")
@click.option("--requests", metavar="N", type=click.IntRange(1), help="Of each phase, one per user at least.")
@click.option("--budget", metavar="SECONDS", type=POSITIVE, default=180.0, help="Of a sweep.", show_default=True)
@click.option("--slo", metavar="LIMITS", help="Limits for goodput: ttft=500ms,itl=50ms.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Other prompts, other arrivals.")
@click.option("--repeat", type=click.IntRange(1), help="How often each phase; 2 with --against, else 1.")
@click.option("--against", metavar="TARGET", help="A second server, measured by turns: A B, B A.")
@click.option("--patience", metavar="SECONDS", type=POSITIVE, default=120.0, show_default=True, help=_PATIENCE)
@click.option("--csv", "csv_file", metavar="FILE", help="Writes every figure there.")
@click.option("--import", "imported", metavar="FILE", help="Records what `vllm bench serve` or guidellm measured.")
@click.option("--formulas", is_flag=True, help="How each figure is computed.")
@json_option
@click.pass_context
def command(ctx: click.Context, /, **words: Any) -> None:
    """How fast TARGET answers under load: a deployment's NAME, or the URL of any OpenAI-compatible server.

    Every run is a record. Exit code 1 when a figure is the load client's and not the server's, or requests failed;
    130 after Ctrl-C, which keeps what was measured.
    """
    from holddown.explain.bench_text import formulas_text, runs_text

    target, as_json = words["target"], words["as_json"]
    if words["formulas"]:
        from holddown.measure.figures import FORMULAS

        answer(FORMULAS, formulas_text(), as_json=as_json)
        return
    if target is None:
        raise click.MissingParameter(param_type="argument", param_hint="TARGET", ctx=ctx)
    if words["imported"]:
        runs: tuple[BenchRun, ...] = (_imported(target, words),)
    else:
        runs = _measured(target, words)
    if words["csv_file"]:
        _write_csv(words["csv_file"], runs)
    answer(runs, runs_text(runs), as_json=as_json)
    if any(run.cut == STOPPED for run in runs):
        ctx.exit(130)
    spoilt = any(phase.client.limited or any(one.fault for one in phase.traces) for run in runs for phase in run.phases)
    ctx.exit(1 if spoilt or any(run.cut for run in runs) else 0)


def _measured(word: str, words: dict[str, Any]) -> "tuple[BenchRun, ...]":
    from holddown.app.bench import bench
    from holddown.cli.bench_progress import Display
    from holddown.cli.target import asked

    wish = _wish(words)
    targets = [asked(each, words["model"], words["api_key_file"]) for each in (word, words["against"]) if each]
    with Display() as display:
        return bench(targets, wish, wiring.bench_doors(display.say, display.pulse, display.ended))


def _wish(words: dict[str, Any]) -> "Wish":
    """Raises: UsageError."""
    from holddown.app.bench import Wish

    kinds = [name for name in ("concurrency", "rate", "trace") if words[name]]
    if len(kinds) > 1:
        what = f"--{kinds[0]} and --{kinds[1]} exclude each other"
        raise UsageError(what, code="usage.bench", do="one of --concurrency, --rate, --trace")
    wish = Wish(
        shape=_shape(words["workload"]),
        arrivals=_arrivals(words),
        sweep_rates=words["rate"] == "sweep",
        seconds=words["duration"] or (0.0 if words["requests"] else 20.0),
        requests=words["requests"] or 0,
        repeat=words["repeat"] or (2 if words["against"] else 1),
        budget_s=words["budget"],
        slo=_slo(words["slo"]),
        seed=words["seed"],
        patience_s=words["patience"],
    )
    return _with_trace(wish, words["trace"], words["duration"]) if words["trace"] else wish


def _shape(word: str) -> Shape:
    shape = shape_of(word)
    if shape is None:
        known = ", ".join(SHAPES)
        raise UsageError(
            f"no workload is called {word}", code="usage.workload", seen=f"known: {known}", do="--workload 1024:256"
        )
    return shape


def _arrivals(words: dict[str, Any]) -> tuple[Arrival, ...]:
    if words["concurrency"]:
        return tuple(Closed(int(users)) for users in _numbers("--concurrency", words["concurrency"], whole=True))
    if words["rate"] and words["rate"] != "sweep":
        spacing = Spacing(words["spacing"])
        burst = words["burst"] if spacing is Spacing.BURSTS else 1
        return tuple(Open(spacing, rate, burst) for rate in _numbers("--rate", words["rate"], whole=False))
    return ()


def _numbers(option: str, text: str, *, whole: bool) -> list[float]:
    """Raises: UsageError."""
    pattern = r"[1-9]\d{0,5}" if whole else r"\d{1,6}(\.\d+)?"
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(pattern, part) and float(part) > 0 for part in parts):
        what = f"{option} takes {'whole ' if whole else ''}numbers above zero, with commas between them"
        raise UsageError(what, code="usage.bench", seen=text, do=f"{option} {'1,8,32' if whole else '0.5,2,8'}")
    return [float(part) for part in parts]


def _slo(text: str | None) -> Slo:
    """Raises: UsageError."""
    found = Slo()
    for part in text.split(",") if text else ():
        match = re.fullmatch(r"\s*(ttft|itl|tpot)\s*=\s*(\d+(?:\.\d+)?)\s*(ms|s)\s*", part)
        if match is None:
            raise UsageError("--slo is not understood", code="usage.slo", seen=part, do=_SLO_DO)
        limit_ms = float(match[2]) * (1000 if match[3] == "s" else 1)
        found = replace(found, ttft_ms=limit_ms) if match[1] == "ttft" else replace(found, tpot_ms=limit_ms)
    return found


def _with_trace(wish: "Wish", path: str, seconds: float | None) -> "Wish":
    from holddown.measure.trace_file import shots

    trace = shots(_text(path), path, 0, seconds or 0.0)
    rate = len(trace) / trace[-1].due_s if trace[-1].due_s else float(len(trace))
    return replace(wish, trace=trace, arrivals=(Open(Spacing.TRACE, round(rate, 6)),))


def _text(path: str) -> str:
    """Raises: UsageError."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise UsageError(f"{path} cannot be read: {why}", code="usage.bench", do="a file that is there") from error


def _imported(target: str, words: dict[str, Any]) -> "BenchRun":
    from holddown.app.import_bench import import_bench

    return import_bench(target, _text(words["imported"]), words["imported"], wiring.store(), wiring.new_run_id())


def _write_csv(path: str, runs: "tuple[BenchRun, ...]") -> None:
    import csv

    from holddown.explain.bench_text import CSV_HEAD, csv_rows

    try:
        with open(path, "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([CSV_HEAD, *(row for run in runs for row in csv_rows(run))])
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", code="usage.bench") from error
    progress(f"figures in {path}")
