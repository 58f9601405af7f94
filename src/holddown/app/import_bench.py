"""What another load client measured, as a record of ours.

Source: vllm 0.32.0 benchmarks/serve.py (`--save-result`, with `--save-detailed` one value per request) and guidellm
0.8.1 benchmark/schemas (GenerativeBenchmarksReport, `--output kind=json`), each as it was written by a run.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from holddown import ports
from holddown.app.target import is_url, subject_of
from holddown.base.errors import UsageError
from holddown.base.evidence import Unknown
from holddown.facts.served import Subject
from holddown.facts.workload import NO_SLO
from holddown.measure.figures import figures
from holddown.measure.pauses import Pauses
from holddown.measure.run import Arrival, ClientSide, Closed, EngineSide, Figure, Open, Phase, Spacing, Trace
from holddown.measure.stats import quantiles
from holddown.remember.run import BenchRun

Json = Mapping[str, Any]
_UNTOLD = Unknown("another client measured it")
_ENGINE = EngineSide(_UNTOLD, _UNTOLD, _UNTOLD, _UNTOLD, _UNTOLD, _UNTOLD)
_CLIENT = ClientSide(0, 0.0, 0.0, 0.0)


def import_bench(target: str, text: str, where: str, store: ports.Store, run_id: str) -> BenchRun:
    """target: whom it was measured of, a deployment on record or a URL, which need not be up. Raises: UsageError."""
    found = results(text, where)
    run = replace(found, id=run_id, subject=_subject(target, found.subject.model, store))
    store.add_run(run)
    return run


def results(text: str, where: str) -> BenchRun:
    """As a run of a server that nobody named, on no record. Raises: UsageError."""
    try:
        model, phases, workload = _read(json.loads(text))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise UsageError(
            f"{where} is no result of `vllm bench serve` or guidellm",
            code="bench.import",
            seen=f"{type(error).__name__}: {error}",
            do="the file of --save-result, or of guidellm's --output kind=json",
        ) from error
    return BenchRun(
        id="",
        at=phases[0].began_at,
        subject=Subject(where, "", model, "", _UNTOLD, _UNTOLD, _UNTOLD, _UNTOLD),
        workload=workload,
        seed=0,
        phases=tuple(phases),
        source=where,
        notes=("latencies count from when a request was sent, and whether that client kept up is not known",),
    )


def _subject(target: str, model: str, store: ports.Store) -> Subject:
    deployment = None if is_url(target) else store.latest(target)
    if deployment is not None:
        return subject_of(deployment, model)
    if not is_url(target):
        what = f"no deployment is called {target}"
        raise UsageError(what, code="usage.no-deployment", do="holddown list, or the URL that was measured")
    base_url = target.rstrip("/").removesuffix("/v1")
    return Subject(base_url, base_url, model, "", _UNTOLD, _UNTOLD, _UNTOLD, _UNTOLD)


def _read(data: Json) -> tuple[str, list[Phase], str]:
    """The model, the phases, the workload."""
    if "benchmarks" in data:
        phases = [_guidellm_phase(each) for each in data["benchmarks"]]
        model = str(data["config"]["spec"]["backend"]["model"])
        return model, phases, _sizes([trace for phase in phases for trace in phase.traces])
    completed = int(data["completed"])
    tokens_in, tokens_out = (round(data[f"total_{way}_tokens"] / max(1, completed)) for way in ("input", "output"))
    return str(data["model_id"]), [_vllm_phase(data)], f"{tokens_in}:{tokens_out}"


def _sizes(traces: Sequence[Trace]) -> str:
    good = [trace for trace in traces if not trace.fault]
    if not good:
        return "unknown"
    mean_in, mean_out = (
        round(sum(values) / len(good))
        for values in ([trace.input_tokens for trace in good], [trace.output_tokens for trace in good])
    )
    return f"{mean_in}:{mean_out}"


# --- vllm bench serve -------------------------------------------------------------------------------------------------


def _vllm_phase(data: Json) -> Phase:
    rate = data["request_rate"]
    users = data["max_concurrency"] or data["num_prompts"]
    arrival: Arrival = Closed(int(users)) if rate in ("inf", float("inf")) else Open(Spacing.POISSON, float(rate))
    traces = tuple(_vllm_traces(data)) if all(name in data for name in _COLUMNS) else ()
    pauses = sorted(pause * 1000 for one in data.get("itls") or () for pause in one)
    return Phase(
        arrival=arrival,
        began_at=datetime.strptime(data["date"], "%Y%m%d-%H%M%S").timestamp(),
        seconds=float(data["duration"]),
        traces=traces,
        itl_quantiles_ms=quantiles(pauses),
        itl_count=len(pauses),
        figures=tuple(_vllm_figures(data)),
        engine=_ENGINE,
        client=_CLIENT,
        energy_joules=_UNTOLD,
    )


_COLUMNS = ("start_times", "ttfts", "latencies", "input_lens", "output_lens", "errors", "itls")
"""Of --save-detailed."""


def _vllm_traces(data: Json) -> Iterator[Trace]:
    begin = min(data["start_times"])
    for start, ttft, latency, tokens_in, tokens_out, error, itls in zip(
        *(data[name] for name in _COLUMNS), strict=True
    ):
        sent = start - begin
        first = sent + ttft if not error else None
        yield Trace(sent, sent, first, sent + latency, tokens_in, tokens_out, len(itls) + 1, error, first)


def _vllm_figures(data: Json) -> Iterator[Figure]:
    n = int(data["completed"])
    for metric, theirs in (("ttft", "ttft"), ("itl", "itl"), ("tpot", "tpot"), ("e2e", "e2el")):
        ranks = {50: data.get(f"median_{theirs}_ms")}
        ranks |= {rank: data.get(f"p{rank}_{theirs}_ms") for rank in (90, 95, 99)}
        yield from (Figure(metric, float(each), "ms", rank, n) for rank, each in ranks.items() if each is not None)
    for metric, theirs, unit in (
        ("output_throughput", "output_throughput", "tok/s"),
        ("total_throughput", "total_token_throughput", "tok/s"),
        ("request_rate", "request_throughput", "1/s"),
        ("goodput", "request_goodput", "1/s"),
    ):
        if data.get(theirs) is not None:
            yield Figure(metric, float(data[theirs]), unit, 0, n)


# --- guidellm ---------------------------------------------------------------------------------------------------------


def _guidellm_phase(data: Json) -> Phase:
    began = float(data["start_time"])
    rows = [(row, "") for row in data["requests"]["successful"]]
    rows += [(row, str(row["info"].get("error") or "failed")) for row in data["requests"]["errored"]]
    traces = tuple(_guidellm_trace(row, began, fault) for row, fault in rows)
    ranks = data["metrics"]["inter_token_latency_ms"]["successful"]["percentiles"]
    own = figures(traces, float(data["duration"]), Pauses(0, ()), NO_SLO, _UNTOLD)
    count = int(data["metrics"]["inter_token_latency_ms"]["successful"]["count"])
    itls = tuple(Figure("itl", float(ranks[f"p{rank}"]), "ms", rank, count) for rank in (50, 90, 95, 99))
    return Phase(
        arrival=_guidellm_arrival(data["config"]["strategy"]),
        began_at=began,
        seconds=float(data["duration"]),
        traces=traces,
        itl_quantiles_ms=(),
        itl_count=count,
        figures=own + itls,
        engine=_ENGINE,
        client=_CLIENT,
        energy_joules=_UNTOLD,
    )


def _guidellm_arrival(strategy: Json) -> Arrival:
    match strategy["type_"]:
        case "synchronous":
            return Closed(1)
        case "constant" | "poisson":
            return Open(Spacing(strategy["type_"]), float(strategy["rate"]))
        case _:
            return Closed(int(strategy["max_concurrency"]))


def _guidellm_trace(row: Json, began: float, fault: str) -> Trace:
    sent = float(row["request_start_time"] or began) - began
    ttft, answer = row["time_to_first_token_ms"], row["time_to_first_output_token_ms"]
    return Trace(
        due_s=sent,
        sent_s=sent,
        first_s=None if ttft is None else sent + ttft / 1000,
        ended_s=float(row["request_end_time"] or began) - began,
        input_tokens=int(row["prompt_tokens"] or 0),
        output_tokens=int(row["output_tokens"] or 0),
        deltas=int(row["info"]["timings"]["token_iterations"] or 0),
        fault=fault,
        answer_s=None if answer is None else sent + answer / 1000,
    )
