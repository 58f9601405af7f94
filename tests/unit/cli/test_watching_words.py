"""The live view's lines: what is known, and what is not said where it is not."""

from dataclasses import replace

from holddown.app.live import Tick
from holddown.app.watch import Load
from holddown.cli.watching import tick_lines

SERVING = Tick(
    at=10_000.0,
    name="m",
    id="0123abcd",
    state="released",
    is_over=False,
    for_s=75.0,
    why="",
    answers=True,
    load=Load(8, 0, 0.97),
    output_tokens=12_345,
    recent_tok_s=812.4,
    mean_tok_s=164.6,
)


def test_a_busy_deployment_in_a_few_lines() -> None:
    """State, load, speed with its curve, tokens so far, health."""
    assert tick_lines(SERVING, (0.0, 400.0, 800.0)) == [
        "m is released for 1 min 15 s",
        "  load      8 running, 97% of the KV cache in use",
        "  tok/s     812 over the last 10 s  ▁▅█",
        "  tokens    12.3 K, 165 tok/s since it serves",
        "  health    it answers",
    ]


def test_what_is_not_told_is_not_nought() -> None:
    """At the first look there is no speed yet; an engine may count nothing; /health may be silent."""
    first = replace(SERVING, recent_tok_s=None, load=None)
    assert "  tok/s     - over the last 10 s" in tick_lines(first, ())
    silent = replace(first, output_tokens=None, mean_tok_s=None, answers=False)
    assert tick_lines(silent, ())[1:] == [
        "  tokens    the engine does not count them for us",
        "  health    it does NOT answer /health",
    ]


def test_one_that_does_not_serve_has_one_line() -> None:
    """With why, where there is a why."""
    over = Tick(1.0, "m", "0123abcd", "failed", True, 3.0, "the engine exited with status 1")
    assert tick_lines(over, ()) == ["m is failed for 3.0 s: the engine exited with status 1"]
