"""A log that was cut, doubled, mixed with another's or written through by others has its own diagnosis or none."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.failing_logs import CAPTURES, FailingLog, failing_logs
from holddown.verify.diagnose import Diagnosis
from holddown.verify.scan import scan

LOGS = st.sampled_from(failing_logs())
_READY = {
    "vllm": "vllm/0.32.0-cpu/ready-smollm2-compiled-excerpt.log",
    "sglang": "composed/ready-sglang.log",
    "llamacpp": "llamacpp/b11434-cpu/ready-default-verbosity.log",
}
HEALTHY = {
    engine: (CAPTURES / path).read_text(encoding="utf-8").partition("[shutdown]")[0].splitlines()[:-1]
    for engine, path in _READY.items()
}
DOCKER = "docker's file of JSON"
# as a container's runtime, journald and compose put before each line
RUNTIMES = (
    "",
    "2026-05-04T10:00:00.123456789Z ",
    "2026-05-04T10:00:00.123456789Z stderr F ",
    "2026-05-04T10:00:00+0000 ",
    "May 04 10:00:00 gpu1 vllm[4101]: ",
    "serve-1  | ",
    "[pod/serve-0/engine] ",
    DOCKER,
)
BAR = "Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:11<00:11,  5.31s/it]"
MANY = settings(max_examples=300, deadline=None)


def wrapped(runtime: str, line: str) -> str:
    if runtime == DOCKER:
        return json.dumps(
            {"log": f"{line}\n", "stream": "stderr", "time": "2026-05-04T10:00:00.1Z"}, separators=(",", ":")
        )
    return f"{runtime}{line}"


def diagnosis(data: bytes) -> Diagnosis | None:
    return scan([data]).report(None).diagnosis


def is_right(log: FailingLog, found: Diagnosis | None) -> bool:
    """Its own, one that it declares beside it, or none. An end that it tells of is its own where no sign is."""
    return found is None or found.id in {log.diagnosis, *log.signs} or (not log.signs and found.id == "told-to-stop")


def of_engine(log: FailingLog) -> str:
    """Whose healthy log may come in between."""
    marks = {"sglang": ("[2026-", "sglang"), "llamacpp": ("srv ", "llama_")}
    return next((engine for engine, words in marks.items() if any(word in log.log for word in words)), "vllm")


@MANY
@given(LOGS, st.data())
def test_the_begin_of_a_log_says_nothing_else(log: FailingLog, data: st.DataObject) -> None:
    """The end of it is not written yet, or was not copied."""
    raw = log.log.encode()
    assert is_right(log, diagnosis(raw[: data.draw(st.integers(0, len(raw)))]))


@MANY
@given(LOGS, st.data())
def test_the_end_of_a_log_says_nothing_else(log: FailingLog, data: st.DataObject) -> None:
    """The begin of it was rotated away: what is left may be consequences only."""
    lines = log.lines
    assert is_right(log, diagnosis("\n".join(lines[data.draw(st.integers(0, len(lines))) :]).encode()))


@MANY
@given(LOGS, st.data())
def test_lines_said_twice_change_nothing(log: FailingLog, data: st.DataObject) -> None:
    """By a logger and by the interpreter, or by each of several ranks."""
    twice = [line for line in log.lines for _ in range(data.draw(st.integers(1, 3)))]
    assert is_right(log, diagnosis("\n".join(twice).encode()))


@MANY
@given(LOGS, st.data())
def test_another_engine_in_between_changes_nothing(log: FailingLog, data: st.DataObject) -> None:
    """Of two deployments in one journal one failed."""
    other = list(HEALTHY[of_engine(log)])
    mixed: list[str] = []
    for line in log.lines:
        count = data.draw(st.integers(0, 3))
        mixed += [*other[:count], line]
        del other[:count]
    assert is_right(log, diagnosis("\n".join([*mixed, *other[: data.draw(st.integers(0, 20))]]).encode()))


@MANY
@given(LOGS, st.sampled_from(RUNTIMES), st.data())
def test_what_others_write_around_a_line_changes_nothing(log: FailingLog, runtime: str, data: st.DataObject) -> None:
    """A container's runtime, colours, and progress bars that share the line."""
    noisy = []
    for line in log.lines:
        before, after = data.draw(st.sampled_from((("", ""), ("\x1b[1;36m", "\x1b[0m"), (f"{BAR}\r", ""), ("", "\r"))))
        noisy.append(wrapped(runtime, f"{before}{line}{after}"))
    assert is_right(log, diagnosis("\n".join(noisy).encode()))


@MANY
@given(LOGS, st.sampled_from(RUNTIMES))
def test_a_runtime_s_prefix_hides_nothing(log: FailingLog, runtime: str) -> None:
    """`docker logs -t` and `journalctl` show the same failures as the file."""
    assert scan(f"{wrapped(runtime, line)}\n".encode() for line in log.lines).signs == log.signs


@MANY
@given(st.lists(st.one_of(st.binary(max_size=200), LOGS.map(lambda log: log.log.encode()[:400])), max_size=6))
def test_any_bytes_are_read(blocks: list[bytes]) -> None:
    """No log ends the one who reads it."""
    assert scan(blocks).report(1) is not None
