"""An index compared with headers by hashes: it must never be called right where it is not."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holddown.facts.agreement import agree, index_marks, marks_of

ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
SHARDS = {ONE: ["a.weight", "b.weight"], TWO: ["c.weight"]}


def written(placed: dict[str, str], **more: object) -> str:
    """An index as transformers writes it."""
    whole = {"metadata": {"total_size": 3}, "weight_map": placed} | more
    return json.dumps(whole, indent=2, sort_keys=True) + "\n"


def placed(shards: dict[str, list[str]]) -> dict[str, str]:
    return {name: shard for shard, names in shards.items() for name in names}


def right(text: str, shards: dict[str, list[str]]) -> bool:
    return agree(index_marks(text.encode()), [marks_of(names, shard, escaped=False) for shard, names in shards.items()])


def test_an_index_that_is_right() -> None:
    """Whatever the order of the headers."""
    assert right(written(placed(SHARDS)), SHARDS)
    assert right(written(placed(SHARDS)), {TWO: ["c.weight"], ONE: ["b.weight", "a.weight"]})


@pytest.mark.parametrize(
    "wrong",
    [
        {"a.weight": ONE, "b.weight": ONE},
        {"a.weight": ONE, "b.weight": ONE, "c.weight": ONE},
        {"a.weight": ONE, "b.weight": TWO, "c.weight": ONE},
        {"a.weight": ONE, "b.weight": ONE, "c.weight": TWO, "d.weight": TWO},
        {"a.weight": ONE, "b.weight": ONE, "d.weight": TWO},
        {},
    ],
)
def test_an_index_that_is_wrong(wrong: dict[str, str]) -> None:
    """A tensor too few, too many, in another file, or of another name."""
    assert not right(written(wrong), SHARDS)


def test_a_tensor_in_two_files() -> None:
    """A name that two headers have is never in order, even where the index has both lines."""
    both = {ONE: ["a.weight", "b.weight"], TWO: ["a.weight"]}
    lines = [f'    "a.weight": "{ONE}"', f'    "a.weight": "{TWO}"', f'    "b.weight": "{ONE}"']
    text = '{\n  "weight_map": {\n' + ",\n".join(lines) + "\n  }\n}\n"
    assert json.loads(text)
    assert not right(text, both)


def test_an_index_that_is_written_in_another_way() -> None:
    """It takes the names to tell: no answer by hashes, though it is right."""
    assert not right(json.dumps({"weight_map": placed(SHARDS)}), SHARDS)
    assert not right(written(placed(SHARDS)).replace('"weight_map"', '"map"'), SHARDS)
    assert not right(json.dumps({"x": {"weight_map": placed(SHARDS)}}, indent=1), SHARDS)
    escaped = [marks_of(names, shard, escaped=True) for shard, names in SHARDS.items()]
    assert not agree(index_marks(written(placed(SHARDS)).encode()), escaped)


names = st.text(alphabet='ab.\n"\\ ,:', min_size=0, max_size=5)


@given(
    st.dictionaries(names, st.sampled_from([ONE, TWO]), max_size=5),
    st.dictionaries(names, st.sampled_from([ONE, TWO]), max_size=5),
    st.booleans(),
)
def test_never_right_where_names_differ(index: dict[str, str], headers: dict[str, str], ascii_only: bool) -> None:
    """For any names: where hashes say that all is well, the two are equal."""
    text = json.dumps({"weight_map": index}, indent=2, sort_keys=True, ensure_ascii=ascii_only)
    raw = json.dumps(headers)
    shards = {shard: [name for name, where in headers.items() if where == shard] for shard in (ONE, TWO)}
    marks = [marks_of(found, shard, escaped="\\" in raw) for shard, found in shards.items()]
    if agree(index_marks(text.encode()), marks):
        assert index == headers
