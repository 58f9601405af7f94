"""A linted command in words: the verdict, what is wrong, the command as it should be, and how it fares elsewhere."""

from collections.abc import Callable, Sequence

from holddown.base.finding import Finding, Severity
from holddown.explain.drawing import WIDTH, wrapped
from holddown.lint.corrected import Corrected, Piece
from holddown.lint.judge import Judged, OnRelease

Mark = Callable[[str], str]
"""How a changed word is shown on a terminal."""


def verdict_text(judgement: Judged) -> str:
    """`wrong for vllm@0.19.1: 2 things keep it from starting as it is meant; 1 warning`."""
    blocks = sum(each.blocks for each in judgement.findings)
    warns = sum(each.severity is Severity.WARN for each in judgement.findings)
    more = f"; {_count(warns, 'warning')}" if warns else ""
    if not blocks:
        return f"right for {judgement.build}: nothing that was looked at forbids it{more}"
    keep = "keeps" if blocks == 1 else "keep"
    return f"wrong for {judgement.build}: {_count(blocks, 'thing')} {keep} it from starting as it is meant{more}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")


def said(judgement: Judged, before: Judged | None = None) -> tuple[Finding, ...]:
    """The findings about the command; what was not looked at is said in `unjudged_text`. before: another build's answer
    that was printed already: what both say alike is not said again."""
    told = {(each.code, each.subject, each.severity) for each in before.findings} if before is not None else set()
    return tuple(
        each
        for each in judgement.findings
        if not each.code.startswith("lint.") and (each.code, each.subject, each.severity) not in told
    )


def unjudged_text(findings: Sequence[Finding]) -> str:
    """What could not be looked at, a line each, so that silence is not taken for a yes."""
    lines: list[str] = []
    for each in findings:
        if each.code.startswith("lint."):
            lines += wrapped("", each.what + (f" ({each.do})" if each.do else ""), hang=2)
    return "\n".join(lines)


def corrected_text(judgement: Judged, mark: Mark) -> str:
    """What changes, and the command ready to be pasted, with changed words marked. Empty where nothing changes."""
    fixed = judgement.corrected
    if not fixed.changed:
        return ""
    lines = ["as it should be:" if judgement.mended else "what other words can mend, which is not all:"]
    lines += [f"  - {text}" for text in fixed.gone]
    lines += [f"  + {piece.text}" for piece in (*fixed.exports, *fixed.pieces) if piece.changed]
    return "\n".join([*lines, "", command_text(fixed, mark)])


def command_text(fixed: Corrected, mark: Mark) -> str:
    """On one line where it is short, else an option a line."""

    def shown(piece: Piece) -> str:
        return mark(piece.text) if piece.changed else piece.text

    short = sum(len(piece.text) + 1 for piece in fixed.pieces) <= WIDTH
    joint = " " if short else " \\\n  "
    return "\n".join([*map(shown, fixed.exports), joint.join(map(shown, fixed.pieces))])


def releases_text(kind: str, releases: Sequence[OnRelease]) -> str:
    """`vllm releases: taken by 0.16.0, 0.33.0; not by 0.19.1, 0.25.1 (--disable-log-requests)`."""
    taken = [each.version for each in releases if not each.against]
    parts = [f"taken by {', '.join(taken)}"] if taken else []
    refused: dict[tuple[str, ...], list[str]] = {}
    for each in releases:
        if each.against:
            refused.setdefault(each.against, []).append(each.version)
    parts += [f"not by {', '.join(versions)} ({_some(why)})" for why, versions in refused.items()]
    return "\n".join(wrapped(f"{kind} releases, by the words alone: ", "; ".join(parts), hang=2)) if parts else ""


def _some(words: Sequence[str]) -> str:
    return ", ".join(words[:4]) + (f", and {len(words) - 4} more" if len(words) > 4 else "")
