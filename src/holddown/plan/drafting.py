"""Speculative decoding with the draft (MTP) layer that a checkpoint carries: one more token is guessed at each step."""

from holddown.plan.estimate import Estimate, Speed
from holddown.tables.speed import Drafting

_ACCEPTED = 0.85
"""Of the guessed tokens. Source: DeepSeek-V3 technical report, 5.4.3: 85 to 90 % of second tokens are accepted."""


def drafted(now: Speed, doubled: Speed, table: Drafting) -> Speed:
    """Speed with one guessed token per step. doubled: with twice the sequences, as a step that checks a guess works on
    twice the tokens.

    One stream gains what was measured of it; a crowd what is left when its steps take longer, never more than that.
    """
    crowd = min(table.factor, (1 + _ACCEPTED) * now.tpot_ms.value / doubled.tpot_ms.value)
    spread = (table.low / table.factor, table.high / table.factor)
    return Speed(
        single_stream_tok_s=_times(now.single_stream_tok_s, table.factor, spread),
        throughput_tok_s=_times(now.throughput_tok_s, crowd, spread),
        tpot_ms=Estimate(
            now.tpot_ms.value / crowd, now.tpot_ms.low / crowd / spread[1], now.tpot_ms.high / crowd / spread[0]
        ),
        ttft_ms=now.ttft_ms,
        dominated_by=now.dominated_by,
    )


def _times(estimate: Estimate, factor: float, spread: tuple[float, float]) -> Estimate:
    return Estimate(estimate.value * factor, estimate.low * factor * spread[0], estimate.high * factor * spread[1])
