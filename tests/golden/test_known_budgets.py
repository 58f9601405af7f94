"""Weights, cache and what is beside them per GPU, against what engines logged."""

import json
from pathlib import Path
from typing import Any

import pytest

from fakes.captured import captured_model, config_model
from holddown.base.evidence import Known
from holddown.base.units import GIB
from holddown.facts.kv_cache import BF16, FP8, CacheSplit, KvDtype, kv_bytes_per_token
from holddown.plan.memory import (
    Batch,
    Loaded,
    activation_bytes,
    graph_bytes,
    is_second_runner,
    non_torch_bytes,
    rank_weights,
)
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


_CAPTURES = Path(__file__).parents[1] / "captures"
_MEMORY = _CAPTURES / "vllm" / "0.25.1-h200" / "memory" / "measured.jsonl"
_ROWS = [json.loads(line) for line in _MEMORY.read_text(encoding="utf-8").splitlines()]


def _named(row: dict[str, Any]) -> str:
    return f"{row['model']}-tp{row['tp']}-{row['max_num_batched_tokens']}x{row['max_num_seqs']}"


@pytest.mark.parametrize("row", [row for row in _ROWS if row["kind"] == "profile"], ids=_named)
def test_the_kv_cache_is_within_two_percent_of_what_vllm_found_available(row: dict[str, Any]) -> None:
    """Dense, FP8 experts, INT4 experts with MLA, sparse MLA and MXFP4; one rank and two; small and large batches."""
    of = config_model(row["model"], _CAPTURES / "shaped_configs")
    split, batch = Parallelism(row["tp"]), Batch(row["max_num_batched_tokens"], row["max_num_seqs"])
    second = is_second_runner(of, "0.25.1") and row["env"].get("VLLM_USE_V2_MODEL_RUNNER") != "0"
    weights = sum(part.size_bytes for part in rank_weights(of, split, 0, Loaded()))
    graphs = 0 if second else graph_bytes(of, split, batch)
    beside = activation_bytes(of, split, batch, second) + graphs + non_torch_bytes(split)
    assert weights == pytest.approx(row["weights"], rel=0.01)
    assert row["requested"] - weights - beside == pytest.approx(row["available"], rel=0.02)
