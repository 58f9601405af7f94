"""However a stream is cut into reads, the same events come out of it."""

from hypothesis import given
from hypothesis import strategies as st

from fakes.load import CHUNKED, DONE, HEAD, USAGE, chunk, event, finished
from holddown.edges.load.response import Response

_TEXTS = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="\x00\n\r\t", categories=["L", "N", "P", "Z"]))
)
_CUTS = st.lists(st.integers(1, 60), min_size=1, max_size=30)


def parts(raw: bytes, cuts: list[int]) -> list[bytes]:
    found, at, number = [], 0, 0
    while at < len(raw):
        step = cuts[number % len(cuts)]
        found.append(raw[at : at + step])
        at, number = at + step, number + 1
    return found


def taken(reads: list[bytes]) -> Response:
    response = Response()
    for number, data in enumerate(reads):
        response.take(data, float(number))
    return response


@given(texts=_TEXTS, cuts=_CUTS, together=st.integers(1, 4))
def test_any_split_gives_the_same_deltas(texts: list[str], cuts: list[int], together: int) -> None:
    """Chunks of one event or several, reads of any size: as many deltas as texts, the same end, the same usage."""
    events = [event(text) for text in texts]
    pieces = [b"".join(events[at : at + together]) for at in range(0, len(events), together)]
    pieces += [finished(), USAGE % len(texts), DONE]
    raw = CHUNKED + b"".join(map(chunk, pieces)) + b"0\r\n\r\n"
    shown = sum(1 for text in texts if text)
    for reads in (parts(raw, cuts), [CHUNKED, *map(chunk, pieces), b"0\r\n\r\n"]):
        response = taken(reads)
        assert response.over
        assert len(response.deltas) == shown
        assert response.deltas == sorted(response.deltas)
        assert response.usage is not None and response.usage.completion_tokens == len(texts)
        assert response.finished and response.done and not response.fault


@given(texts=_TEXTS, cuts=_CUTS)
def test_a_body_with_a_length_too(texts: list[str], cuts: list[int]) -> None:
    """It is over with its last byte, not before."""
    body = b"".join([*map(event, texts), finished(), USAGE % len(texts), DONE])
    raw = HEAD + b"content-length: %d\r\n\r\n" % len(body) + body
    assert not taken(parts(raw[:-1], cuts)).over
    whole = taken(parts(raw, cuts))
    assert whole.over and len(whole.deltas) == sum(1 for text in texts if text)


@given(raw=st.binary(max_size=300), cuts=_CUTS)
def test_garbage_is_a_fault_and_never_an_exception(raw: bytes, cuts: list[int]) -> None:
    """Whatever a port says that is no server."""
    for head in (b"", CHUNKED, HEAD + b"content-length: 40\r\n\r\n"):
        response = taken(parts(head + raw, cuts) if head + raw else [])
        response.end()
        assert response.over and response.verdict()
