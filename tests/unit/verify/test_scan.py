"""A log by blocks of bytes: what is passed over must not have mattered."""

from holddown.verify.scan import scan

MANY = "\n".join(
    f"(APIServer pid=1) INFO 05-04 10:00:00 [logger.py:42] Received request cmpl-{n:032x}" for n in range(500)
)


def test_the_first_lines_tell_whose_log_it_is() -> None:
    """Although nothing in them tells of a failure."""
    log = "[2026-05-04 10:00:06 TP0] Init torch distributed begin.\nRuntimeError: CUDA error: out of memory\n"
    found = scan([log.encode()]).report(None).diagnosis
    assert found is not None
    assert [name for name, _ in found.edits] == ["mem-fraction-static"]


def test_a_failure_after_many_lines_of_one_shape_is_seen() -> None:
    """Where it stands is counted in lines of the whole log."""
    found = scan([f"{MANY}\nerror: unrecognized arguments: --x\n".encode()]).report(2).diagnosis
    assert found is not None
    assert (found.id, found.lines[0].number) == ("unknown-flag", 501)


def test_a_word_between_identities_is_seen() -> None:
    """Of a line with a request's name only the name is left out when shapes are compared."""
    name = "deadbeef-dead-4ead-beef-abcdefabcdef"
    log = f"{MANY}\nrequest {name} ok\nrequest {name} RuntimeError: CUDA error: out of memory\n"
    assert scan([log.encode()]).signs == ("out-of-gpu-memory",)
