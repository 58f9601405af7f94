"""The ways to split a model over some GPUs that are worth looking at."""

from collections.abc import Iterator

from holddown.plan.parallelism import Parallelism


def layouts(gpus: int, *, moe: bool, fixed: dict[str, int]) -> Iterator[Parallelism]:
    """Splits over at most `gpus`, fewest GPUs first. fixed: sizes the user named, by `Parallelism` field.

    Sizes are powers of two, or use all GPUs there are. Replicas inside one engine (data parallel) divide the experts
    of an MoE in any case, so there they come with expert parallelism. Pipeline stages, replicas and a divided KV cache
    are not combined with one another unless asked for: nothing is gained that one of them does not give.
    """
    found = [
        split
        for split in _all(gpus, moe)
        if _kept(split, fixed) and _plain(split, fixed) and (fixed or _usual(split, gpus, moe))
    ]
    yield from sorted(found, key=lambda split: (split.world_size, _order(split)))


def _all(gpus: int, moe: bool) -> Iterator[Parallelism]:
    for tp in range(1, gpus + 1):
        for pp in range(1, gpus // tp + 1):
            for dp in range(1, gpus // (tp * pp) + 1):
                for ep in {1, tp * dp} if moe else {1}:
                    for dcp in (size for size in range(1, tp + 1) if tp % size == 0):
                        yield Parallelism(tp, pp, dp, ep, dcp)


def _kept(split: Parallelism, fixed: dict[str, int]) -> bool:
    # `--set enable-expert-parallel` names no size: the engine divides experts over all ranks of a stage
    ep = fixed.get("expert_parallel_size")
    if ep is not None and (split.expert_parallel_size > 1) != (ep > 1) and split.world_size > 1:
        return False
    others = ((name, size) for name, size in fixed.items() if name != "expert_parallel_size")
    return all(getattr(split, name) == size for name, size in others)


def _plain(split: Parallelism, fixed: dict[str, int]) -> bool:
    further = {
        "pipeline_parallel_size": split.pipeline_parallel_size,
        "data_parallel_size": split.data_parallel_size,
        "decode_context_parallel_size": split.decode_context_parallel_size,
    }
    return sum(size > 1 and name not in fixed for name, size in further.items()) <= 1


def _usual(split: Parallelism, gpus: int, moe: bool) -> bool:
    size = split.world_size
    return (size == gpus or not size & (size - 1)) and (
        not moe or split.data_parallel_size == 1 or split.expert_parallel_size > 1
    )


def _order(split: Parallelism) -> tuple[int, ...]:
    """Plain tensor parallelism first, then experts, replicas, a divided cache, stages."""
    return (
        split.pipeline_parallel_size,
        split.decode_context_parallel_size,
        split.data_parallel_size,
        split.expert_parallel_size,
    )


def kind(split: Parallelism) -> tuple[bool, ...]:
    """Two splits of one kind differ in sizes only; tensor parallelism goes with every other kind."""
    return (
        split.expert_parallel_size > 1,
        split.data_parallel_size > 1,
        split.decode_context_parallel_size > 1,
        split.pipeline_parallel_size > 1,
    )
