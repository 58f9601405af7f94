"""What is said of options one by one."""

import pytest

from fakes.lint import codes, judge, judge_recorded
from holddown.lint.life import life_text


@pytest.mark.parametrize(
    ("options", "code", "line"),
    [
        ("--max-model-lenn 8k", "flag.unknown", "vllm serve m --max-model-len 8k"),
        ("--no-such-thing 3", "flag.unknown", "vllm serve m"),
        ("--max 8", "flag.ambiguous", "vllm serve m --max 8"),
        ("--max-num-seqs", "flag.value-missing", "vllm serve m"),
        ("--max-num-seqs many", "flag.value", "vllm serve m"),
        ("--max-model-len 8x", "flag.value", "vllm serve m"),
        ("--gpu-memory-utilization much", "flag.value", "vllm serve m"),
        ("--speculative-config {a", "flag.value", "vllm serve m"),
        ("--enforce-eager=true", "flag.value", "vllm serve m --enforce-eager"),
        ("--enforce-eager=false", "flag.value", "vllm serve m --no-enforce-eager"),
        ("--trust-remote-code=false", "flag.value", "vllm serve m"),
        ("--dtype bf16", "flag.choice", "vllm serve m --dtype bfloat16"),
        ("--gpu-memory-utilization 1.2", "flag.range", "vllm serve m"),
        ("-tp 0", "flag.range", "vllm serve m"),
        ("--dtype half stray", "flag.stray", "vllm serve m --dtype half"),
    ],
)
def test_what_would_not_start_blocks_and_is_corrected(options: str, code: str, line: str) -> None:
    """Each fault of an option has its own code, and the command without it."""
    found = judge(f"vllm serve m {options}")

    assert codes(found).get(code) == "block"
    assert not found.starts
    assert found.corrected.line == line


@pytest.mark.parametrize(
    ("options", "code", "severity", "line"),
    [
        ("--max-num-seqs 256", "flag.default", "note", "vllm serve m --max-num-seqs 256"),
        ("--gpu-memory-utilization 0.90", "flag.default", "note", "vllm serve m --gpu-memory-utilization 0.90"),
        ("--max-num-s 9", "flag.abbreviated", "note", "vllm serve m --max-num-s 9"),
        ("--max-num-seqs 9 --max_num_seqs 9", "flag.twice", "note", "vllm serve m --max_num_seqs 9"),
        ("--max-num-seqs 8 --max-num-seqs 9", "flag.twice", "warn", "vllm serve m --max-num-seqs 9"),
        ("--old-way x", "flag.deprecated", "warn", "vllm serve m --old-way x"),
    ],
)
def test_what_starts_and_is_not_as_it_seems_is_said(options: str, code: str, severity: str, line: str) -> None:
    """Defaults, abbreviations, repetitions and deprecations forbid nothing."""
    found = judge(f"vllm serve m {options}")

    assert codes(found).get(code) == severity
    assert found.starts
    assert found.corrected.line == line


def test_a_json_is_replaced_whole_by_dotted_keys() -> None:
    """vLLM puts what dots make at the end, so the JSON beside them is lost."""
    found = judge("vllm serve m --attention-config '{\"a\": 1}' --attention-config.b 2")

    assert codes(found)["flag.overwritten"] == "block"


def test_a_right_command_is_left_as_it_is() -> None:
    """Nothing said, nothing changed: the words are the user's own, quotes and all."""
    text = "vllm serve m --max-model-len 8k --served-model-name a 'b c' -tp 2"
    found = judge(text)

    assert codes(found) == {}
    assert (found.corrected.line, found.corrected.changed) == (text, False)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (
            "--disable-log-requests",
            "deprecated and needless in 0.11.0 and 0.16.0; unknown in 0.19.1, 0.25.1 and 0.32.0; "
            "accepted again in 0.33.0",
        ),
        ("--swap-space", "needless in 0.11.0 and 0.16.0; gone since 0.19.1"),
        ("--attention-backend", "new in 0.16.0"),
        ("--max-model-len", ""),
        ("--nobody-knows", ""),
    ],
)
def test_the_life_of_an_option_over_the_recorded_releases(written: str, text: str) -> None:
    """Story 8's words, and the shorter ones for simpler lives."""
    assert life_text("vllm", written) == text


@pytest.mark.parametrize(
    ("version", "code", "starts"),
    [
        ("0.16.0", "flag.deprecated", True),
        ("0.19.1", "flag.unknown", False),
        ("0.25.1", "flag.unknown", False),
        ("0.32.0", "flag.unknown", False),
        ("0.33.0", "flag.inverse", True),
    ],
)
def test_story_8_by_release(version: str, code: str, starts: bool) -> None:
    """--disable-log-requests: deprecated and needless, unknown, accepted again; dropped from the command each time."""
    found = judge_recorded("vllm serve m --disable-log-requests", version)

    assert found.starts is starts
    assert code in codes(found)
    assert found.corrected.line == "vllm serve m"


@pytest.mark.parametrize(
    ("options", "version", "line"),
    [
        ("--guided-decoding-backend xgrammar", "0.32.0", "vllm serve m --structured-outputs-config.backend xgrammar"),
        ("--num-redundant-experts 4", "0.32.0", "vllm serve m --eplb-config.num_redundant_experts 4"),
        ("--swap-space 16", "0.32.0", "vllm serve m"),
        ("--disable-mm-preprocessor-cache", "0.32.0", "vllm serve m --mm-processor-cache-gb 0"),
        ("--num-scheduler-steps 8", "0.16.0", "vllm serve m"),
        ("--context-length 4096", "0.32.0", "vllm serve m --max-model-len 4096"),
        ("--tp 8", "0.32.0", "vllm serve m --tensor-parallel-size 8"),
    ],
)
def test_gone_options_become_what_does_the_same(options: str, version: str, line: str) -> None:
    """By the table's rows, where the build has the replacement."""
    assert judge_recorded(f"vllm serve m {options}", version).corrected.line == line


def test_an_option_of_a_later_release_names_it() -> None:
    """No near name is guessed for a name that is right elsewhere."""
    found = judge_recorded("vllm serve m --language-model-only", "0.16.0")
    said = next(each for each in found.findings if each.code == "flag.unknown")

    assert (said.what, said.do) == (
        "vllm 0.16.0 has no option --language-model-only: new in 0.19.1",
        "vllm@0.19.1 has it; or leave it out",
    )
