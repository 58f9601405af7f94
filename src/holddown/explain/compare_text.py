"""A comparison as a person reads it: what differs, by how much, and how sure that is."""

from collections.abc import Iterable, Iterator, Sequence

from holddown.explain.bench_text import arrival_text
from holddown.explain.drawing import columns, wrapped
from holddown.explain.figures import figure_text
from holddown.measure.compare import RERUN, RESAMPLES, Difference, LoadDifference, Method
from holddown.measure.run import Closed
from holddown.remember.foretold import Foretold
from holddown.remember.side import Change

_NAMES = {"output_throughput": "tok/s", "ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "e2e": "E2E"}
_HIGHER_IS_FASTER = frozenset({"output_throughput"})
_RIGHT = frozenset({2, 3, 4})


def changes_lines(changes: Sequence[Change], unknown: Sequence[str]) -> Iterator[str]:
    yield "what differs"
    for one in changes:
        name = f"--{one.name}" if one.of == "setting" and not one.name.isupper() else f"{one.name}"
        yield from wrapped(f"  {name}  ", f"{one.a or '(not set)'} -> {one.b or '(not set)'}", hang=6)
        for side, because in (("A", one.because_a), ("B", one.because_b)):
            if because:
                yield from wrapped(f"      {side}: ", because)
    if not changes:
        yield "  nothing that is on record"
    for why in unknown:
        yield from wrapped("  not known  ", why, hang=6)


def loads_lines(loads: Sequence[LoadDifference]) -> Iterator[str]:
    """A line for each figure of each load that both had."""
    found = [one for load in loads for one in load.differences]
    if not loads:
        yield "no load was measured on both sides: nothing to compare"
        return
    yield from _summary(found)
    rows: list[tuple[str, ...]] = [("LOAD", "FIGURE", "A", "B", "B AGAINST A", "")]
    for load in loads:
        for at, one in enumerate(load.differences):
            rows.append((arrival_text(load.arrival) if at == 0 else "", *_row(one)))
    if len(rows) > 1:
        yield from columns(rows, _RIGHT)
    for load in loads:
        if load.limited:
            yield from wrapped(
                f"{arrival_text(load.arrival)}  ", f"not compared, the client was the limit: {load.limited}"
            )
    yield from _footnotes(found)


def _summary(found: Sequence[Difference]) -> Iterator[str]:
    words = [_word(one) for one in found]
    counts = [(words.count(word), word) for word in ("faster", "slower")]
    said = [f"B is {word} in {count}" for count, word in counts if count]
    few = sum(one.method is Method.NONE for one in found)
    alike = sum(not one.is_shown for one in found) - few
    said += [f"no difference is shown in {alike}"] if alike else []
    said += [f"too few requests tell of {few}"] if few else []
    if found:
        yield f"of {len(found)} figures: {', '.join(said)}"


def _row(one: Difference) -> tuple[str, ...]:
    rank = f" p{one.percentile}" if one.percentile else ""
    unit = f" {one.unit}" if one.percentile else ""
    change = f"{one.change:+.1%}"
    if one.low is not None and one.high is not None:
        change += f" ({one.low:+.1%} to {one.high:+.1%})"
    figures = (f"{figure_text(one.a)}{unit}", f"{figure_text(one.b)}{unit}")
    return (_NAMES[one.metric] + rank, *figures, change, _said(one))


def _said(one: Difference) -> str:
    if one.method is Method.NONE:
        return "too few requests to say how sure"
    if one.is_shown:
        return _word(one)
    would = one.would_show or 0.0
    return f"none shown; {would:.{0 if would >= 0.1 else 1}%} would be"


def _word(one: Difference) -> str:
    if not one.is_shown:
        return ""
    return "faster" if (one.change > 0) == (one.metric in _HIGHER_IS_FASTER) else "slower"


def _footnotes(found: Sequence[Difference]) -> Iterator[str]:
    methods = {one.method for one in found}
    if Method.BOOTSTRAP in methods:
        text = (
            f"95 %, {RESAMPLES} bootstrap resamples of the requests in blocks that ran together, and {RERUN:.0%} for "
            "what differs from run to run, which is assumed: bench --repeat 3 would tell it"
        )
        yield from wrapped("intervals  ", text)
    if Method.SLICES in methods:
        text = f"95 %, from ten slices of the time of each load, and {RERUN:.0%} for what differs from run to run"
        yield from wrapped("pauses  ", text)
    if Method.WELCH in methods:
        yield from wrapped("intervals  ", "95 %, Welch's t-test on the logarithms of the figures of the repeated loads")
    sure = sum(one.method is not Method.NONE for one in found)
    if sure >= 10:
        yield from wrapped("by chance  ", f"about {sure / 20:.0f} of {sure} figures would seem to differ if none did")


def foretold_lines(sides: Iterable[tuple[str, Sequence[Foretold]]]) -> Iterator[str]:
    """Predicted against measured, and how much measurements of others would have moved the prediction."""
    rows = [
        (f"{name} {arrival_text(Closed(one.concurrency))}", *_foretold(one)) for name, found in sides for one in found
    ]
    if not rows:
        return
    head = ("LOAD", "PREDICTED tok/s", "MEASURED", "OFF BY", "CALIBRATED", "OFF BY THEN")
    is_calibrated = any(row[4] for row in rows)
    yield "predicted, and measured"
    shown = [row if is_calibrated else row[:4] for row in (head, *rows)]
    yield from (f"  {line}" for line in columns(shown, frozenset(range(1, 6))))
    if not is_calibrated:
        yield "  no other measurement here calibrates these predictions"


def _foretold(one: Foretold) -> tuple[str, ...]:
    said = one.predicted
    band = f"{figure_text(said.value)} ({figure_text(said.low)} to {figure_text(said.high)})"
    plain = (band, figure_text(one.measured), f"{one.measured / said.value - 1:+.0%}")
    if one.factor is None:
        return (*plain, "", "")
    return (*plain, f"{one.factor - 1:+.0%}", f"{one.measured / (said.value * one.factor) - 1:+.0%}")
