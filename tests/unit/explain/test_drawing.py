"""What people would rather look at than read, as text."""

from holddown.explain.drawing import WIDTH, bar, columns, spark, stacked, wrapped


def test_columns_stand_under_one_another() -> None:
    """Words at the left, figures at the right, nothing after the last cell."""
    rows = [("SPLIT", "TOKENS", "WHY"), ("TP8", "190 K", "taken"), ("TP4 + EP", "5 K", "")]
    assert columns(rows, right=frozenset({1})) == [
        "SPLIT     TOKENS  WHY",
        "TP8        190 K  taken",
        "TP4 + EP     5 K",
    ]


def test_a_bar_is_as_long_as_its_fraction() -> None:
    """In eighths of a cell, and never longer than it may be."""
    assert bar(0.5, 10) == "█████"
    assert bar(0.55, 10) == "█████▌"
    assert bar(7.0, 4) == "████"
    assert bar(0.0, 4) == ""


def test_parts_fill_the_bar_and_the_rest_stays_blank() -> None:
    """Half, a quarter, a quarter free."""
    text, fills = stacked([("weights", 50), ("kv", 25)], 100, 8)
    assert text == "████▓▓  "
    assert fills == ["█", "▓"]


def test_a_small_part_is_seen_all_the_same() -> None:
    """One percent of eight cells is a cell, and the bar stays as wide as it is."""
    text, _ = stacked([("weights", 98), ("graphs", 1), ("context", 1)], 100, 8)
    assert "▓" in text
    assert len(text) == 8


def test_a_long_sentence_hangs_where_it_is_told_to() -> None:
    """Under its own beginning, or a few columns in; a path stays whole, however long."""
    path = "/" + "x" * 2 * WIDTH
    under = wrapped("because ", "word " * 30, 6)
    hung = wrapped("note[code]: ", f"{'word ' * 30}{path}", hang=2)
    assert all(len(line) <= WIDTH for line in under)
    assert under[1].startswith(" " * 14 + "word")
    assert hung[0].startswith("note[code]: word") and hung[1].startswith("  word")
    assert hung[-1] == f"  {path}"


def test_a_curve_of_one_line_reaches_from_nought_to_the_highest() -> None:
    """Nothing at all is a flat one, and no values are no curve."""
    assert spark((0, 1, 2)) == "▁▅█"
    assert spark((0, 0)) == "▁▁"
    assert spark(()) == ""
