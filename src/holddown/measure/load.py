"""How much load a short measurement puts on: sizes chosen from how fast the warm-up was."""

from collections.abc import Sequence
from dataclasses import dataclass

from holddown.facts.answers import Ask, Reply
from holddown.measure.metrics import busy_seconds, e2e_ms, itls_ms, sound, ttft_ms

CONCURRENCY = 8
WARM_UP_TOKENS = 8
_SHORTEST, _LONGEST = 16, 128
_FEWEST_SINGLE, _MOST_SINGLE = 3, 20
_MOST_BATCHES = 12
_SINGLE_SHARE = 0.4
_PREFILL_SHARE = 0.2
# a step for eight takes up to four times one for one where compute binds (66 and 272 ms, SmolLM2 on two CPU cores)
_CROWDED_STEP = 4
_SENTENCES = (
    "The harbour lies at the mouth of a long river.",
    "Every morning the fishing boats come home before the market opens.",
    "The gulls follow them over the grey water and cry for their share.",
    "Old men sit on the wall and talk about the weather and the price of fish.",
    "One of them remembers the great ships that he knew when he was young.",
)
"""About 13 tokens each in any tokenizer of English."""


@dataclass(frozen=True, slots=True)
class Load:
    """Requests of one phase. sentences: how long a prompt. output_tokens: what each answer runs to."""

    asks: tuple[Ask, ...]
    sentences: int
    output_tokens: int


def _load(model: str, first_number: int, count: int, sentences: int, output_tokens: int) -> Load:
    # the number comes first: with any common beginning the prefix cache would answer for the prefill
    passage = " ".join(_SENTENCES[:sentences])
    asks = tuple(
        Ask(model=model, prompt=f"{first_number + i}. {passage}", max_tokens=output_tokens, ignore_eos=True)
        for i in range(count)
    )
    return Load(asks, sentences, output_tokens)


def warm_up(model: str) -> Ask:
    """A short request, so that lazy compilation and first allocations are not measured; it tells how fast it goes."""
    return _load(model, 1, 1, 1, WARM_UP_TOKENS).asks[0]


def single_load(model: str, warm: Reply, budget_s: float) -> Load | None:
    """Requests to ask one after the other: at least 3, of 16 to 128 tokens, in two fifths of the budget where that can
    be kept. None when the warm-up failed and says nothing."""
    good = sound([warm])
    if not good:
        return None
    one = good[0]
    pauses_ms = itls_ms(one)
    token_s = sum(pauses_ms) / len(pauses_ms) / 1000 if pauses_ms else e2e_ms(one) / 1000 / one.completion_tokens
    first_s = ttft_ms(one) / 1000
    # a CPU takes 25 ms per prompt token, so eight prompts of 70 tokens alone would take the whole budget
    fitting = int(budget_s * _PREFILL_SHARE / (CONCURRENCY * first_s)) if first_s > 0 else len(_SENTENCES)
    sentences = _clamp(fitting, 1, len(_SENTENCES))
    first_s *= sentences
    budget = budget_s * _SINGLE_SHARE
    alone_s = budget / _FEWEST_SINGLE - first_s
    crowded_s = (budget_s - budget - CONCURRENCY * first_s) / _CROWDED_STEP
    output_tokens = _clamp(int(min(alone_s, crowded_s) / token_s) if token_s > 0 else _LONGEST, _SHORTEST, _LONGEST)
    request_s = first_s + output_tokens * token_s
    count = _clamp(int(budget / request_s), _FEWEST_SINGLE, _MOST_SINGLE) if request_s > 0 else _MOST_SINGLE
    return _load(model, 100, count, sentences, output_tokens)


def crowd_load(model: str, single: Load) -> Load:
    """The first batch at full concurrency, of the same size; how fast it is decides how many more fit."""
    return _load(model, 200, CONCURRENCY, single.sentences, single.output_tokens)


def more_crowd_load(model: str, first: Load, replies: Sequence[Reply], left_s: float) -> Load:
    """As many further batches as fit into the time that is left; none when the first failed or took it all."""
    batch_s = busy_seconds(replies)
    # failed at once: more of the same shows nothing
    batches = _clamp(int(left_s / batch_s), 0, _MOST_BATCHES) if batch_s > 0 else 0
    return _load(model, 300, batches * CONCURRENCY, first.sentences, first.output_tokens)


def _clamp(value: int, least: int, most: int) -> int:
    return max(least, min(value, most))
