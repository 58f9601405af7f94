"""Is it the same model still? What a server thinks of fixed passages, beside what a reference thought of them.

Each passage is forced: the next token is always the passage's own, so that one other choice does not make all that
follows incomparable. At each position both give the log-probabilities of their best candidates; how far the two
distributions are apart is the Kullback-Leibler divergence, and whether the best candidate is the same is top-1
agreement. docs/explanation/quality.md has the formulas, and the measurements that the limits rest on.
"""

import math
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from holddown.base.evidence import Known, Unknown
from holddown.facts.answers import Ask, Refusal, Reply, TokenLogprob
from holddown.facts.served import Subject
from holddown.verify.judge import NEAR_TIE_NATS
from holddown.verify.script import Question, ask, token_ids
from holddown.verify.verdict import Verdict
from holddown.verify.verdicts import failed, inconclusive, passed

NAME = "quality"
TOP = 20
"""Candidates per position. Source: vLLM 0.32.0 config/model.py max_logprobs, its default limit."""
DIVERGENCE_LIMIT = 0.012
"""Nats. Measured on SmolLM2-135M against float32: bfloat16 0.0016, INT8 weights 0.0017, an honest FP8 KV cache 0.0062
(at most 0.0075); K and V 5 % too small 0.015, 10 % 0.058; heads or shards of one layer of 30 in wrong order 0.035 to
4.6."""
AGREEMENT_LIMIT = 0.97
"""Measured there: at least 0.989 where honest, at most 0.962 in faults of one layer that are found."""
FP8_CACHE_LIMITS = 0.025, 0.95
"""Of an FP8 KV cache beside another dtype's. Measured, SmolLM2-135M on an H200, vLLM 0.25.1 with FlashAttention 3,
which rounds the queries to FP8, too: 0.0094 to 0.0128 where honest (at most 0.0171), agreement 0.972 to 0.978; scales
that are ten times too small 3.3 and 0.138."""
_FAR_NATS = 1.0
"""Wrong order in all layers gave 2.5 to 7.1 nats, a scale 10 % off 0.06."""
_SUSPECTS = {
    "kv-cache-dtype": "the KV cache's dtype or scale",
    "tensor-parallel-size": "how the weights are sharded",
    "speculative-config": "speculative decoding",
    "quantization": "the precision of the weights",
    "dtype": "the precision of the activations",
    "attention-backend": "the attention kernel",
    "engine": "another engine, or its version",
}
"""What may differ between two launches, the likeliest first."""
_Z = 1.96
_BLOCK = 16
_LOST_NATS = 20.0
_TINY = 1e-9
_WORST = 3

PASSAGES = (
    "The old lighthouse stood on a cliff above the harbour. Every evening at dusk the keeper climbed the stairs, "
    "cleaned the lamp and lit it, so that ships could find their way home. One winter night a storm broke the window, "
    "and the wind put out the flame. The keeper lit it again and again until morning came.",
    "def mean(values):\n    total = 0\n    for value in values:\n        total += value\n"
    "    return total / len(values)\n\n\n"
    "def variance(values):\n    middle = mean(values)\n    return mean([(value - middle) ** 2 for value in values])\n",
    "Water boils at 100 degrees Celsius at sea level. On a high mountain the pressure of the air is lower, and so "
    "water boils at a lower temperature. This is why it takes longer to cook rice or potatoes there, although the "
    "water boils.",
    "Names and numbers: Anna 41, Boris 17, Clara 93, David 58, Emma 26. Once more in the same order: Anna 41, "
    "Boris 17, Clara 93, David 58, Emma 26. And once more: Anna 41, Boris 17, Clara 93, David 58, Emma 26.",
    "Question: A train leaves at nine and travels for three hours at eighty kilometres an hour. How far does it go?\n"
    "Answer: The distance is the speed times the time, so it is 80 times 3, which is 240 kilometres.\n"
    "Question: And in five hours?\nAnswer: In five hours it goes 80 times 5, which is 400 kilometres.",
    '{"name": "station", "open": true, "lines": [{"id": 1, "colour": "red"}, {"id": 2, "colour": "blue"}], '
    '"platforms": 4, "address": {"street": "Main Street", "number": 12, "city": "Springfield"}}',
    "La maison est au bord de la mer. Le matin, les enfants vont \u00e0 l'\u00e9cole, et le soir ils jouent dans le "
    "jardin. Das Haus steht am Meer. Am Morgen gehen die Kinder in die Schule, und am Abend spielen sie im Garten.",
    "1. Wash the rice until the water runs clear.\n2. Bring two cups of water to a boil.\n3. Add the rice and a "
    "little salt.\n4. Cover the pot and cook over low heat for fifteen minutes.\n5. Take it from the heat and let it "
    "rest.",
)


Candidates = tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Position:
    """What was thought of one place of a passage. token: the passage's own, empty where the server does not say it.
    top: (candidate, log-probability), the passage's own among them where it was given."""

    token: str
    top: Candidates


Passage = tuple[Position, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """What one server thought of the passages. at: seconds since the epoch. settings: (name, value) of what may make
    it think otherwise, as far as that is known."""

    subject: Subject
    at: float
    passages: tuple[Passage, ...]
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and the bounds that hold it with 95 %."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Difference:
    """positions: compared. divergence: nats, a mean over them. agreement: of those where the reference is decided, the
    share with the same best candidate. worst: where they are furthest apart."""

    positions: int
    divergence: Interval
    agreement: Interval
    worst: tuple[str, ...]


# --- asking ---------------------------------------------------------------------------------------------------


def telling(settings: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Of a launch's settings those that may make it think otherwise."""
    return tuple((name, value) for name, value in settings if name in _SUSPECTS)


def passages(model: str) -> Generator[Question, Any, tuple[Passage, ...] | Refusal]:
    """By echo where the engine has it; else position by position, with the prompt's own tokens."""
    read: list[Passage] = []
    for text in PASSAGES:
        whole = yield from ask(Ask(model, 1, prompt=text, logprobs=TOP, echo=True))
        passage = _echoed(whole) or (yield from _step_by_step(model, text))
        if isinstance(passage, Refusal):
            return passage
        read.append(passage)
    return tuple(read)


def _echoed(reply: Reply) -> Passage:
    """Empty where the prompt did not come back."""
    if isinstance(reply, Refusal) or not isinstance(reply.usage, Known):
        return ()
    own = reply.logprobs[: len(reply.logprobs) - reply.usage.value.completion_tokens]
    if len(own) < reply.usage.value.prompt_tokens - 1:
        return ()
    return tuple(Position(each.token, _rounded(_with_own(each))) for each in own)


def _with_own(token: TokenLogprob) -> Candidates:
    named = token.token in dict(token.top)
    return token.top if named else (*token.top, (token.token, token.logprob))


def _rounded(candidates: Candidates) -> Candidates:
    """A ten-thousandth of a nat is a hundredth of the limit, and half of the file."""
    return tuple((token, round(value, 4)) for token, value in candidates)


def _step_by_step(model: str, text: str) -> Generator[Question, Any, Passage | Refusal]:
    ids: tuple[int, ...] = yield from token_ids(Ask(model, 1, prompt=text))
    if not ids:
        return Refusal(0, "the server gives no log-probabilities of a prompt, nor its tokens")
    positions = []
    for end in range(1, len(ids)):
        reply = yield from ask(Ask(model, 1, token_ids=ids[:end], logprobs=TOP))
        if isinstance(reply, Refusal):
            return reply
        if not reply.logprobs:
            return Refusal(0, "the server gives no log-probabilities")
        positions.append(Position("", _rounded(reply.logprobs[0].top)))
    return tuple(positions)


# --- judging --------------------------------------------------------------------------------------------------


def divergence(reference: Position, other: Position) -> float:
    """The least Kullback-Leibler divergence, in nats, that two lists of best candidates allow.

    Candidates that both name are compared one by one. One that only the reference names has in the other at most what
    its last candidate has, and all of these together at most what it gave to none that it names. The rest is one lump.
    """
    p, q = _probabilities(reference), _probabilities(other)
    if not p or not q:
        return _LOST_NATS
    p, q = _named(p, q), _named(q, p)
    shared = p.keys() & q.keys()
    missing = sum(p.values()) - sum(p[token] for token in shared)
    rest = max(1 - sum(p.values()), _TINY)
    left = max(1 - sum(q[token] for token in shared), 2 * _TINY)
    total = sum(p[token] * math.log(p[token] / q[token]) for token in shared)
    if missing > _TINY:
        most = min(len(p.keys() - q.keys()) * min(q.values()), 1 - sum(q.values()))
        # where the bound leaves it free, the divergence is least when both lumps are off by the same factor
        had = max(min(most, left * missing / (missing + rest)), _TINY)
        total += missing * math.log(missing / had)
        left -= had
    total += rest * math.log(rest / left)
    return min(max(total, 0.0), _LOST_NATS)


def difference(reference: Sequence[Passage], other: Sequence[Passage]) -> Difference | Unknown:
    """Why they cannot be compared, where they cannot."""
    if len(reference) != len(other):
        return Unknown(f"{len(reference)} passages there, {len(other)} here: it is of another release of holddown")
    values: list[float] = []
    agreed: list[bool] = []
    places: list[tuple[float, str]] = []
    for number, (one, two) in enumerate(zip(reference, other, strict=True)):
        if len(one) != len(two) or any(
            a.token != b.token for a, b in zip(one, two, strict=True) if a.token and b.token
        ):
            return Unknown(f"passage {number + 1} has other tokens here than there: {len(two)} and {len(one)}")
        for at, (a, b) in enumerate(zip(one, two, strict=True)):
            value = divergence(a, b)
            values.append(value)
            places.append((value, f"passage {number + 1}, token {at + 1}: {_best_text(a)} became {_best_text(b)}"))
            if _decided(a):
                agreed.append("" in (_best(a), _best(b)) or _best(a) == _best(b))
    worst = tuple(text for value, text in sorted(places, reverse=True)[:_WORST])
    return Difference(len(values), mean_interval(values), share_interval(agreed), worst)


def mean_interval(values: Sequence[float]) -> Interval:
    """By means of blocks, since neighbours are alike."""
    blocks = [fmean(values[start : start + _BLOCK]) for start in range(0, len(values) - _BLOCK + 1, _BLOCK)]
    mean = fmean(values)
    margin = _Z * stdev(blocks) / math.sqrt(len(blocks)) if len(blocks) > 1 else math.inf
    return Interval(mean, max(mean - margin, 0.0), mean + margin)


def share_interval(hits: Sequence[bool]) -> Interval:
    """Source: Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927)."""
    count = len(hits)
    if not count:
        return Interval(0.0, 0.0, 1.0)
    share, z2 = sum(hits) / count, _Z**2
    middle = (share + z2 / (2 * count)) / (1 + z2 / count)
    margin = _Z * math.sqrt(share * (1 - share) / count + z2 / (4 * count**2)) / (1 + z2 / count)
    return Interval(share, middle - margin, middle + margin)


def _probabilities(position: Position) -> dict[str, float]:
    """Empty where they are no numbers."""
    values = dict(position.top)
    if not values or not all(math.isfinite(value) for value in values.values()):
        return {}
    return {token: math.exp(min(value, 0.0)) for token, value in values.items()}


def _named(own: dict[str, float], others: dict[str, float]) -> dict[str, float]:
    """llama.cpp shows a special token as nothing: here it is called as the other server calls it."""
    special = next((token for token in others if token.startswith("<") and token not in own), "")
    return {token or special: value for token, value in own.items()}


def _best(position: Position) -> str:
    return max(position.top, key=lambda pair: pair[1], default=("", 0.0))[0]


def _best_text(position: Position) -> str:
    token, value = max(position.top, key=lambda pair: pair[1], default=("", math.nan))
    return f"{token!r} {value:.2f}"


def _decided(position: Position) -> bool:
    values = sorted((value for _, value in position.top), reverse=True)
    return len(values) > 1 and values[0] - values[1] >= NEAR_TIE_NATS


def judge(reference: Reference, own: Reference) -> Verdict:
    """PASSED or FAILED only where the bounds leave no doubt."""
    asked = f"{len(PASSAGES)} fixed passages, beside {reference.subject.name}{_of_another(reference, own)}"
    found = difference(reference.passages, own.passages)
    if isinstance(found, Unknown):
        return inconclusive(NAME, f"not comparable: {found.why}", asked)
    far, same = found.divergence, found.agreement
    most, least = _limits(reference, own)
    seen = (
        f"KL divergence {far.value:.4f} nats ({far.low:.4f} to {far.high:.4f}; limit {most}), "
        f"top-1 agreement {same.value:.1%} ({same.low:.1%} to {same.high:.1%}; limit {least:.0%}), "
        f"{found.positions} positions"
    )
    if far.high <= most and same.value >= least:
        return passed(NAME, seen, asked)
    if far.low > most or same.high < least:
        return failed(
            NAME,
            code="quality.moved",
            what="it does not think what the reference thinks: something is computed or stored otherwise",
            seen=f"{seen}; most at {'; '.join(found.worst)}",
            do="in this order: --set kv-cache-dtype=auto, --set dtype=bfloat16, --set tensor-parallel-size=1, another "
            "engine version, the checkpoint's checksums; after each: verify NAME --check quality --against WHAT",
            asked=asked,
            cause=_cause(reference, own, far),
        )
    return inconclusive(NAME, f"{seen}: too near to the limit to say", asked)


def _limits(reference: Reference, own: Reference) -> tuple[float, float]:
    """Of the divergence, and of the agreement."""
    caches = [dict(one.settings).get("kv-cache-dtype", "") for one in (reference, own)]
    fp8 = [cache.startswith("fp8") for cache in caches]
    return FP8_CACHE_LIMITS if any(fp8) and not all(fp8) else (DIVERGENCE_LIMIT, AGREEMENT_LIMIT)


def _of_another(reference: Reference, own: Reference) -> str:
    here, there = own.subject.checkpoint, reference.subject.checkpoint
    other = isinstance(here, Known) and isinstance(there, Known) and here.value != there.value
    return ", whose checkpoint is another one" if other else ""


def _cause(reference: Reference, own: Reference, far: Interval) -> str:
    """By what differs between the two launches; where nothing is known to, by how far they are apart."""
    here, there = dict(own.settings), dict(reference.settings)
    for name, suspect in _SUSPECTS.items():
        if here and there and here.get(name) != there.get(name):
            return f"{suspect}: {name} is {here.get(name, 'the default')} here, {there.get(name, 'the default')} there"
    if far.low > _FAR_NATS:
        return "weights in each other's place (wrong sharding), or a tensor that is damaged throughout"
    return "a scale (an FP8 KV cache's, a quantised weight's), damage in one layer, or lower precision"
