"""The strict loader."""

from dataclasses import dataclass

import pytest

from holddown.tables.load import parse_table


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    size_gib: int
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    rows: tuple[Row, ...]


def test_a_table_becomes_rows() -> None:
    """TOML in, frozen rows out."""
    text = '[[rows]]\nname = "a"\nsize_gib = 3\ntags = ["x"]'

    assert parse_table(Table, text, "t.toml") == Table((Row("a", 3, ("x",)),))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[rows]]\nname = "a"\nsize_gib = 3\nsise = 4', "sise"),
        ('[[rows]]\nname = "a"', "size_gib"),
        ("[[rows]]\nname = 5\nsize_gib = 3", "expected str @ $.rows[0].name"),
        ('[[rows]]\nname = "a"\nsize_gib = true', "expected int @ $.rows[0].size_gib"),
        ('[[rows]]\nname = "a"\nsize_gib = "3"', "expected int @ $.rows[0].size_gib"),
        ("rows = [", "not TOML"),
    ],
)
def test_what_does_not_fit_is_an_error_that_names_it(text: str, said: str) -> None:
    """A misspelt, missing or mistyped key is named together with its file."""
    with pytest.raises(ValueError, match=r"t\.toml") as caught:
        parse_table(Table, text, "t.toml")

    assert said in str(caught.value)
