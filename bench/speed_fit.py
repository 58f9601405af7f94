"""Fits the constants of the speed model: robust least squares with a prior, in plain Python."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log
from random import Random

from speed_rows import Case, Predictor, measured_speed

from holddown.tables.speed import SpeedTable

# Prior value and how far a constant may be from it (standard deviation of its logarithm). Priors are guesses of before
# any fit: four fifths of a peak, 3.65 us a kernel. What may not leave its physical range (no DRAM gives more than its
# peak) has a narrow one.
PRIORS = {
    "dense_bandwidth": (0.855, 0.3),
    "expert_bandwidth": (0.88, 0.04),
    "kv_bandwidth": (0.85, 0.05),
    "compute": (0.648, 0.4),
    "kernel_us": (3.65, 0.4),
    "eager_kernel_us": (9.0, 0.7),
    "kernel_growth": (0.03, 3.0),
    "collective": (0.97, 0.4),
    "context_collective": (0.8, 0.5),
    "step_us": (150.0, 0.5),
    "sequence_us": (3.0, 1.0),
    "routing_evenness": (0.9, 0.2),
}
QUANTIZATION_PRIOR = (1.0, 0.5)
# A factor is 1 until the data say otherwise; Triton's MLA is known to be slow.
FACTOR_PRIORS = {"expert_kernels": (1.0, 0.6), "latent_compute": (0.4, 0.5)}
FACTOR_PRIOR = (1.0, 0.3)
# An error beyond this (in the logarithm) counts less and less: software that is five times slower than another must
# not move what is fitted for all. Source of the weight 1 / (1 + (e / d)^2): Cauchy's distribution.
TURN = 0.2
NOISE = 0.15
# Rows of one configuration that take part in a fit: a grid of 40 cells must not drown one published figure.
MOST_ROWS = 12
STEP, ROUNDS = 0.02, 20


@dataclass(frozen=True, slots=True)
class Parameter:
    """name: a constant, `activation_quantization`, or `factor N`."""

    name: str
    prior: float
    width: float


def parameters(table: SpeedTable) -> tuple[Parameter, ...]:
    """All that is fitted, with its prior."""
    constants = [Parameter(name, *prior) for name, prior in PRIORS.items()]
    factors = [
        Parameter(f"factor {index}", *FACTOR_PRIORS.get(factor.term, FACTOR_PRIOR))
        for index, factor in enumerate(table.factors)
    ]
    return (*constants, Parameter("activation_quantization", *QUANTIZATION_PRIOR), *factors)


def with_values(table: SpeedTable, names: Sequence[str], values: Sequence[float]) -> SpeedTable:
    """The table with the logarithms `values` of its parameters `names`."""
    said = {name: exp(value) for name, value in zip(names, values, strict=True)}
    quantization = said.pop("activation_quantization")
    factors = tuple(replace(factor, value=said.pop(f"factor {index}")) for index, factor in enumerate(table.factors))
    return replace(
        table,
        constants=replace(table.constants, **said),  # type: ignore[arg-type]
        kernels=replace(table.kernels, activation_quantization=quantization),
        factors=factors,
    )


def errors(table: SpeedTable, cases: Sequence[Case]) -> list[float]:
    """log(predicted / measured speed) of each case."""
    predictor = Predictor(table)
    return [log(predictor.speed(case) / measured_speed(case)) for case in cases]


def sample(cases: Sequence[Case], seed: int) -> list[Case]:
    """At most MOST_ROWS of each configuration."""
    order = list(cases)
    Random(seed).shuffle(order)
    counts: dict[str, int] = {}
    kept = []
    for case in order:
        counts[case.group] = counts.get(case.group, 0) + 1
        if counts[case.group] <= MOST_ROWS:
            kept.append(case)
    return kept


def fit(cases: Sequence[Case], table: SpeedTable, seed: int = 0) -> SpeedTable:
    """The table with the constants that fit these cases best: Gauss-Newton with Levenberg's damping."""
    chosen = sample(cases, seed)
    weights = _weights(chosen)
    fitted = parameters(table)
    names = [each.name for each in fitted]
    at = [log(each.prior) for each in fitted]

    def errors_at(values: Sequence[float]) -> list[float]:
        return errors(with_values(table, names, values), chosen)

    def loss(seen: Sequence[float], values: Sequence[float]) -> float:
        misfit = sum(w * 0.5 * TURN**2 * log(1 + (e / TURN) ** 2) for w, e in zip(weights, seen, strict=True))
        prior = sum(((v - log(p.prior)) / p.width) ** 2 for v, p in zip(values, fitted, strict=True))
        return misfit / NOISE**2 + 0.5 * prior

    seen = errors_at(at)
    best, damping = loss(seen, at), 1e-3
    for _ in range(ROUNDS):
        slopes = []
        for index in range(len(at)):
            moved = list(at)
            moved[index] += STEP
            slopes.append([(new - old) / STEP for new, old in zip(errors_at(moved), seen, strict=True)])
        robust = [w / (1 + (e / TURN) ** 2) / NOISE**2 for w, e in zip(weights, seen, strict=True)]
        trial = _step(at, slopes, robust, seen, fitted, damping)
        new = errors_at(trial)
        while loss(new, trial) >= best and damping < 1e4:
            damping *= 8
            trial = _step(at, slopes, robust, seen, fitted, damping)
            new = errors_at(trial)
        gain = best - loss(new, trial)
        if gain <= 0:
            break
        at, seen, best, damping = trial, new, best - gain, damping / 5
        if gain < 2e-4 * best:
            break
    return with_values(table, names, at)


def _weights(cases: Sequence[Case]) -> list[float]:
    """A configuration of n rows counts as the root of n."""
    counts: dict[str, int] = {}
    for case in cases:
        counts[case.group] = counts.get(case.group, 0) + 1
    weights = [counts[case.group] ** -0.5 for case in cases]
    mean = sum(weights) / len(weights)
    return [weight / mean for weight in weights]


def _step(
    at: Sequence[float],
    slopes: Sequence[Sequence[float]],
    weights: Sequence[float],
    seen: Sequence[float],
    fitted: Sequence[Parameter],
    damping: float,
) -> list[float]:
    size = len(at)
    matrix = [[0.0] * size for _ in range(size)]
    right = [0.0] * size
    for i in range(size):
        weighted = [w * s for w, s in zip(weights, slopes[i], strict=True)]
        right[i] = sum(w * e for w, e in zip(weighted, seen, strict=True))
        right[i] += (at[i] - log(fitted[i].prior)) / fitted[i].width ** 2
        for j in range(i, size):
            matrix[i][j] = matrix[j][i] = sum(w * s for w, s in zip(weighted, slopes[j], strict=True))
        matrix[i][i] += 1 / fitted[i].width ** 2
    for i in range(size):
        matrix[i][i] *= 1 + damping
    return [value - max(-0.7, min(0.7, move)) for value, move in zip(at, _solve(matrix, right), strict=True)]


def _solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """x of matrix x = right, for a symmetric positive matrix; by elimination."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for i in range(size):
        for j in range(i + 1, size):
            share = rows[j][i] / rows[i][i]
            rows[j] = [a - share * b for a, b in zip(rows[j], rows[i], strict=True)]
    solution = [0.0] * size
    for i in reversed(range(size)):
        known = sum(rows[i][j] * solution[j] for j in range(i + 1, size))
        solution[i] = (rows[i][size] - known) / rows[i][i]
    return solution
