"""The figures of a load run, each with its formula.

Only requests without a fault count. Tokens are those of `usage`, never deltas. Latencies count from the time when a
request was due. Rates count what happened while the load was held: a request that was under way when that ended counts
with the part of its time that lies within, and its tokens as spread evenly from its first to its last.
"""

from collections.abc import Callable, Sequence
from itertools import chain, pairwise

from holddown.base.evidence import Fact, Known
from holddown.facts.workload import NO_SLO, Slo
from holddown.measure.pauses import Pauses, itl_figures
from holddown.measure.run import Figure, Phase, Trace
from holddown.measure.stats import carried_percentiles, mean_interval, percentile, percentile_interval

FORMULAS = {
    "ttft": "ms to the first token: first content - due, reasoning included",
    "answer": "ms to the first token of the answer: first content that is no reasoning - due",
    "itl": "ms between tokens: pause between two deltas / tokens per delta, tokens per delta = output tokens / deltas",
    "tpot": "ms per output token: (end - first content) / (output tokens - 1), one value per request",
    "e2e": "ms of a whole request: end - due",
    "user_speed": "tok/s that one user sees: 1000 / tpot",
    "output_throughput": "tok/s: output tokens of all requests while the load was held / that time",
    "total_throughput": "tok/s: the same, prompt tokens included, as spread from due to first content",
    "request_rate": "requests/s: requests done while the load was held / that time",
    "goodput": "requests/s that met every limit of the SLO (ttft; itl as the request's tpot) / that time",
    "energy": "J/tok: energy of the GPUs in use, by NVML, / output tokens",
}
"""In the field's words; `due` is when a request was to be sent, in a closed loop when the answer before it ended."""

_SLICES = 10


def sound(traces: Sequence[Trace]) -> tuple[Trace, ...]:
    """Those that can be measured."""
    return tuple(trace for trace in traces if not trace.fault and trace.first_s is not None and trace.output_tokens > 0)


def ttft_ms(trace: Trace) -> float:
    assert trace.first_s is not None
    return (trace.first_s - trace.due_s) * 1000


def e2e_ms(trace: Trace) -> float:
    return (trace.ended_s - trace.due_s) * 1000


def tpot_ms(trace: Trace) -> float | None:
    """None for an answer of one token."""
    assert trace.first_s is not None
    return (trace.ended_s - trace.first_s) * 1000 / (trace.output_tokens - 1) if trace.output_tokens > 1 else None


def meets(trace: Trace, slo: Slo) -> bool:
    """Whether a request kept every limit. One that failed did not."""
    if not sound([trace]):
        return False
    pause = tpot_ms(trace)
    late = bool(slo.ttft_ms) and ttft_ms(trace) > slo.ttft_ms
    slow = bool(slo.tpot_ms) and pause is not None and pause > slo.tpot_ms
    return not late and not slow


def figures(
    traces: Sequence[Trace], held_s: float, pauses: Pauses, slo: Slo, joules: Fact[float]
) -> tuple[Figure, ...]:
    """None of a figure that nothing carries."""
    good = sound(traces)
    if not good:
        return ()
    per_token = [pause for trace in good if (pause := tpot_ms(trace)) is not None]
    answers = [(trace.answer_s - trace.due_s) * 1000 for trace in good if trace.answer_s is not None]
    reasoned = any(trace.answer_s != trace.first_s for trace in good)
    found = [
        *_latencies("ttft", [ttft_ms(trace) for trace in good]),
        *(_latencies("answer", answers) if reasoned else ()),
        *itl_figures(pauses),
        *_latencies("tpot", per_token),
        *_latencies("e2e", [e2e_ms(trace) for trace in good]),
        *_latencies("user_speed", [1000 / pause for pause in per_token if pause > 0], "tok/s")[:1],
    ]
    if held_s > 0:
        found += _rates(good, held_s, slo)
    tokens = sum(trace.output_tokens for trace in good)
    if isinstance(joules, Known):
        found.append(Figure("energy", joules.value / tokens, "J/tok", 0, len(good)))
    return tuple(found)


def _latencies(metric: str, values: Sequence[float], unit: str = "ms") -> list[Figure]:
    found = []
    for rank in carried_percentiles(len(values)):
        low, high = percentile_interval(values, rank) or (None, None)
        found.append(Figure(metric, percentile(values, rank), unit, rank, len(values), low, high))
    return found


def _rates(good: Sequence[Trace], held_s: float, slo: Slo) -> list[Figure]:
    edges = [held_s * each / _SLICES for each in range(_SLICES + 1)]
    rates = {
        "output_throughput": (
            "tok/s",
            [
                _output_tokens,
            ],
        ),
        "total_throughput": ("tok/s", [_output_tokens, _input_tokens]),
        "request_rate": ("1/s", [_requests]),
    }
    found = [_rate(name, unit, good, edges, parts) for name, (unit, parts) in rates.items()]
    if slo != NO_SLO:
        within = [trace for trace in good if meets(trace, slo)]
        found.append(_rate("goodput", "1/s", within, edges, [_requests]))
    return found


Part = Callable[[Trace, float, float], float]


def _rate(name: str, unit: str, good: Sequence[Trace], edges: Sequence[float], parts: Sequence[Part]) -> Figure:
    """Its interval is that of the mean of ten equal slices of the time, taken as independent of each other; none for
    fewer than three requests a slice."""
    slices = [
        sum(part(trace, begin, end) for trace in good for part in parts) / (end - begin)
        for begin, end in pairwise(edges)
    ]
    interval = mean_interval(slices) if len(good) >= 3 * _SLICES else None
    low, high = interval or (None, None)
    return Figure(name, sum(slices) / len(slices), unit, 0, len(good), low, high)


def _share(begin: float, end: float, since: float, until: float) -> float:
    """What part of begin..end lies within since..until; a moment lies in the one slice that begins with it."""
    if end <= begin:
        return 1.0 if since <= begin < until else 0.0
    return max(0.0, min(end, until) - max(begin, since)) / (end - begin)


def _output_tokens(trace: Trace, since: float, until: float) -> float:
    assert trace.first_s is not None
    return trace.output_tokens * _share(trace.first_s, trace.ended_s, since, until)


def _input_tokens(trace: Trace, since: float, until: float) -> float:
    assert trace.first_s is not None
    return trace.input_tokens * _share(trace.due_s, trace.first_s, since, until)


def _requests(trace: Trace, since: float, until: float) -> float:
    return _share(trace.due_s, trace.ended_s, since, until)


def pooled(phases: Sequence[Phase], slo: Slo = NO_SLO) -> tuple[Figure, ...]:
    """Of phases that repeat one load: percentiles over the requests of all; of a rate the mean over the repetitions,
    with the interval that their spread gives."""
    if len(phases) == 1:
        return phases[0].figures
    traces = list(chain.from_iterable(phase.traces for phase in phases))
    # of a repetition only the quantiles of its pauses are kept: each stands for as many as it had
    pauses = Pauses(sum(phase.itl_count for phase in phases), tuple(phase.itl_quantiles_ms for phase in phases))
    no_energy = next((phase.energy_joules for phase in phases if not isinstance(phase.energy_joules, Known)), None)
    joules = no_energy or Known(
        sum(phase.energy_joules.value for phase in phases if isinstance(phase.energy_joules, Known)),
        next(phase.energy_joules.source for phase in phases if isinstance(phase.energy_joules, Known)),
    )
    latencies = figures(traces, 0.0, pauses, slo, joules)
    names = dict.fromkeys(figure.metric for phase in phases for figure in phase.figures if not figure.percentile)
    return (*latencies, *(_repeated(name, phases) for name in names if name != "energy"))


def _repeated(metric: str, phases: Sequence[Phase]) -> Figure:
    found = [figure for phase in phases for figure in phase.figures if figure.metric == metric]
    values = [figure.value for figure in found]
    low, high = mean_interval(values) or (None, None)
    return Figure(metric, sum(values) / len(values), found[0].unit, 0, len(values), low, high)
