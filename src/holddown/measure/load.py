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
# about 60 tokens in any tokenizer of English
_PASSAGE = (
    "The harbour lies at the mouth of a long river. Every morning the fishing boats come home before the market "
    "opens, and the gulls follow them over the grey water. Old men sit on the wall and talk about the weather, the "
    "price of fish, and the ships that they knew when they were young. One of them says that"
)


@dataclass(frozen=True, slots=True)
class Load:
    """Requests of one phase. output_tokens: what each of them runs to."""

    asks: tuple[Ask, ...]
    output_tokens: int


def _ask(model: str, number: int, output_tokens: int) -> Ask:
    # the number comes first: with any common beginning the prefix cache would answer for the prefill
    return Ask(model=model, prompt=f"{number}. {_PASSAGE}", max_tokens=output_tokens, ignore_eos=True)


def warm_up(model: str) -> Ask:
    """A short request, so that lazy compilation and first allocations are not measured."""
    return _ask(model, 1, WARM_UP_TOKENS)


def single_load(model: str, warm: Reply, budget_s: float) -> Load | None:
    """Requests to ask one after the other: at least 3, of 16 to 128 tokens, in two fifths of the budget where that can
    be kept. None when the warm-up failed and says nothing."""
    good = sound([warm])
    if not good:
        return None
    one = good[0]
    pauses_ms = itls_ms(one)
    first_s = ttft_ms(one) / 1000
    token_s = sum(pauses_ms) / len(pauses_ms) / 1000 if pauses_ms else e2e_ms(one) / 1000 / one.completion_tokens
    budget = budget_s * _SINGLE_SHARE
    tokens = (budget / _FEWEST_SINGLE - first_s) / token_s if token_s > 0 else _LONGEST
    output_tokens = _clamp(int(tokens), _SHORTEST, _LONGEST)
    request_s = first_s + output_tokens * token_s
    count = _clamp(int(budget / request_s), _FEWEST_SINGLE, _MOST_SINGLE) if request_s > 0 else _MOST_SINGLE
    return Load(tuple(_ask(model, 100 + i, output_tokens) for i in range(count)), output_tokens)


def crowd_load(model: str, output_tokens: int) -> Load:
    """The first batch at full concurrency; how fast it is decides how many more fit."""
    return Load(tuple(_ask(model, 200 + i, output_tokens) for i in range(CONCURRENCY)), output_tokens)


def more_crowd_load(model: str, output_tokens: int, batch: Sequence[Reply], left_s: float) -> Load:
    """As many further batches as fit into the time that is left; none when the first failed or took it all."""
    batch_s = busy_seconds(batch)
    # failed at once: more of the same shows nothing
    batches = _clamp(int(left_s / batch_s), 0, _MOST_BATCHES) if batch_s > 0 else 0
    return Load(tuple(_ask(model, 300 + i, output_tokens) for i in range(batches * CONCURRENCY)), output_tokens)


def _clamp(value: int, least: int, most: int) -> int:
    return max(least, min(value, most))
