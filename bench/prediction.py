"""How far off predicted speeds are, on published measurements.

    python bench/prediction.py MEASUREMENTS.jsonl --models DIR
    python bench/prediction.py --judge OTHER.jsonl --models DIR --json

Without --judge the constants are fitted on one half of the configurations and judged on the other, for five ways to
halve them; then come the constants that holddown ships, fitted on all. --judge applies the shipped constants to another
file of the same form.

The error of a row is |predicted / measured - 1| of a speed in tokens per second: a time per output token is turned
over first. A row without a folder of its model in DIR, or of one with equal shapes (speed_rows.SAME_SHAPES), is not
judged, and is counted.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import exp, log
from pathlib import Path
from random import Random
from statistics import fmean, median, quantiles

from speed_fit import PRIORS, errors, fit
from speed_rows import Case, Cases, Predictor, read_cases

from holddown.plan.calibration import trust
from holddown.plan.rig import generation
from holddown.tables.load import speed_table
from holddown.tables.speed import SpeedTable

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "data"
SEEDS = 5
SMALL_SLICE = 8
Trust = Callable[[float, float], float]
"""(requests at once when it was measured, now) -> how much of the measurement holds."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A case and log(predicted / measured)."""

    case: Case
    error: float

    @property
    def concurrency(self) -> float:
        return float(self.case.row.get("conc") or 1)

    @property
    def ape(self) -> float:
        return abs(exp(self.error) - 1)


def half(cases: Sequence[Case], seed: int) -> tuple[list[Case], list[Case]]:
    """Cases to fit on and cases to judge on: no configuration is in both."""
    groups = sorted({case.group for case in cases})
    Random(seed).shuffle(groups)
    fitted = set(groups[: len(groups) // 2])
    return [case for case in cases if case.group in fitted], [case for case in cases if case.group not in fitted]


def held_out(cases: Sequence[Case], seed: int) -> list[Seen]:
    """Errors on the half that was not fitted."""
    train, test = half(cases, seed)
    return judge(test, fit(train, speed_table(), seed))


def judge(cases: Sequence[Case], table: SpeedTable | None = None) -> list[Seen]:
    """Errors with the shipped constants, or those of `table`."""
    return [Seen(case, error) for case, error in zip(cases, errors(table or speed_table(), cases), strict=True)]


def without(cases: Sequence[Case], left_out: Callable[[Case], bool]) -> list[Seen]:
    """Errors on the cases that `left_out` picks, with constants fitted on all others."""
    others = [case for case in cases if not left_out(case)]
    return judge([case for case in cases if left_out(case)], fit(others, speed_table()))


def summary(seen: Sequence[Seen]) -> dict[str, float]:
    apes = [each.ape for each in seen]
    return {
        "n": len(apes),
        "mean_ape": fmean(apes),
        "median_ape": median(apes),
        "within_30": fmean(ape < 0.3 for ape in apes),
        "bias": exp(median(each.error for each in seen)) - 1,
    }


def line(name: str, seen: Sequence[Seen]) -> str:
    of = summary(seen)
    return (
        f"{name:<44} {of['n']:>6.0f} {of['mean_ape']:>7.1%} {of['median_ape']:>7.1%} "
        f"{of['within_30']:>7.0%} {of['bias']:>+7.1%}"
    )


def say(text: str) -> None:
    sys.stdout.write(text + "\n")


HEAD = f"{'':<44} {'rows':>6} {'mean':>7} {'median':>7} {'< 30 %':>7} {'bias':>7}"


def batch(case: Case) -> str:
    concurrency = int(case.row.get("conc") or 1)
    if case.kind == "prefill":
        return "prefill"
    for most, name in ((1, "1"), (4, "2 to 4"), (16, "5 to 16"), (64, "17 to 64")):
        if concurrency <= most:
            return f"batch {name}"
    return "batch over 64"


def fabric(case: Case) -> str:
    return case.fabric.name if case.fabric else "one GPU"


def weights_format(case: Case) -> str:
    """Of the experts, or of most dense weights."""
    stored = case.work.experts or tuple(weights for _, weights in case.work.dense)
    return max(stored, key=lambda weights: weights.size_bytes).format


SLICES: tuple[tuple[str, Callable[[Case], str]], ...] = (
    ("family", lambda case: str(case.row["model"]).split("-")[0]),
    ("GPU", lambda case: case.gpu.name),
    ("fabric", fabric),
    ("engine", lambda case: str(case.row.get("engine") or "not said")),
    ("batch", batch),
    ("weights", weights_format),
)


def say_slices(seen: Sequence[Seen]) -> None:
    for title, key in SLICES:
        say(f"\nby {title}")
        parts: dict[str, list[Seen]] = {}
        for each in seen:
            parts.setdefault(key(each.case), []).append(each)
        for name in sorted(parts):
            if len(parts[name]) >= SMALL_SLICE:
                say(line(f"  {name}", parts[name]))


def calibrated(seen: Sequence[Seen], seed: int, trusted: Trust) -> list[float]:
    """Error of each row after one other of its configuration, drawn at random, was measured and the prediction scaled
    by (measured / predicted) to the power that is trusted."""
    draw, found = Random(seed), []
    for group in _by_group(seen).values():
        for at, each in enumerate(group):
            others = group[:at] + group[at + 1 :]
            if others:
                other = draw.choice(others)
                found.append(abs(exp(each.error - trusted(other.concurrency, each.concurrency) * other.error) - 1))
    return found


def _by_group(seen: Sequence[Seen]) -> dict[str, list[Seen]]:
    groups: dict[str, list[Seen]] = {}
    for each in seen:
        groups.setdefault(each.case.group, []).append(each)
    return groups


def spread(seen: Sequence[Seen]) -> list[float]:
    """Distance of each row from the middle of its configuration: what no constant of a configuration could mend."""
    groups = [[each.error for each in group] for group in _by_group(seen).values()]
    return [abs(exp(error - median(all_)) - 1) for all_ in groups if len(all_) > 1 for error in all_]


def repeated(cases: Iterable[Case]) -> list[float]:
    """Highest over lowest, less one, of rows that differ only in where they are from: other versions, other kernels."""
    same: dict[tuple[object, ...], list[float]] = {}
    for case in cases:
        row = case.row
        said = ("model", "quant", "kind", "conc", "ctx", "isl", "osl", "kv", "link", "dense_mla")
        key = (*(row.get(name) for name in said), case.gpu.name, row.get("engine"), case.split)
        same.setdefault(key, []).append(float(row["value"]))
    return [max(values) / min(values) - 1 for values in same.values() if len(values) > 1]


def ttft(cases: Sequence[Case]) -> list[Seen]:
    """Of the rows that have a time to first token, with the shipped constants."""
    predictor = Predictor(speed_table())
    return [
        Seen(case, -log(predictor.ttft_ms(case) / float(case.row["ttft_ms"])))
        for case in cases
        if case.row.get("ttft_ms") and case.kind == "tpot"
    ]


def _of_generation(major: str, case: Case) -> bool:
    return generation(case.gpu) == major


def _of_engine(engine: str, case: Case) -> bool:
    return case.row.get("engine") == engine


def percentiles(seen: Sequence[Seen]) -> tuple[float, float]:
    """10th and 90th percentile of measured / predicted speed."""
    tenths = quantiles([exp(-each.error) for each in seen], n=10)
    return tenths[0], tenths[-1]


def say_bands(cases: Sequence[Case], pooled: Sequence[Seen]) -> None:
    """As tables/speed.toml has them."""
    say("\nmeasured / predicted speed, 10th and 90th percentile")
    parts: dict[str, list[Seen]] = {}
    for each in pooled:
        at = fabric(each.case)
        users = "few-users" if int(each.case.row.get("conc") or 1) <= speed_table().few_users else "many-users"
        where = "one-gpu" if at == "one GPU" else at.partition("-")[0].rstrip("0123456789")
        parts.setdefault(f"{users}, {where}", []).append(each)
    for name, seen in sorted(parts.items()):
        say("  {:<40} {:.2f} to {:.2f}".format(name, *percentiles(seen)))
    for major in sorted({generation(case.gpu) for case in cases}):
        strange = without(cases, partial(_of_generation, major))
        say("  {:<40} {:.2f} to {:.2f}".format(f"fitted without compute capability {major}", *percentiles(strange)))
    for engine in ("llama.cpp", "sglang", "trtllm", "vllm"):
        strange = without(cases, partial(_of_engine, engine))
        say("  {:<40} {:.2f} to {:.2f}".format(f"fitted without {engine}", *percentiles(strange)))
    say("  {:<40} {:.2f} to {:.2f}".format("1 / time to first token", *percentiles(ttft(cases))))


def say_constants(cases: Sequence[Case]) -> None:
    """What tables/speed.toml has, fitted on all cases, in the order of its factors."""
    table = fit(cases, speed_table())
    for name in PRIORS:
        say(f"{name} = {getattr(table.constants, name):.3g}")
    say(f"activation_quantization = {table.kernels.activation_quantization:.3g}")
    for factor in table.factors:
        where = " ".join(part for part in (factor.engine, factor.generation, factor.format) if part)
        say(f"{factor.term} [{where}] = {factor.value:.3g}")
    say(HEAD)
    say(line("with these", judge(cases, table)))


def report(cases: Cases, bands: bool) -> None:
    rows = cases.judged
    groups = len({case.group for case in rows})
    say(f"{len(rows)} rows in {groups} configurations; not judged: {cases.not_judged or 'none'}\n")
    say(HEAD)
    with ProcessPoolExecutor() as pool:
        runs = list(pool.map(held_out, [rows] * SEEDS, range(SEEDS)))
    for seed, seen in enumerate(runs):
        say(line(f"held out, seed {seed}", seen))
    means = [summary(seen)["mean_ape"] for seen in runs]
    middles = [summary(seen)["median_ape"] for seen in runs]
    say(f"{'mean of the five':<44} {'':>6} {fmean(means):>7.1%} {fmean(middles):>7.1%}")
    pooled = [each for seen in runs for each in seen]
    shipped = judge(rows)
    say(line("shipped constants, fitted on all", shipped))
    say("\nheld out, all seeds together")
    say_slices(pooled)
    inside, again = spread(shipped), repeated(rows)
    say("\nafter one measurement of the same configuration (held-out constants)")
    ways: tuple[tuple[Trust, str], ...] = (
        (lambda *_: 1.0, "scaled by it"),
        (lambda *_: 0.8, "scaled by it to the power 0.8"),
        (trust, "trusted less with each doubling of the load"),
    )
    for way, how in ways:
        after = [error for seed, seen in enumerate(runs) for error in calibrated(seen, seed, way)]
        say(f"{'  ' + how:<44} {len(after):>6} {fmean(after):>7.1%} {median(after):>7.1%}")
    say("the floor: rows around the middle of their configuration")
    say(f"{'':<44} {len(inside):>6} {fmean(inside):>7.1%} {median(inside):>7.1%}")
    if again:
        say("the floor: equal rows of different source, highest over lowest less one")
        say(f"{'':<44} {len(again):>6} {fmean(again):>7.1%} {median(again):>7.1%}")
    say(line("time to first token, shipped constants", ttft(rows)))
    if bands:
        say_bands(rows, pooled)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Error of predicted speeds on published measurements.")
    parser.add_argument("measurements", nargs="*", type=Path, help="JSON lines; default: the shared measurements")
    parser.add_argument("--judge", type=Path, help="apply the shipped constants to this file; nothing is fitted")
    parser.add_argument("--models", type=Path, default=SHARED / "models", help="folders with config.json, by name")
    parser.add_argument("--json", action="store_true", help="with --judge: one JSON object")
    parser.add_argument("--bands", action="store_true", help="also the bands of tables/speed.toml (more fits)")
    parser.add_argument("--fit", action="store_true", help="only print the constants that fit all rows")
    return parser.parse_args()


def main() -> None:
    said = parse()
    if not said.judge:
        cases = read_cases(said.measurements or [SHARED / "measurements.jsonl"], said.models)
        if said.fit:
            say_constants(cases.judged)
        else:
            report(cases, said.bands)
        return
    cases = read_cases([said.judge], said.models)
    seen = judge(cases.judged)
    of = summary(seen) if seen else {"n": 0, "mean_ape": None, "median_ape": None}
    if said.json:
        say(json.dumps({**of, "n": len(seen), "not_judged": cases.not_judged}))
        return
    say(HEAD)
    if seen:
        say(line(said.judge.name, seen))
        say_slices(seen)
    say(f"not judged: {cases.not_judged or 'none'}")


if __name__ == "__main__":
    main()
