"""The divergence of the quality guard, of any two distributions."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from holddown.verify.quality import Position, divergence

_SIZE = 12
_WEIGHTS = st.lists(st.floats(1e-6, 1.0), min_size=_SIZE, max_size=_SIZE)


def shares(weights: list[float]) -> list[float]:
    return [weight / sum(weights) for weight in weights]


def best(distribution: list[float], count: int) -> Position:
    named = sorted(((f"t{number}", share) for number, share in enumerate(distribution)), key=lambda pair: -pair[1])
    return Position("", tuple((token, math.log(share)) for token, share in named[:count]))


@settings(deadline=None)
@given(_WEIGHTS, st.integers(1, _SIZE))
def test_the_same_is_nothing_apart(weights: list[float], count: int) -> None:
    """However few candidates are named."""
    one = best(shares(weights), count)
    assert divergence(one, one) < 1e-6


@settings(deadline=None)
@given(_WEIGHTS, _WEIGHTS, st.integers(1, _SIZE))
def test_what_the_best_show_is_never_more_than_the_truth(p: list[float], q: list[float], count: int) -> None:
    """A lower bound of the divergence of the whole distributions, and never negative."""
    one, two = shares(p), shares(q)
    truth = sum(a * math.log(a / b) for a, b in zip(one, two, strict=True))
    assert 0.0 <= divergence(best(one, count), best(two, count)) <= truth + 1e-6
