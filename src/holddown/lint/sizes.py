"""How a command splits its model, and what of its options says another split."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from holddown.lint.case import Case
from holddown.lint.options import Option, is_switch
from holddown.lint.remark import Change
from holddown.plan.parallelism import Parallelism

Names: TypeAlias = tuple[str, ...]
"""Of one option, without dashes: the usual one first."""


def split_of(case: Case) -> Parallelism | None:
    """None where a size is not known here, or they contradict each other, which is said elsewhere."""
    roles = case.roles
    names = (roles.tensor_parallel, roles.pipeline_parallel, roles.data_parallel, roles.decode_context_parallel)
    tp, pp, dp, dcp = (case.count(each) for each in names)
    if not tp or not pp or not dp or not dcp or tp % dcp:
        return None
    experts = case.role(roles.expert_parallel)
    size = case.count(roles.expert_parallel)  # None of a switch: the engine divides them over all ranks
    divided = experts is not None and experts.on and size != 1
    return Parallelism(tp, pp, dp, tp * dp if divided else 1, dcp)


def resized(split: Parallelism, tp: int, dp: int, *, experts_whole: bool) -> Parallelism:
    """With other sizes; experts_whole: each expert on one rank."""
    return replace(
        split,
        tensor_parallel_size=tp,
        data_parallel_size=dp,
        expert_parallel_size=tp * dp if experts_whole else 1,
    )


def within(split: Parallelism, gpus: int) -> Parallelism:
    """On so many GPUs at most: with a part of the tensor parallel size, or else of the data parallel one; unchanged
    where neither is enough."""
    if split.world_size <= gpus:
        return split
    tp, pp, dp = split.tensor_parallel_size, split.pipeline_parallel_size, split.data_parallel_size
    ways = [(size, dp) for size in _parts(tp) if size % split.decode_context_parallel_size == 0]
    ways += [(tp, size) for size in _parts(dp)]
    found = next(((t, d) for t, d in ways if t * pp * d <= gpus), (tp, dp))
    return resized(split, *found, experts_whole=split.expert_parallel_size > 1)


def _parts(size: int) -> list[int]:
    """What divides it, the largest first."""
    return [each for each in range(size - 1, 0, -1) if size % each == 0]


def sizes(case: Case, split: Parallelism) -> dict[Names, str]:
    """Each option that says how the model is split, with its value for this split."""
    roles = case.roles
    counts = {
        roles.tensor_parallel: split.tensor_parallel_size,
        roles.pipeline_parallel: split.pipeline_parallel_size,
        roles.data_parallel: split.data_parallel_size,
        roles.decode_context_parallel: split.decode_context_parallel_size,
    }
    found = {names: str(size) for names, size in counts.items() if names}
    if roles.expert_parallel:
        found[roles.expert_parallel] = _experts(case, split.expert_parallel_size)
    return found


def _experts(case: Case, size: int) -> str:
    """A switch with some engines, a number of ranks with others."""
    found = case.options.find(f"--{case.roles.expert_parallel[0]}") if case.options else None
    if isinstance(found, Option) and is_switch(found.flag):
        return "true" if size > 1 else "false"
    return str(size)


def unlike(case: Case, before: Parallelism, after: Parallelism) -> dict[Names, str]:
    """What another split sets otherwise."""
    old = sizes(case, before)
    return {names: value for names, value in sizes(case, after).items() if old[names] != value}


def changes_of(case: Case, instead: Mapping[Names, str]) -> tuple[Change, ...]:
    return tuple(change for names, value in instead.items() for change in case.put(names, value))


def as_options(instead: Mapping[Names, str]) -> str:
    """`--tensor-parallel-size 8 without --enable-expert-parallel`."""
    words = {"true": "--{}", "false": "without --{}"}
    return " ".join(words.get(value, f"--{{}} {value}").format(names[0]) for names, value in instead.items())
