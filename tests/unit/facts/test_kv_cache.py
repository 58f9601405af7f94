"""Cache bytes against figures that engines logged."""

from holddown.facts.attention import FullAttention, LinearAttention, Mla, SlidingWindow, SparseMla
from holddown.facts.kv_cache import (
    BF16,
    FP8,
    FP8_DS_MLA,
    CacheSplit,
    kv_bytes_per_sequence,
    kv_bytes_per_token,
    sequence_bytes,
)

MINIMAX = (FullAttention(62, 48, 8, 128, 128),)
KIMI = (Mla(61, 64, 512, 128, 64, 128),)
GLM_5 = (SparseMla(78, 64, 512, 192, 64, 256, 78, 32, 128, 2048),)
QWEN_3_5 = (FullAttention(15, 32, 2, 256, 256), LinearAttention(45, "gated delta net", 64, 4_300_800))
GPT_OSS = (FullAttention(18, 64, 8, 64, 64), SlidingWindow(18, 64, 8, 64, 64, 128))


def test_heads_are_divided_over_ranks() -> None:
    """MiniMax-M2.5 keeps 253,952 bytes per token on one rank and a quarter of it on each of four, as vLLM logs."""
    assert kv_bytes_per_token(MINIMAX) == 253_952
    assert kv_bytes_per_token(MINIMAX, BF16, CacheSplit(tp=4)) == 63_488
    assert kv_bytes_per_token(MINIMAX, BF16, CacheSplit(tp=8)) == 31_744


def test_heads_are_repeated_when_ranks_outnumber_them() -> None:
    """Two key-value heads on eight ranks: each keeps one whole head."""
    assert kv_bytes_per_token(QWEN_3_5, BF16, CacheSplit(tp=8)) == kv_bytes_per_token(QWEN_3_5, BF16, CacheSplit(tp=2))


def test_every_rank_keeps_the_whole_latent() -> None:
    """Kimi-K2.5 keeps 70,272 bytes per token on every rank of TP8, half in FP8; only DCP and PP divide it."""
    assert kv_bytes_per_token(KIMI, BF16, CacheSplit(tp=8)) == 70_272
    assert kv_bytes_per_token(KIMI, FP8, CacheSplit(tp=8)) == 35_136
    assert kv_bytes_per_token(KIMI, BF16, CacheSplit(tp=8, dcp=8)) == 8_784
    assert kv_bytes_per_token(KIMI, BF16, CacheSplit(pp=2)) == 31 * 576 * 2


def test_an_indexer_keeps_its_own_key() -> None:
    """GLM-5 in bf16 takes 100,152 bytes with the indexer's 132 per layer (100,164 from SGLang's log)."""
    assert kv_bytes_per_token(GLM_5) == 100_152
    assert kv_bytes_per_token(GLM_5, FP8_DS_MLA) == 78 * (656 + 132)


def test_recurrent_states_do_not_grow() -> None:
    """Qwen3.5-397B's 45 linear layers take the same for a long sequence as for a short one, divided over ranks."""
    short, long = (kv_bytes_per_sequence(QWEN_3_5, tokens) for tokens in (10, 100_000))
    assert short == long == 45 * 4_300_800
    assert kv_bytes_per_sequence(QWEN_3_5, 10, BF16, CacheSplit(tp=8)) == 45 * 4_300_800 // 8


def test_windows_fill_and_stay() -> None:
    """A window of 128 tokens holds what there is up to 128, whatever the sequence's length."""
    each = 18 * 8 * 128 * 2
    assert kv_bytes_per_sequence(GPT_OSS, 100) == 100 * each
    assert kv_bytes_per_sequence(GPT_OSS, 5000) == 128 * each
    assert sequence_bytes(GPT_OSS, 5000) == 5000 * each + 128 * each
