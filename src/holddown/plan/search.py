"""Which way to run a checkpoint on some GPUs is best for a workload, and what stands against each of the others."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from holddown.base.evidence import Fact, Known
from holddown.plan.drafting import drafted
from holddown.plan.estimate import Speed
from holddown.plan.layouts import kind
from holddown.plan.limits import Limit
from holddown.plan.memory import Batch
from holddown.plan.option import Option, Terms, option
from holddown.plan.parallelism import Parallelism
from holddown.plan.plan import Alternative, Figures, Rejected

_WORTH = 1.25
"""How much faster another way must be predicted to be, to be taken over a plainer one or over half the GPUs: about what
separates two configurations of which the prediction is equally far off (docs/explanation/speed.md)."""
_ENOUGH_CONTEXT = 32768
_ALTERNATIVES = 4
_ROUNDS = 12

SpeedOf = Callable[[Option, int], Fact[Speed]]
"""(option, concurrency) -> its speed at the workload's lengths."""
LimitsOf = Callable[[Parallelism], Sequence[Limit]]
"""split -> each rule of the engine that forbids it."""


@dataclass(frozen=True, slots=True)
class Variations:
    """What may be varied within one split: shares of a GPU's memory and sizes of a batch, the usual one first."""

    shares: tuple[float, ...]
    batches: tuple[Batch, ...]


@dataclass(frozen=True, slots=True)
class Scored:
    option: Option
    speed: Fact[Speed]

    @property
    def throughput(self) -> float:
        """Tokens per second at the workload; 0 where it cannot be predicted."""
        return self.speed.value.throughput_tok_s.value if isinstance(self.speed, Known) else 0.0


@dataclass(frozen=True, slots=True)
class Found:
    best: Scored
    because: str
    alternatives: tuple[Alternative, ...]
    rejected: tuple[Rejected, ...]


def search(
    terms: Terms, splits: Sequence[Parallelism], variations: Variations, limits_of: LimitsOf, speed_of: SpeedOf
) -> Found | tuple[Rejected, ...]:
    """The best option with what speaks against the others, or what speaks against each."""
    fitting: list[Scored] = []
    rejected: list[Rejected] = []
    for split in splits:
        outcome = _try(terms, split, variations, limits_of)
        if isinstance(outcome, Rejected):
            rejected.append(outcome)
        else:
            fitting.append(Scored(outcome, speed_of(outcome, _concurrency(terms, outcome, speed_of))))
    if not fitting:
        return tuple(rejected)
    best, because = _best(terms, fitting)
    others = [each for each in fitting if each is not best]
    guessing = _with_drafts(terms, best, speed_of)
    if guessing is not None and guessing.throughput >= _WORTH * best.throughput:
        best, others = guessing, [best, *others]
    elif guessing is not None:
        others = [guessing, *others]
    return Found(
        best,
        because,
        _alternatives(terms, best, others, speed_of),
        (*rejected, *(_not_best(terms, each, best) for each in others)),
    )


def _with_drafts(terms: Terms, plain: Scored, speed_of: SpeedOf) -> Scored | None:
    """The same with a token guessed at each step; None where that cannot be, or leaves too little KV cache."""
    if terms.drafting is None or not isinstance(plain.speed, Known):
        return None
    at = plain.option
    loaded = replace(terms, loaded=replace(terms.loaded, draft=True))
    outcome = option(loaded, at.parallelism, at.share, at.batch)
    if isinstance(outcome, Rejected) or (_meets(terms, at) and not _meets(terms, outcome)):
        return None
    users = _concurrency(terms, outcome, speed_of)
    now, doubled = speed_of(outcome, users), speed_of(outcome, 2 * users)
    if not isinstance(now, Known) or not isinstance(doubled, Known):
        return None
    return Scored(outcome, Known(drafted(now.value, doubled.value, terms.drafting), now.source))


def _try(terms: Terms, split: Parallelism, variations: Variations, limits_of: LimitsOf) -> Option | Rejected:
    """The first variation that holds the wanted context and the workload; failing that, the one that holds most."""
    limits = limits_of(split)
    if limits:
        return Rejected(split.text, "; ".join(limit.what for limit in limits), limits[0].code, split)
    outcomes: list[Option] = []
    refusal: Rejected | None = None
    for batch in variations.batches:
        for share in variations.shares:
            outcome = option(terms, split, share, batch)
            if isinstance(outcome, Rejected):
                refusal = outcome
            elif _whole(terms, outcome):
                return outcome
            else:
                outcomes.append(outcome)
    if not outcomes:
        assert refusal is not None
        return refusal
    usual = variations.batches[0]
    return max(outcomes, key=lambda each: (_meets(terms, each), each.batch == usual, each.context, each.share))


def _concurrency(terms: Terms, at: Option, speed_of: SpeedOf) -> int:
    """Requests in flight: the workload's, never more than have room; all that have for a workload that names none."""
    most = at.batch.max_num_seqs * at.parallelism.data_parallel_size
    most = max(1, min(most, at.sequences or most))
    if terms.workload.rate:
        return _in_flight(terms, at, speed_of, most)
    return min(terms.workload.concurrency or most, most)


def _in_flight(terms: Terms, at: Option, speed_of: SpeedOf, most: int) -> int:
    """Of a rate: rate x time in the system (Little's law), where the time grows with what is in flight."""
    load, now = terms.workload, 1
    for _ in range(_ROUNDS):
        speed = speed_of(at, now)
        if not isinstance(speed, Known):
            return most
        seconds = (speed.value.ttft_ms.value + load.output_tokens * speed.value.tpot_ms.value) / 1000
        then = max(1, min(most, math.ceil(load.rate * seconds)))
        if then == now:
            break
        now = then
    return now


def _serves(terms: Terms, at: Option) -> bool:
    return not at.sequences or at.sequences >= max(1, terms.workload.concurrency)


def _meets(terms: Terms, at: Option) -> bool:
    """The user's context, or of the checkpoint's own as much as most requests ever need; and the workload's room."""
    asked = terms.workload.input_tokens + terms.workload.output_tokens
    wanted = terms.wanted.tokens
    enough = wanted if terms.wanted.by_user else min(wanted, max(_ENOUGH_CONTEXT, 4 * asked))
    return at.context >= enough and _serves(terms, at)


def _best(terms: Terms, fitting: Sequence[Scored]) -> tuple[Scored, str]:
    """The fastest of those that meet what is asked; more GPUs must pay for themselves.

    The whole context comes before enough of it, and stages or a divided cache only where nothing plainer will do: they
    cost speed.
    """
    fitting = [each for each in fitting if _keeps(terms, each)] or fitting
    plain = [each for each in fitting if _is_plain(each.option.parallelism)]
    for pool, meets in ((plain, _whole), (plain, _meets), (fitting, _whole), (fitting, _meets)):
        meeting = [each for each in pool if meets(terms, each.option)]
        if meeting:
            return _worth_its_gpus(terms, meeting)
    most = max(plain or fitting, key=lambda each: (each.option.context, each.option.sequences, each.throughput))
    return most, "it holds the longest context of all that fit"


def _keeps(terms: Terms, scored: Scored) -> bool:
    """Whether it is predicted to answer as fast as is wanted; one whose speed is not known is given the chance."""
    if not isinstance(scored.speed, Known):
        return True
    speed, slo = scored.speed.value, terms.workload.slo
    in_time = not slo.ttft_ms or speed.ttft_ms.value <= slo.ttft_ms
    return in_time and (not slo.tpot_ms or speed.tpot_ms.value <= slo.tpot_ms)


def _is_plain(split: Parallelism) -> bool:
    return split.pipeline_parallel_size == 1 and split.decode_context_parallel_size == 1


def _whole(terms: Terms, at: Option) -> bool:
    return at.context == terms.wanted.tokens and _serves(terms, at)


def _worth_its_gpus(terms: Terms, meeting: Sequence[Scored]) -> tuple[Scored, str]:
    counts = sorted({each.option.parallelism.world_size for each in meeting})
    leaders = [_fastest([each for each in meeting if each.option.parallelism.world_size == count]) for count in counts]
    best, because = leaders[0], f"{_among(meeting, counts[0])} that hold {_asked_text(terms)}"
    for leader in leaders[1:]:
        doublings = math.log2(leader.option.parallelism.world_size / best.option.parallelism.world_size)
        if best.throughput and leader.throughput / best.throughput >= _WORTH**doublings:
            gain = leader.throughput / best.throughput
            because = f"{gain:.1f} times the throughput of {best.option.parallelism.text} {_at(terms)}"
            best = leader
    return best, because


def _among(meeting: Sequence[Scored], count: int) -> str:
    """The fewest GPUs, or, where several ways use as few, the plainest of them."""
    as_few = sum(each.option.parallelism.world_size == count for each in meeting)
    return "the fewest GPUs" if as_few == 1 else f"the plainest of the fast ways on {count}, the fewest GPUs"


def _fastest(among: Sequence[Scored]) -> Scored:
    """The plainest of those as fast as the fastest; `among` is in the order of plainness."""
    most = max(each.throughput for each in among)
    return next(each for each in among if each.throughput * _WORTH >= most)


def _asked_text(terms: Terms) -> str:
    text = "the weights and one sequence of the whole context"
    return f"{text}, or {terms.workload.users_text}" if terms.workload.concurrency else text


def _at(terms: Terms) -> str:
    return f"at {terms.workload.users_text}"


def _not_best(terms: Terms, other: Scored, best: Scored) -> Rejected:
    split = other.option.parallelism
    code, what = _against(terms, other, best)
    return Rejected(_text(other), what, code, split, _figures(other))


def _text(scored: Scored) -> str:
    return scored.option.parallelism.text + (" + MTP" if scored.option.drafts else "")


def _against(terms: Terms, other: Scored, best: Scored) -> tuple[str, str]:
    """Code and sentence: what one that fits has less of."""
    at, split = other.option, other.option.parallelism
    if not _serves(terms, at):
        users = terms.workload.concurrency
        return "plan.sequences", f"it fits, and holds {at.sequences} of the workload's {users} sequences at once"
    if _keeps(terms, best) and not _keeps(terms, other):
        return "plan.slo", "it fits, and is predicted to answer more slowly than is wanted"
    if at.context < best.option.context and _whole(terms, best.option):
        return "plan.context", at.why_context
    if not other.throughput or not best.throughput:
        more = split.world_size - best.option.parallelism.world_size
        return "plan.gpus", f"it fits, and takes {more} more GPUs" if more > 0 else "it fits, and is less plain"
    ratio = other.throughput / best.throughput
    return "plan.throughput", f"it fits, with {ratio:.2f} times the throughput {_at(terms)}"


def _alternatives(terms: Terms, best: Scored, others: Sequence[Scored], speed_of: SpeedOf) -> tuple[Alternative, ...]:
    """The next best of each other kind, copies side by side among them."""
    offered = [
        Alternative(each.option.parallelism, 1, _figures(each), each.option.drafts)
        for each in others
        if _meets(terms, each.option)
    ]
    offered += list(_replicas(terms, [best, *others], speed_of))
    # what is predicted of pipeline stages was never compared with a run: they come last
    offered.sort(key=lambda each: (each.parallelism.pipeline_parallel_size > 1, -(each.figures.throughput_tok_s or 0)))
    kinds = {(kind(best.option.parallelism), False, best.option.drafts)}
    kept: list[Alternative] = []
    for each in offered:
        this = (kind(each.parallelism), each.replicas > 1, each.drafts)
        if this not in kinds:
            kinds.add(this)
            kept.append(each)
    return tuple(kept[:_ALTERNATIVES])


def _replicas(terms: Terms, scored: Sequence[Scored], speed_of: SpeedOf) -> Iterator[Alternative]:
    """Several servers behind one address: nothing is shared, so each takes its part of the requests."""
    for each in scored:
        if each.option.drafts:
            continue
        split = each.option.parallelism
        copies = len(terms.gpus) // split.world_size
        if copies < 2 or split.world_size != split.tensor_parallel_size or not _meets(terms, each.option):
            continue
        part = max(1, math.ceil(_concurrency(terms, each.option, speed_of) / copies))
        figures = _figures(replace(each, speed=speed_of(each.option, part)))
        total = figures.throughput_tok_s * copies if figures.throughput_tok_s else None
        yield Alternative(split, copies, replace(figures, throughput_tok_s=total))


def _figures(scored: Scored) -> Figures:
    at = scored.option
    speed = scored.speed.value if isinstance(scored.speed, Known) else None
    return Figures(
        weights_bytes=max(budget.weights_bytes for budget in at.budgets),
        context=at.context,
        kv_cache_tokens=at.kv_cache_tokens,
        single_stream_tok_s=speed.single_stream_tok_s.value if speed else None,
        throughput_tok_s=speed.throughput_tok_s.value if speed else None,
    )
