"""Values to JSON and back."""

from dataclasses import dataclass

import pytest

from holddown.base.codec import dump, dumps, load, loads
from holddown.base.evidence import Fact, Unknown, from_file


@dataclass(frozen=True, slots=True)
class Circle:
    size: int


@dataclass(frozen=True, slots=True)
class Square:
    size: int


@dataclass(frozen=True, slots=True)
class Drawing:
    first: Circle | Square
    last: Circle | Square | None
    frame: Square | None
    price: Fact[int]
    title: str = "untitled"


FULL = Drawing(Circle(1), Square(2), Square(3), from_file(4, "config.json"), "x")
BARE = Drawing(Square(1), None, None, Unknown("nobody asked"))


@pytest.mark.parametrize("drawing", [FULL, BARE])
def test_every_arm_of_a_union_comes_back_as_itself(drawing: Drawing) -> None:
    """Also where None is one of the arms: two classes of the same fields are told apart by the tag alone."""
    assert loads(Drawing, dumps(drawing)) == drawing


def test_a_bare_tuple_is_written_item_by_item() -> None:
    """`list --json` and `status --json` answer with several values and no class around them."""
    assert dump((Square(1), Circle(2))) == [{"size": 1}, {"size": 2}]


def test_a_tag_stands_where_a_reader_must_choose() -> None:
    """And nowhere else."""
    written = dump(FULL)
    assert (written["last"], written["frame"]) == ({"is": "Square", "size": 2}, {"size": 3})


def test_fields_that_are_gone_and_fields_that_are_new() -> None:
    """A record of an older version has the one and lacks the other, and is read."""
    older = {name: value for name, value in dump(BARE).items() if name != "title"} | {"colour": "red"}
    assert load(Drawing, older) == BARE


def test_what_does_not_fit_is_named() -> None:
    """Each field by its path, all of them at once."""
    wrong = dump(BARE) | {"first": {"is": "Triangle"}, "frame": {}}
    with pytest.raises(ValueError, match=r"@ \$\.first.*@ \$\.frame\.size"):
        load(Drawing, wrong)
