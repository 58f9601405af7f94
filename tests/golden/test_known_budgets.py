"""Weights and cache per GPU against what engines logged."""

import pytest

from fakes.captured import captured_model
from holddown.base.evidence import Known
from holddown.base.units import GIB
from holddown.facts.kv_cache import BF16, FP8, CacheSplit, KvDtype, kv_bytes_per_token
from holddown.plan.memory import Loaded, rank_weights
from holddown.plan.parallelism import Parallelism


@pytest.mark.parametrize(
    ("name", "split", "loaded", "logged_gib"),
    [
        # vLLM's "Model loading took 53.75 GiB" on 4 x RTX PRO 6000 (voipmonitor/rtx6kpro models/minimax-m25.md)
        ("minimax-m2.5", Parallelism(4), Loaded(), 53.75),
        # SGLang's "mem usage=57.06 GB", which are GiB, on 8 x RTX PRO 6000 with MTP (models/glm5.md)
        ("glm-5-nvfp4", Parallelism(8), Loaded(draft=True), 57.06),
    ],
)
def test_weights_are_within_one_percent_of_what_was_logged(
    name: str, split: Parallelism, loaded: Loaded, logged_gib: float
) -> None:
    """Replicated latents and routers, divided heads and experts, absorbed projections, the draft layer."""
    weights = sum(part.size_bytes for part in rank_weights(captured_model(name), split, 0, loaded))
    assert weights / GIB == pytest.approx(logged_gib, rel=0.01)


@pytest.mark.parametrize(
    ("name", "split", "dtype", "logged"),
    [
        # 23.62 GiB = 399,424 tokens at TP4: 63,496 with what a block rounds away
        ("minimax-m2.5", CacheSplit(tp=4), BF16, 63_488),
        ("kimi-k2.5", CacheSplit(tp=8), BF16, 70_272),
        ("kimi-k2.5", CacheSplit(tp=8, dcp=8), FP8, 4_392),
        # 29.32 GiB of bf16 KV at TP8 with the indexer's keys: 100,164 by SGLang's log
        ("glm-5-nvfp4", CacheSplit(tp=8), BF16, 100_152),
        ("glm-5.2", CacheSplit(tp=8), BF16, 78 * 1152 + 21 * 132),
    ],
)
def test_cache_bytes_per_token_are_exact(name: str, split: CacheSplit, dtype: KvDtype, logged: int) -> None:
    """As the engine's own formula gives it."""
    attention = captured_model(name).attention
    assert isinstance(attention, Known)
    assert kv_bytes_per_token(attention.value, dtype, split) == logged
