"""Tables and bars as plain text: they read the same on a terminal and in a file."""

import textwrap
from collections.abc import Sequence

WIDTH = 100
"""Columns that a terminal is taken to have; a pipe gets the same, so that what is copied reads the same."""

_EIGHTHS = " ▏▎▍▌▋▊▉"
_STEPS = "▁▂▃▄▅▆▇█"
_FILLS = "█▓▒░▞▚▤▥"


def columns(rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset()) -> list[str]:
    """Rows as lines with cells under one another. right: columns whose cells stand at the right, as figures do."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))] if rows else []

    def cell(text: str, column: int) -> str:
        return text.rjust(widths[column]) if column in right else text.ljust(widths[column])

    return ["  ".join(cell(text, column) for column, text in enumerate(row)).rstrip() for row in rows]


def bar(fraction: float, width: int) -> str:
    """One solid bar of `width` cells at 1.0, in eighths of a cell, never longer."""
    eighths = round(max(0.0, min(1.0, fraction)) * width * 8)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def spark(values: Sequence[float]) -> str:
    """A curve of one line, a cell for each value, the highest as the full cell."""
    most = max(values, default=0.0)
    return "".join(_STEPS[round(value / most * 7)] if most > 0 else _STEPS[0] for value in values)


def stacked(parts: Sequence[tuple[str, int]], total: int, width: int) -> tuple[str, list[str]]:
    """One bar of `width` cells for `total` with a fill per part, and a fill for each part's legend.

    A part that is there is at least one cell wide; what is left of the total stays blank.
    """
    cells = [max(1, round(size / total * width)) if size > 0 and total else 0 for _, size in parts]
    while sum(cells) > width:
        cells[cells.index(max(cells))] -= 1
    fills = [_FILLS[index % len(_FILLS)] for index in range(len(parts))]
    return "".join(fill * count for fill, count in zip(fills, cells, strict=True)).ljust(width), fills


def wrapped(label: str, text: str, indent: int = 0, hang: int | None = None) -> list[str]:
    """`label` and `text` in lines of at most WIDTH columns, the further ones under the text's beginning, or `hang`
    columns in. What cannot be broken, a path or a command, stays whole."""
    first = " " * indent + label
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=" " * (len(first) if hang is None else hang),
        break_long_words=False,
        break_on_hyphens=False,
    ) or [first.rstrip()]
