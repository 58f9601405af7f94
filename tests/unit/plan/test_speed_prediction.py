"""From steps to what a user sees: one stream, many, and the wait for the first token."""

import pytest

from fakes.speed import GPU, heads, round_rig, table, work
from holddown.facts.kv_cache import BF16
from holddown.facts.workload import Workload
from holddown.plan.parallelism import Parallelism
from holddown.plan.rig import rig
from holddown.plan.speed import closed_loop, predict, prefill

ONE, TWO = Parallelism(), Parallelism(2)
SHORT = Workload("short", 1, 100, 1)
LONG = Workload("long", 2000, 100, 1)


def test_one_stream_is_one_step_per_token() -> None:
    """10 ms a step: 100 tokens per second, with the band of one GPU."""
    speed = predict(work(), rig(GPU, None, "vllm", table()), ONE, BF16, SHORT, 1)

    assert speed.single_stream_tok_s.value == pytest.approx(100)
    assert (speed.single_stream_tok_s.low, speed.single_stream_tok_s.high) == pytest.approx((90, 110))
    assert speed.tpot_ms.value == pytest.approx(10)
    assert (speed.tpot_ms.low, speed.tpot_ms.high) == pytest.approx((10 / 1.1, 10 / 0.9))


def test_the_band_is_of_the_fabric_and_wide_where_nothing_was_measured() -> None:
    """NVLink has its own; an engine that was not measured has the widest."""
    on_nvlink = predict(work(), round_rig(), TWO, BF16, SHORT, 1).single_stream_tok_s
    other = predict(work(), round_rig(engine="other"), TWO, BF16, SHORT, 1).single_stream_tok_s

    assert on_nvlink.high / on_nvlink.value == pytest.approx(1.25)
    assert other.high / other.value == pytest.approx(2.0)


def test_many_users_have_a_band_of_their_own() -> None:
    """One stream of the same deployment keeps that of few."""
    speed = predict(work(), rig(GPU, None, "vllm", table()), ONE, BF16, LONG, 5)

    assert speed.single_stream_tok_s.high / speed.single_stream_tok_s.value == pytest.approx(1.1)
    assert speed.throughput_tok_s.high / speed.throughput_tok_s.value == pytest.approx(2.5)
    assert speed.tpot_ms.value / speed.tpot_ms.low == pytest.approx(2.5)


def test_what_dominates_is_named_first_and_all_shares_make_the_step() -> None:
    """10 ms of weights beside 12 us of cache."""
    speed = predict(work(attention=(heads(),)), round_rig(), ONE, BF16, LONG, 1)

    assert speed.dominated_by[0].name == "dense_weights"
    assert sum(share.fraction for share in speed.dominated_by) == pytest.approx(1)


def test_prompts_of_others_come_between_the_tokens_of_one() -> None:
    """2000 tokens in two chunks take 200 ms alone, of which a decode step's weights, 10 ms each, are shared."""
    at = round_rig()
    alone = closed_loop(work(), at, ONE, BF16, LONG, 1)
    eleven = closed_loop(work(), at, ONE, BF16, LONG, 11)

    assert prefill(work(), at, ONE, 2000) == pytest.approx(0.2)
    assert alone.tpot_s == pytest.approx(0.01)
    assert eleven.tpot_s == pytest.approx(0.01 + 10 / 100 * 0.18)
    assert eleven.requests_per_s == pytest.approx(11 / (100 * 0.01 + 11 * 0.18))


def test_requests_without_room_in_the_cache_wait() -> None:
    """A cache of 4 x 2050 tokens lets four of eight run: the rest wait for a place, and nothing gets faster."""
    at, model = round_rig(), work(attention=(heads(),))
    full = closed_loop(model, at, ONE, BF16, LONG, 8, kv_cache_tokens=4 * 2050)
    four = closed_loop(model, at, ONE, BF16, LONG, 4)

    assert full.running == 4
    assert full.tpot_s == pytest.approx(four.tpot_s)
    assert full.requests_per_s == pytest.approx(four.requests_per_s)
    waiting = (
        predict(model, at, ONE, BF16, LONG, 8, 4 * 2050).ttft_ms.value
        - predict(model, at, ONE, BF16, LONG, 4).ttft_ms.value
    )
    assert waiting == pytest.approx(1e3 * 4 / four.requests_per_s)


def test_replicas_divide_the_requests() -> None:
    """Two replicas with four requests each have twice the throughput of one with four."""
    at = round_rig()
    one = closed_loop(work(), at, ONE, BF16, LONG, 4)
    two = closed_loop(work(), at, Parallelism(data_parallel_size=2), BF16, LONG, 8)

    assert two.requests_per_s == pytest.approx(2 * one.requests_per_s)
