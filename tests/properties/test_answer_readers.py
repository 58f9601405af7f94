"""Whatever JSON an endpoint sends, the readers give an answer or say that it is none."""

import json
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from holddown.edges.client.reading import NotAnAnswer, StreamParts, counted, object_of, token_ids, whole_answer
from holddown.facts.answers import Answer

_NAMES = st.sampled_from(
    ["choices", "message", "delta", "content", "text", "tool_calls", "function", "name", "arguments", "index", "id"]
    + ["usage", "prompt_tokens", "completion_tokens", "prompt_tokens_details", "cached_tokens", "logprobs", "tokens"]
    + ["top_logprobs", "token_logprobs", "logprob", "token", "reasoning", "finish_reason", "error", "code"]
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_NAMES, inner, max_size=5),
    max_leaves=10,
)


@settings(deadline=None)
@given(st.dictionaries(_NAMES, _VALUES, max_size=4))
def test_any_object_is_read(data: dict[str, object]) -> None:
    """Whole, as one event of a stream, and as tokens."""
    with suppress(NotAnAnswer):
        assert isinstance(whole_answer(data, 0.0, 1.0), Answer)
    with suppress(NotAnAnswer):
        parts = StreamParts(0.0)
        parts.take(data, 1.0)
        parts.take(data, 2.0)
        assert isinstance(parts.answer(3.0), Answer)
    assert all(isinstance(each, int) for each in token_ids(data))
    assert counted(data) is None or isinstance(counted(data), int)


@settings(deadline=None)
@given(_VALUES)
def test_any_text_of_json_is_an_object_or_none(value: object) -> None:
    """An error report is none either."""
    with suppress(NotAnAnswer):
        assert "error" not in {name for name, held in object_of(json.dumps(value)).items() if held}


@settings(deadline=None)
@given(st.lists(st.lists(st.text(max_size=6), max_size=4), max_size=4))
def test_deltas_of_calls_make_the_calls(calls: list[list[str]]) -> None:
    """However they are cut, and in turns."""
    parts = StreamParts(0.0)
    for index, pieces in enumerate(calls):
        parts.take(_delta(index, {"name": f"tool{index}"}), 1.0)
        for piece in pieces:
            parts.take(_delta(index, {"arguments": piece}), 1.0)
    parts.done = True
    made = parts.answer(2.0).tool_calls
    assert [(call.name, call.arguments) for call in made] == [
        (f"tool{index}", "".join(pieces)) for index, pieces in enumerate(calls)
    ]


def _delta(index: int, function: dict[str, str]) -> dict[str, object]:
    return {"choices": [{"delta": {"tool_calls": [{"index": index, "function": function}]}}]}
