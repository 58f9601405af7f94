"""What a running engine says of itself, beside what was planned."""

from dataclasses import replace

from fakes.records import a_plan
from holddown.explain.engine_report import report_lines
from holddown.facts.engine_report import EngineReport

SAID = EngineReport(
    ("FLASH_ATTN",),
    ("MARLIN",),
    kv_blocks=7,
    config=(("cache_config.kv_cache_size_tokens", "112"), ("cache_config.cache_dtype", "fp8")),
)


def test_what_came_as_planned_is_said_without_a_word_more() -> None:
    """Kernels and the KV cache."""
    plan = replace(a_plan(), attention_backends=("FLASH_ATTN",), experts_backend="MARLIN")

    assert list(report_lines(SAID, plan)) == [
        "  attention FLASH_ATTN",
        "  experts   MARLIN",
        "  KV cache  112 tokens, fp8, 7 blocks (the engine's own word)",
    ]


def test_what_came_otherwise_is_beside_what_was_planned() -> None:
    """The engine's word first."""
    first, *_ = report_lines(SAID, replace(a_plan(), attention_backends=("FLASHINFER",)))

    assert first == "  attention FLASH_ATTN (planned: FLASHINFER)"


def test_an_engine_that_says_nothing_takes_no_line() -> None:
    """The log is what there is then."""
    assert list(report_lines(None, a_plan())) == []
