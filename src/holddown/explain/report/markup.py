"""HTML that cannot be written wrong by accident: text is escaped where it is put in, markup is a type of its own."""

from collections.abc import Iterable, Sequence
from html import escape


class Html(str):
    """Markup, put in as it is. Any other text is escaped: checkpoints and servers name themselves as they like."""

    __slots__ = ()


def html(text: str) -> Html:
    return text if isinstance(text, Html) else Html(escape(text))


def tag(name: str, *children: str, **attributes: str) -> Html:
    """`tag("td", "a < b", class_="n")`. An underscore at an attribute's end is dropped, one inside is a dash."""
    said = "".join(f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items())
    return Html(f"<{name}{said}>{joined(children)}</{name}>")


def joined(parts: Iterable[str], between: str = "") -> Html:
    return Html(html(between).join(html(part) for part in parts if part))


def section(name: str, title: str, *children: str) -> Html:
    return tag("section", tag("h2", title, id=name), *children, aria_labelledby=name)


def pairs(rows: Iterable[tuple[str, str]]) -> Html:
    """Names with what they are; a row without is left out."""
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", text)) for name, text in rows if text), class_="pairs")


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> Html:
    """words: columns from the left that hold words; the others hold figures, which stand at the right."""

    def cell(kind: str, column: int, text: str, **more: str) -> Html:
        return tag(kind, text, **more) if column < words else tag(kind, text, class_="n", **more)

    top = tag("tr", *(cell("th", column, text, scope="col") for column, text in enumerate(head)))
    lines = []
    for row in rows:
        first, *rest = row
        cells = (cell("td", column, text) for column, text in enumerate(rest, 1))
        lines.append(tag("tr", tag("th", first, scope="row"), *cells))
    parts = (tag("caption", tag("span", caption)), tag("thead", top), tag("tbody", *lines))
    inside = tag("table", *parts, class_="figured" if words == 1 else "worded")
    # a wide table scrolls by itself, so that the page does not; the keyboard must reach it then
    return tag("div", inside, class_="wide", tabindex="0", role="region", aria_label=caption)
