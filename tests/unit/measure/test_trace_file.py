"""Recorded traffic, in the shapes that are published."""

import pytest

from holddown.base.errors import UsageError
from holddown.measure.trace_file import shots

MOONCAKE = '{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46]}\n' * 2
AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:48.1805900,396,109\n"
)
BURST_GPT = (
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n45,GPT-4,500,20,520,Conversation log\n"
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (MOONCAKE, [(0.0, 6955, 52), (0.0, 6955, 52)]),
        (AZURE, [(0.0, 374, 44), (1.5, 396, 109)]),
        (BURST_GPT, [(0.0, 500, 20)]),
    ],
)
def test_published_shapes(text: str, wanted: list[tuple[float, int, int]]) -> None:
    """Times count from the first request."""
    found = shots(text, "t", 0)
    assert [(pytest.approx(shot.due_s, abs=1e-4), shot.input_tokens, shot.output_tokens) for shot in found] == wanted
    assert len({shot.session for shot in found}) == len(found)


def test_it_can_be_cut() -> None:
    """To what came within the first second."""
    assert len(shots(AZURE, "t", 0, seconds=1.0)) == 1


@pytest.mark.parametrize(
    "text",
    ["", "a,b\n1,2\n", '{"timestamp": 1}\n', "{nonsense}\n", AZURE + "x,1,2\n", AZURE + "\n2023-11-16 18:16:00,0,9\n"],
)
def test_what_is_no_trace_says_which_line(text: str) -> None:
    """All faults at once, and what it should look like."""
    with pytest.raises(UsageError) as error:
        shots(text, "t", 0)
    assert error.value.seen and error.value.do
