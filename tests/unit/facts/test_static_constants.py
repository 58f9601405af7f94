"""Constants of an engine's source, worked out without running it. The texts are ours."""

import ast

import pytest

from holddown.facts.static_constants import Scope, constant, scope_of, text, words
from holddown.facts.static_modules import Source
from holddown.facts.static_values import Opaque, Value

MODULES = {
    "e.lists": (
        'FRUIT = ["pear", "plum"]\nALL = [*FRUIT, "fig"]\nMORE = FRUIT + ["lime"]\n'
        'TABLE = {"one": First, "two": Second}\nSIZE = 2 ** 4 + 1\n'
        "class Kinds:\n    SOFT = 'soft'\n    HARD = 'hard'\n    BOTH = (SOFT, HARD)\n"
        "class Holder:\n    Table: dict = {'a': A, 'b': B}\n"
    ),
    "e.user": "from e.lists import FRUIT as KNOWN, Kinds, Holder\nfrom .lists import SIZE\nLOOP = LOOP\n",
    "e.late": "def named():\n    if quick():\n        return 1\n    from e.lists import ALL\n    return list(ALL)\n",
}


def source() -> Source:
    trees = {name: ast.parse(each) for name, each in MODULES.items()}
    return Source(trees.get)


def value(expression: str, module: str = "e.user") -> Value:
    return constant(source(), ast.parse(expression, mode="eval").body, Scope(module, {}))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("KNOWN", ("pear", "plum")),
        ("list(KNOWN)", ("pear", "plum")),
        ("set(['b', 'a'])", ("a", "b")),
        ("['auto'] + KNOWN", ("auto", "pear", "plum")),
        ("Kinds.BOTH", ("soft", "hard")),
        ("KNOWN[0]", "pear"),
        ("list(Holder.Table.keys())", ("a", "b")),
        ("SIZE", 17),
        ("1 << 16", 65536),
        ("-1", -1),
        ("tuple()", ()),
    ],
)
def test_what_the_engine_writes_as_data_is_worked_out(expression: str, expected: Value) -> None:
    """Lists, their sums and members of classes, also of other modules."""
    assert value(expression) == expected


@pytest.mark.parametrize(
    "expression", ["LOOP", "unknown", "list(unknown)", "KNOWN + other()", "KNOWN[9]", "[x for x in y]"]
)
def test_what_cannot_be_worked_out_is_opaque(expression: str) -> None:
    """Never a part of it: half of the choices would be wrong."""
    assert isinstance(value(expression), Opaque)


def test_a_list_out_of_a_list_is_followed() -> None:
    """Starred and added, within its own module."""
    assert value("ALL", "e.lists") == ("pear", "plum", "fig")
    assert value("MORE", "e.lists") == ("pear", "plum", "lime")
    assert value("TABLE", "e.lists") == ("one", "two")


def test_a_function_gives_what_it_returns_at_its_end() -> None:
    """What it does earlier, for processes that loaded more, is not looked at."""
    assert value("named()", "e.late") == ("pear", "plum", "fig")


def test_a_name_bound_by_itself_is_the_modules() -> None:
    """`choices = set(choices)` inside of a function."""
    body = ast.parse("FRUIT = set(FRUIT)").body
    found = constant(source(), ast.parse("FRUIT", mode="eval").body, scope_of("e.lists", body))

    assert found == ("pear", "plum")


def test_constants_are_typed_as_on_a_command_line() -> None:
    """Switches in lower case, lists as words."""
    assert [text(each) for each in (True, None, 0.5, ("a", 1))] == ["true", "None", "0.5", "a 1"]
    assert words((0, 1)) == ("0", "1")
    assert words(Opaque("?")) == ()
