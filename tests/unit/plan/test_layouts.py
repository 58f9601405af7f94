"""Which splits are looked at."""

from holddown.plan.layouts import kind, layouts
from holddown.plan.parallelism import Parallelism


def _texts(gpus: int, *, moe: bool = False, **fixed: int) -> list[str]:
    return [split.text for split in layouts(gpus, moe=moe, fixed=fixed)]


def test_a_dense_model_on_two_gpus() -> None:
    """Tensor parallel, replicas, a divided cache and stages; the single GPU first."""
    assert _texts(2) == ["TP1", "TP2", "TP1 x DP2", "TP2 + DCP2", "TP1 x PP2"]


def test_experts_are_divided_only_where_there_are_some() -> None:
    """Expert parallelism comes with an MoE."""
    assert "TP2 + EP" in _texts(2, moe=True)
    assert not any("EP" in text for text in _texts(8))


def test_none_takes_more_than_there_is() -> None:
    """No split needs more GPUs than were given, and none comes twice."""
    found = list(layouts(8, moe=True, fixed={}))
    assert max(split.world_size for split in found) == 8
    assert len(set(found)) == len(found)


def test_what_the_user_fixed_stays() -> None:
    """A named size is the only one, and frees combinations that are not looked at otherwise."""
    assert _texts(8, tensor_parallel_size=4, pipeline_parallel_size=2, decode_context_parallel_size=2) == [
        "TP4 x PP2 + DCP2"
    ]
    assert all("EP" in text for text in _texts(8, moe=True, tensor_parallel_size=8, expert_parallel_size=8))


def test_kinds_differ_by_what_is_used_and_not_by_size() -> None:
    """TP4 and TP8 are of one kind, TP8 with experts divided is of another."""
    assert kind(Parallelism(4)) == kind(Parallelism(8)) != kind(Parallelism(8, 1, 1, 8))
