"""Any text is a launch command, none, or a clear error; a corrected command needs no further correction."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.captured import NAMES, captured_model
from fakes.engine import an_engine
from fakes.lint import GRAMMARS, build, judge, judge_recorded, site, words
from holddown.base.errors import UsageError
from holddown.facts.command.config_file import with_config
from holddown.facts.command.launch import Word, launch_command
from holddown.facts.command.read import read_commands
from holddown.lint.case import case_of
from holddown.lint.judge import Ground, judged, on_releases
from holddown.lint.secrets import masked
from holddown.plan.wishes import Candidate
from holddown.tables.load import command_table, recorded_versions

_NAMES = st.sampled_from(["", "x.sh", "x.yaml", "x.service"])
_PIECES = st.sampled_from(
    ["vllm serve", "m", "--port", "8000", "'", '"', "\\\n", "\n", "$X", "${Y:-1}", "$(z)", "#", ";", "&&", "|", "> f",
     "<<EOF", "services:", "  a:", "    command: ", "- ", "[Service]", "ExecStart=", "export A=1", "docker run",
     "-e B=2", "vllm/vllm-openai:v0.16.0", "llama-server", "python -m sglang.launch_server", "--", "-tp", "=", "."]
)  # fmt: skip
_SIZES = ("", "-tp 2", "-tp 3", "-tp 4", "-tp 8", "-tp 16", "-pp 2", "-dp 8", "-tp 4 -dp 2", "-tp 8 -dcp 4")
_EXPERTS = ("", "--enable-expert-parallel")
_MEMORY = ("", "--gpu-memory-utilization 0.5", "--max-model-len 262144", "--max-model-len 4096 --max-num-seqs 16")
_CACHES = ("", "--kv-cache-dtype fp8")
_GPUS = ("8x RTX PRO 6000 Server", "4x H200 SXM", "2x RTX 5090", "8x A100 SXM 80GB")
_OPTIONS = st.sampled_from(
    ["--max-model-len", "8k", "--max-num-seqs=4", "--max-num-seqs", "many", "-tp", "8", "--enforce-eager=true",
     "--served-model-name", "a", "b c", "--dtype", "bf16", "--api-key", "k", "--disable-log-requests", "--x.y", "-O3",
     "--max", "--speculative-config", "{", "--host", "0.0.0.0", "-1", "--", "$Z", "--trust-remote-code", "--port", ""]
)  # fmt: skip


@given(st.text(max_size=300), _NAMES)
@settings(deadline=None)
def test_any_text_is_commands_or_a_clear_error(text: str, name: str) -> None:
    """No other exception leaves the readers."""
    try:
        read_commands(text, GRAMMARS, name)
    except UsageError as error:
        assert error.what


@given(st.lists(_PIECES, max_size=25), _NAMES)
@settings(deadline=None)
def test_any_mixture_of_what_commands_are_made_of_is_judged(pieces: list[str], name: str) -> None:
    """Whatever is read as a command gets an answer, on every release."""
    try:
        found = read_commands(" ".join(pieces), GRAMMARS, name)
    except UsageError:
        return
    for command in found:
        hidden = masked(command)
        judged(hidden, None, Ground())
        on_releases(hidden)


@given(st.lists(_OPTIONS, max_size=12))
@settings(deadline=None)
def test_a_corrected_command_needs_no_correction(options: list[str]) -> None:
    """What is dropped or replaced is gone: the corrected line is read again, and changes no more by unknown options."""
    command = launch_command([Word(text) for text in ("vllm", "serve", "m", *options)], GRAMMARS)
    assert command is not None
    line = judge_words(options)
    again = judge(line)

    left = {each.code for each in again.findings if each.blocks}
    assert not left & {"flag.unknown", "flag.value", "flag.choice", "flag.value-missing", "flag.stray", "flag.range"}


@given(
    st.tuples(*map(st.sampled_from, (_SIZES, _EXPERTS, _MEMORY, _CACHES))),
    st.sampled_from(_GPUS),
    st.sampled_from(NAMES),
    st.sampled_from(recorded_versions("vllm")),
)
@settings(deadline=None, max_examples=50)
def test_a_mended_command_fits_its_machine(options: tuple[str, ...], gpus: str, model: str, version: str) -> None:
    """Sizes, context, memory share and KV cache are changed together: what comes out is not refused for another."""
    ground = Ground(captured_model(model), "", site(gpus))
    found = judge_recorded(" ".join(["vllm serve m", *options]), version, ground)
    again = judge_recorded(found.corrected.line, version, ground)

    if found.mended:
        assert [each for each in again.findings if each.blocks] == []
    else:
        # what other words cannot mend was said at once
        said = {each.code for each in found.findings if each.blocks}
        assert {each.code for each in again.findings if each.blocks} <= said


def judge_words(options: list[str]) -> str:
    """The corrected line of these words."""
    candidate = Candidate(an_engine(), build())
    return judged(words("vllm", "serve", "m", *options), candidate, Ground()).corrected.line


@given(st.lists(_OPTIONS, max_size=12))
@settings(deadline=None)
def test_every_word_is_an_options_or_positional(options: list[str]) -> None:
    """The reader loses no word and takes none twice."""
    command = launch_command([Word(text) for text in ("vllm", "serve", *options)], GRAMMARS)
    assert command is not None
    arguments = case_of(command, build()).arguments
    taken = [at for each in arguments.given for at in range(*each.at)]
    taken += [at for at, _ in arguments.positional]
    dashes = [at for at, word in enumerate(command.words) if word.text == "--" and at >= command.begin]

    assert len(taken) == len(set(taken))
    assert len(taken) + len(arguments.unread) + min(1, len(dashes)) >= len(options)


@given(
    st.text(max_size=200)
    | st.dictionaries(
        st.text(max_size=8),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=8),
            lambda inner: st.lists(inner, max_size=3),
            max_leaves=5,
        ),
        max_size=4,
    ).map(json.dumps)
)
@settings(deadline=None)
def test_any_file_of_options_is_read_or_left(text: str) -> None:
    """Either its options stand in the command, or its name does."""
    command = words("vllm", "serve", "m", "--config", "x.yaml", "--port", "1")
    found = with_config(command, command_table("vllm").grammar, text)

    assert found is None or "--config" not in [word.text for word in found.words[:3]]
    if found is not None:
        judged(found, Candidate(an_engine(), build()), Ground())
