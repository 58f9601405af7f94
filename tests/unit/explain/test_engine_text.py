"""The card of an engine build."""

from dataclasses import replace

import pytest

from fakes.engine import engine_facts
from holddown.base.evidence import from_file
from holddown.explain.engine_text import engine_text, found_text
from holddown.facts.attention_backends import AttentionBackend, AttentionBackends, KvSupport
from holddown.facts.engine import EnvironmentVariable, Flag, GoneArchitecture, MinimumCapability, Takes

BACKEND = AttentionBackend("TRITON_MLA", "x.py", True, False, ("12.0",), (KvSupport(("12.0",), ("auto", "fp8")),))
FACTS = replace(
    engine_facts(
        flags=(
            Flag("--kv-cache-dtype", ("auto", "fp8"), Takes.TEXT, default="auto"),
            Flag("--max-model-len", takes=Takes.SIZE, default="None", aliases=("-mml",)),
            Flag("--sizes", takes=Takes.INTEGER, several=True),
            Flag("--token", takes=Takes.TEXT, optional=True, default=""),
            Flag("--quick", ("true",), Takes.NOTHING, deprecated="--quick is deprecated."),
            Flag("--reuse", ("true", "false"), Takes.NOTHING),
        )
    ),
    tool_parsers=from_file(("hermes", "kimi_k2"), "x"),
    quantization_methods=("fp8", "inc"),
    quantization_minimums=(MinimumCapability("fp8", "7.5"),),
    gone_architectures=(GoneArchitecture("OldForCausalLM", "0.10.2", ""),),
    environment=(EnvironmentVariable("VLLM_KV_CACHE_LAYOUT"), EnvironmentVariable("VLLM_PORT", "8000")),
    attention_backends=from_file(AttentionBackends((BACKEND,), ()), "x"),
)


def test_the_card_says_what_a_build_takes() -> None:
    """Counts with what stands out, and what each attention backend takes there."""
    card = engine_text(FACTS, "12.0").splitlines()

    assert "options       6; 1 deprecated: --quick" in card
    assert "tool parsers  2: hermes, kimi_k2" in card
    assert "quantisation  fp8 (from 7.5), inc" in card
    assert card[-1] == "  TRITON_MLA  MLA: auto, fp8 (no DCP)"
    assert any(line.endswith("1 gone: OldForCausalLM (with 0.10.2)") for line in card)


def test_a_capability_that_no_backend_names() -> None:
    """Said, rather than an empty table."""
    assert engine_text(FACTS, "7.0").endswith("no backend says that it runs on compute capability 7.0")


@pytest.mark.parametrize(
    ("sizes", "said"),
    [((64, 128), "heads of 64, 128"), (tuple(range(8, 72, 8)), "heads of 8 to 64 in steps of 8")],
)
def test_head_sizes_in_short(sizes: tuple[int, ...], said: str) -> None:
    """A run is told by its ends."""
    backend = replace(BACKEND, head_sizes=sizes, decode_context_parallel=True)
    facts = replace(FACTS, attention_backends=from_file(AttentionBackends((backend,), ()), "x"))

    assert engine_text(facts, "12.0").endswith(f"MLA: auto, fp8 ({said})")


def test_a_word_is_found_in_every_kind_of_name() -> None:
    """Options and variables alike, dashes or underscores."""
    assert found_text(FACTS, "kv_cache").splitlines() == [
        "option --kv-cache-dtype  auto|fp8; default auto",
        "variable VLLM_KV_CACHE_LAYOUT",
    ]
    assert found_text(FACTS, "OldFor") == "architecture OldForCausalLM (with 0.10.2): gone"
    assert found_text(FACTS, "nowhere") == ""


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("mml", "option --max-model-len, -mml  a number (8k, 1M); default None"),
        ("sizes", "option --sizes  integer, one or more"),
        ("token", "option --token  text, or nothing; default ''"),
        ("quick", "option --quick  turns on; --quick is deprecated."),
        ("reuse", "option --reuse  turns on, and off as --no-"),
        ("port", "variable VLLM_PORT  default 8000"),
    ],
)
def test_what_an_option_takes_in_words(word: str, line: str) -> None:
    """Type, number of values, default and what the engine says against it."""
    assert found_text(FACTS, word) == line
