"""What a KV cache of some size holds: tokens, sequences, and how long a context."""

import math
from dataclasses import dataclass

from holddown.base.evidence import Fact, Known, Unknown, derived, known_or
from holddown.base.units import size_text
from holddown.facts.attention import Attention
from holddown.facts.kv_cache import CacheSplit, KvDtype, kv_bytes_per_token, sequence_bytes
from holddown.facts.model import ModelFacts
from holddown.plan.parallelism import Parallelism
from holddown.plan.wishes import Wishes, wished_number

SHORTEST_CONTEXT = 1024
"""Tokens. A deployment with less answers hardly any request; it is not offered."""
_BLOCK_TOKENS = 128
"""What a KV cache is counted in. Source: vLLM's CPU backend; GPU backends have smaller blocks."""


@dataclass(frozen=True, slots=True)
class Cache:
    """The KV cache of one rank. dtype: as it is kept. kinds: None where the attention is not understood."""

    kinds: tuple[Attention, ...] | None
    why_unknown: str
    dtype: KvDtype
    split: CacheSplit

    @property
    def bytes_per_token(self) -> Fact[int]:
        if self.kinds is None:
            return Unknown(self.why_unknown)
        return derived(kv_bytes_per_token(self.kinds, self.dtype, self.split), f"its attention in {self.dtype.name}")

    def sequence_bytes(self, tokens: int) -> int:
        """All that one sequence of `tokens` takes; 0 where that is not known."""
        return 0 if self.kinds is None else sequence_bytes(self.kinds, tokens, self.dtype, self.split)

    def tokens(self, pool_bytes: int, sequence_tokens: int) -> int:
        """How many tokens a pool holds in sequences of that length; 0 where it is not known."""
        if self.kinds is None or not sequence_tokens:
            return 0
        return max(0, int(pool_bytes / self.sequence_bytes(sequence_tokens) * sequence_tokens))

    def sequences(self, pool_bytes: int, tokens: int) -> int:
        """How many whole sequences of `tokens` a pool holds; 0 where it is not known."""
        each = self.sequence_bytes(tokens)
        return max(0, pool_bytes // each) if each else 0


def cache_of(model: ModelFacts, dtype: KvDtype, split: Parallelism) -> Cache:
    kinds = model.attention
    return Cache(
        kinds.value if isinstance(kinds, Known) else None,
        "" if isinstance(kinds, Known) else f"the shape of its attention is not known: {kinds.why}",
        dtype,
        CacheSplit(split.tensor_parallel_size, split.decode_context_parallel_size, split.pipeline_parallel_size),
    )


@dataclass(frozen=True, slots=True)
class Wanted:
    """tokens: of context, 0 where nobody says how many. whose: for a person."""

    tokens: int
    whose: str
    by_user: bool


def wanted_context(model: ModelFacts, wishes: Wishes) -> Wanted:
    """The user's, or else the checkpoint's own."""
    wished, limit = wished_number(wishes, "max-model-len"), model.max_position_embeddings
    if wished:
        return Wanted(wished, "yours (--set max-model-len)", by_user=True)
    whose = f"the checkpoint's own ({limit.source.where if isinstance(limit, Known) else limit.why})"
    return Wanted(known_or(limit, 0), whose, by_user=False)


def context_in(cache: Cache, pool_bytes: int, wanted: Wanted) -> tuple[int, str]:
    """How long a context the pool holds, `wanted` at most, and why that."""
    if not wanted.tokens or cache.kinds is None:
        return wanted.tokens, f"{wanted.whose}; how many tokens fit is not known"
    needed = cache.sequence_bytes(wanted.tokens)
    if pool_bytes >= needed:
        return wanted.tokens, f"{wanted.whose}; {pool_bytes / needed:.1f} sequences of it fit the KV cache"
    per_token = known_or(cache.bytes_per_token, 0)
    # what windows and states take at the full length is an upper bound of what they take at a shorter one
    fits = (pool_bytes - (needed - per_token * wanted.tokens)) / per_token if per_token else 0
    step = SHORTEST_CONTEXT if fits >= SHORTEST_CONTEXT else _BLOCK_TOKENS
    lowered = max(0, math.floor(fits / step) * step)
    there = f"{size_text(pool_bytes)} are there"
    why = f"{wanted.tokens} tokens, {wanted.whose}, need {size_text(needed)} of KV cache, {there}"
    return lowered, why
