"""What backends answer to a query, in the engine's own words."""

from dataclasses import replace

import pytest

from holddown.facts.attention_backends import (
    AttentionBackend,
    AttentionBackends,
    AttentionQuery,
    BackendOrder,
    KvSupport,
    Refusal,
    Requirement,
    answer,
)

QUERY = AttentionQuery(
    compute_capability="9.0",
    kv_cache_dtype="auto",
    is_mla=False,
    is_sparse=False,
    head_size=128,
    heads_per_gpu=32,
    sinks=False,
    sliding_window=False,
    decode_context_parallel=False,
    fields=(("width", 64),),
)
BACKEND = AttentionBackend(
    name="FLASH",
    path="flash.py",
    is_mla=False,
    is_sparse=False,
    compute_capabilities=("8.0", "9.0"),
    kv=(KvSupport(("8.0",), ("auto",)), KvSupport(("9.0",), ("auto", "fp8"))),
    head_sizes=(64, 128),
    sinks=("9.0",),
    sliding_window=False,
    refusals=(Refusal(("9.0",), ("fp8",), True, "no fp8 with sinks"),),
    requirements=(Requirement("width", "in", (64,), "width {width} is not 64"),),
)


def test_a_backend_that_takes_it_has_no_reasons() -> None:
    """An empty list is yes."""
    assert answer(BACKEND, QUERY).reasons == ()


@pytest.mark.parametrize(
    ("change", "reasons"),
    [
        ({"head_size": 96}, ("head_size not supported",)),
        ({"kv_cache_dtype": "nvfp4"}, ("kv_cache_dtype not supported",)),
        ({"kv_cache_dtype": "fp8", "compute_capability": "8.0"}, ("kv_cache_dtype not supported",)),
        ({"is_mla": True}, ("MLA not supported",)),
        ({"is_sparse": True}, ("sparse not supported",)),
        ({"compute_capability": "12.0"}, ("compute capability not supported",)),
        ({"compute_capability": "8.0", "sinks": True}, ("attention sinks not supported",)),
        ({"sliding_window": True}, ("sliding window not supported",)),
        ({"decode_context_parallel": True}, ("DCP not supported",)),
        ({"fields": (("width", 32),)}, ("width 32 is not 64",)),
        ({"fields": ()}, ()),
        ({"kv_cache_dtype": "fp8", "sinks": True}, ("no fp8 with sinks",)),
        ({"kv_cache_dtype": "fp8"}, ()),
    ],
)
def test_each_rule_gives_its_reason(change: dict[str, object], reasons: tuple[str, ...]) -> None:
    """One reason for each rule that the query breaks, and none for what is not known."""
    assert answer(BACKEND, replace(QUERY, **change)).reasons == reasons  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("relation", "values", "fits", "not_fits"),
    [
        ("in", (1, 2), 2, 3),
        ("not in", (1, 2), 3, 1),
        ("<=", (4,), 4, 5),
        (">=", (4,), 4, 3),
        ("<", (4,), 3, 4),
        (">", (4,), 5, 4),
    ],
)
def test_requirements_compare(relation: str, values: tuple[int, ...], fits: int, not_fits: int) -> None:
    """Each relation, for a value that fits and one that does not."""
    requirement = Requirement("n", relation, values, "no")

    assert requirement.refuses({"n": fits}) == ""
    assert requirement.refuses({"n": not_fits}) == "no"


def test_a_key_that_must_exist() -> None:
    """`there` is about the key, whatever its value."""
    assert Requirement("n", "there", (), "needs n").refuses({}) == "needs n"
    assert Requirement("n", "there", (), "needs n").refuses({"n": 0}) == ""


def test_backends_are_tried_in_the_order_that_fits_the_query() -> None:
    """Conditions on heads and on the KV cache choose among orders."""
    slow = replace(BACKEND, name="SLOW")
    both = AttentionBackends(
        (BACKEND, slow),
        (
            BackendOrder(False, ("9.0",), None, True, None, ("SLOW", "FLASH")),
            BackendOrder(False, ("9.0",), None, False, None, ("FLASH", "SLOW")),
        ),
    )

    assert [each.name for each in both.answers(QUERY)] == ["FLASH", "SLOW"]
    assert [each.name for each in both.answers(replace(QUERY, heads_per_gpu=8))] == ["SLOW", "FLASH"]
    assert both.answers(replace(QUERY, compute_capability="7.0")) == ()
