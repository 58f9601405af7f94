"""The quality guard: two servers' thoughts of the same passages, compared."""

import math
from dataclasses import replace

import pytest

from fakes.claims import UNTOLD
from fakes.client import FakeClient, answer
from fakes.runs import a_subject
from holddown.app.play import play
from holddown.base.evidence import Unknown, from_file, from_probe
from holddown.facts.answers import Ask, Refusal, Reply, TokenLogprob, Usage
from holddown.verify.quality import (
    PASSAGES,
    TOP,
    Difference,
    Passage,
    Position,
    Reference,
    difference,
    divergence,
    judge,
    mean_interval,
    passages,
    share_interval,
    telling,
)
from holddown.verify.verdict import Outcome


def position(token: str = " a", **shares: float) -> Position:
    return Position(token, tuple((name, math.log(share)) for name, share in shares.items()))


SURE = position(a=0.9, b=0.05, c=0.03)


def read(one: Position = SURE, places: int = 64) -> tuple[Passage, ...]:
    return tuple((one,) * places for _ in PASSAGES)


def reference(one: Position = SURE, **settings: str) -> Reference:
    return Reference(a_subject(), 1.0, read(one), tuple(settings.items()))


# --- the measure ----------------------------------------------------------------------------------------------


def test_the_divergence_of_what_both_name_is_the_formula() -> None:
    """With the rest as one lump."""
    p, q = (0.6, 0.3, 0.1), (0.5, 0.3, 0.2)
    expected = sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
    assert divergence(position(a=0.6, b=0.3), position(a=0.5, b=0.3)) == pytest.approx(expected)


def test_what_the_other_does_not_name_had_at_most_its_last() -> None:
    """`c` had 0.3 there and at most 0.01 here."""
    value = divergence(position(a=0.6, c=0.3), position(a=0.6, b=0.01))
    assert value > 0.3 * math.log(0.3 / 0.02)


def test_two_that_share_nothing_are_far_apart() -> None:
    """And not, as lumps would have it, equal."""
    assert divergence(position(a=0.9), position(b=0.9)) > 1.0


def test_what_is_no_number_is_lost() -> None:
    """NaN weights are not near to anything."""
    lost = Position(" a", ((" a", math.nan), (" b", -1.0)))
    assert divergence(SURE, lost) == divergence(lost, SURE) == 20.0


def test_a_special_token_without_a_name_is_the_others() -> None:
    """llama.cpp shows `<|im_end|>` as nothing."""
    one = Position("x", (("<|im_end|>", math.log(0.7)), (" a", math.log(0.2))))
    two = Position("x", (("", math.log(0.7)), (" a", math.log(0.2))))
    assert divergence(one, two) == pytest.approx(0.0, abs=1e-9)


def test_bounds_hold_the_value() -> None:
    """Wider where the blocks differ; Wilson's for a share, also where all agree."""
    steady, mixed = mean_interval([0.1] * 64), mean_interval([0.0] * 32 + [0.2] * 32)
    assert steady.low == pytest.approx(0.1) == pytest.approx(steady.high)
    assert mixed.low < 0.1 < mixed.high
    assert share_interval([True] * 100).low == pytest.approx(0.963, abs=1e-3)
    assert share_interval([]).low == 0.0 and share_interval([]).high == 1.0


# --- the verdict ----------------------------------------------------------------------------------------------


def test_the_same_thoughts_pass() -> None:
    """With their figures and limits."""
    verdict = judge(reference(), reference())
    assert verdict.outcome is Outcome.PASSED and "limit 0.012" in verdict.seen


def test_other_thoughts_fail_and_it_says_where() -> None:
    """The best candidate is another one everywhere."""
    verdict = judge(reference(), reference(position(a=0.05, b=0.9, c=0.03)))
    assert verdict.outcome is Outcome.FAILED
    assert "'a' -0.11 became 'b' -0.11" in verdict.findings[0].seen


def test_far_off_is_another_cause_than_near() -> None:
    """Wrong order gives nats, a wrong scale hundredths."""
    far = judge(reference(), reference(position(x=0.9, y=0.05)))
    near = judge(reference(), reference(position(a=0.8, b=0.1, c=0.03)))
    assert far.outcome is near.outcome is Outcome.FAILED
    assert "sharding" in far.cause and "scale" in near.cause


def test_what_differs_between_the_launches_is_suspected_first() -> None:
    """The KV cache before the split."""
    there = reference(**{"kv-cache-dtype": "auto", "engine": "vllm@0.19.1"})
    here = reference(position(a=0.8, b=0.1), **{"kv-cache-dtype": "fp8", "engine": "vllm@0.32.0"})
    assert judge(there, here).cause == ("the KV cache's dtype or scale: kv-cache-dtype is fp8 here, auto there")
    assert telling((("port", "8000"), ("dtype", "float32"))) == (("dtype", "float32"),)


def test_an_fp8_cache_beside_another_is_allowed_what_it_rounds() -> None:
    """What would be a fault between equal caches is honest between these, in either direction; a wrong scale is not."""
    off = position(a=0.83, b=0.1, c=0.03)
    plain, fp8 = {"kv-cache-dtype": "auto"}, {"kv-cache-dtype": "fp8_e4m3"}
    assert judge(reference(**plain), reference(off, **plain)).outcome is Outcome.FAILED
    assert judge(reference(**fp8), reference(off, **fp8)).outcome is Outcome.FAILED
    assert judge(reference(**plain), reference(off, **fp8)).outcome is Outcome.PASSED
    assert judge(reference(**fp8), reference(off)).outcome is Outcome.PASSED
    assert judge(reference(**plain), reference(position(a=0.7, b=0.2), **fp8)).outcome is Outcome.FAILED


def test_what_is_near_the_limit_is_left_open() -> None:
    """One place in eight is off: the bounds hold the limit."""
    off = position(a=0.75, b=0.2, c=0.03)
    mixed = tuple(((off,) * 16 if number == 0 else (SURE,) * 16) for number in range(len(PASSAGES)))
    verdict = judge(
        Reference(a_subject(), 1.0, tuple((SURE,) * 16 for _ in PASSAGES)), Reference(a_subject(), 1.0, mixed)
    )
    assert verdict.outcome is Outcome.INCONCLUSIVE and "too near" in verdict.seen


def test_other_tokens_are_not_compared() -> None:
    """Another tokenizer, or other passages."""
    other = replace(reference(), passages=read(replace(SURE, token="x")))
    assert judge(reference(), other).outcome is Outcome.INCONCLUSIVE
    assert isinstance(difference(read(), read(places=63)), Unknown)
    assert isinstance(difference(read(), read()[1:]), Unknown)
    unnamed = difference(read(), read(replace(SURE, token="")))
    assert isinstance(unnamed, Difference) and unnamed.agreement.value == 1.0


def test_another_checkpoint_is_said() -> None:
    """It may be another file of the same weights."""
    here = replace(reference(), subject=replace(a_subject(), checkpoint=from_file("d2", "x")))
    assert "another one" in judge(reference(), here).asked
    unknown = replace(reference(), subject=replace(a_subject(), checkpoint=UNTOLD))
    assert "another one" not in judge(reference(), unknown).asked


def test_near_ties_do_not_count_in_agreement() -> None:
    """The reference itself was as good as undecided."""
    one, two = position(a=0.46, b=0.45), position(a=0.45, b=0.46)
    found = difference(read(one), read(two))
    assert isinstance(found, Difference) and found.agreement.low == 0.0 and found.agreement.high == 1.0


# --- asking ---------------------------------------------------------------------------------------------------


def echoing(ask: Ask) -> Reply:
    """Three tokens of the prompt, of which the first has no log-probability, and one that was added."""
    said = (TokenLogprob(" b", -1.0, ((" a", -0.5),)), TokenLogprob(" c", -0.2, ((" c", -0.2),)))
    added = TokenLogprob(" d", -0.1, ((" d", -0.1),))
    return replace(answer("x", logprobs=(*said, added)), usage=from_probe(Usage(3, 1), "x"))


def test_an_echo_gives_the_prompts_own_places() -> None:
    """Its own token among the candidates, and not what was added to it."""
    client = FakeClient(echoing)
    given = play(passages("m"), client, lambda seconds: None)
    assert given == ((Position(" b", ((" a", -0.5), (" b", -1.0))), Position(" c", ((" c", -0.2),))),) * len(PASSAGES)
    assert all(ask.echo and ask.logprobs == TOP and ask.max_tokens == 1 for ask in client.asked)


def stepping(ask: Ask) -> Reply:
    if ask.echo:
        return Refusal(400, "Only no echo is allowed")
    return answer("x", logprobs=(TokenLogprob(" a", -0.1, ((" a", -0.1),)),))


def test_without_an_echo_place_by_place() -> None:
    """By the server's own tokens: what comes after the first, after the first two, ..."""
    client = FakeClient(stepping, counts=4)
    given = play(passages("m"), client, lambda seconds: None)
    assert given == ((Position("", ((" a", -0.1),)),) * 3,) * len(PASSAGES)
    assert [ask.token_ids for ask in client.asked if ask.token_ids][:3] == [(0,), (0, 1), (0, 1, 2)]


@pytest.mark.parametrize(
    "client",
    [
        FakeClient(stepping, counts=None),
        FakeClient(lambda ask: Refusal(0, "connection reset")),
        FakeClient(lambda ask: Refusal(400, "no") if ask.echo else answer("x", logprobs=())),
    ],
    ids=["no tokens", "no server", "no log-probabilities"],
)
def test_what_tells_nothing_cannot_be_compared(client: FakeClient) -> None:
    """A refusal, with why."""
    assert isinstance(play(passages("m"), client, lambda seconds: None), Refusal)
