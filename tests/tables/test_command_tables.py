"""Rows about commands: each has a source, names what is there, and says what the recorded facts say."""

import re
import shlex

import pytest

from holddown.lint.life import options_of
from holddown.lint.options import Option
from holddown.tables.engine import GoneFlag, GoneVariable
from holddown.tables.load import (
    command_tables,
    engine_table,
    library_variables,
    recorded_build,
    recorded_versions,
)

VERSIONS = recorded_versions("vllm")
GONE_FLAGS = {row.name: row for row in engine_table("vllm").gone_flags}
GONE_VARIABLES = engine_table("vllm").gone_variables


def test_every_row_about_a_command_has_a_source() -> None:
    """And bonds name what they need."""
    for table in command_tables():
        assert table.grammar.source
        for row in (*table.together, *table.clashes, *table.orders, *table.ranges):
            assert row.source, row
        for bond in table.together:
            assert bond.others and bond.what, bond


def test_no_two_engines_claim_one_command() -> None:
    """A command line belongs to one engine."""
    names = [name for table in command_tables() for name in (*table.grammar.commands, *table.grammar.modules)]

    assert len(names) == len(set(names))


def test_options_that_rows_speak_of_exist_in_a_release() -> None:
    """A misspelt name would make a rule that never speaks."""
    for table in command_tables():
        for version in recorded_versions(table.grammar.kind)[-1:]:
            options = options_of(table.grammar.kind, version)
            names = [name for row in table.together for name in (row.option, *row.others)]
            names += [name for row in table.orders for name in (row.smaller, row.larger)]
            names += [row.option for row in table.ranges]
            names += [name for row in table.clashes for name in (row.option, row.config)]
            for name in names:
                assert isinstance(options.find(f"--{name}"), Option), (table.grammar.kind, name)


@pytest.mark.parametrize("name", GONE_FLAGS)
def test_a_gone_option_is_gone_from_some_recorded_release(name: str) -> None:
    """What a row says of presence and absence is what the facts say."""
    there = [version for version in VERSIONS if isinstance(options_of("vllm", version).find(f"--{name}"), Option)]

    assert len(there) < len(VERSIONS), there
    for version in re.findall(r"absent (?:in|from) (\d+\.\d+\.\d+)", GONE_FLAGS[name].source):
        assert version not in there


@pytest.mark.parametrize("row", [row for row in GONE_FLAGS.values() if row.becomes], ids=lambda row: row.name)
def test_what_a_gone_option_becomes_is_an_option_of_the_newest_release(row: GoneFlag) -> None:
    """The words can be pasted."""
    first = shlex.split(row.becomes)[0]

    assert isinstance(options_of("vllm", VERSIONS[-1]).find(first), Option)


@pytest.mark.parametrize("row", GONE_VARIABLES, ids=lambda row: f"{row.name}={row.where_value}")
def test_a_gone_variable_is_read_by_the_releases_that_its_row_names_alone(row: GoneVariable) -> None:
    """`read by A to B, not from C on`, against the recorded facts."""
    name, source = row.name, row.source
    read = [v for v in VERSIONS if any(each.name == name for each in recorded_build("vllm", v).facts.environment)]
    said = re.match(r"read by (\d\S*?)(?:(?: to | and )(\d\S*?))?, not from (\d\S*) on", source)

    assert said is not None
    assert (read[0], read[-1]) == (said[1], said[2] or said[1])
    assert VERSIONS.index(said[3].rstrip(":;")) == VERSIONS.index(read[-1]) + 1


def test_libraries_name_their_own_variables() -> None:
    """With their prefix, once each, and values of known ones."""
    for library in library_variables():
        assert library.source
        assert all(name.startswith(library.prefix) for name in library.names)
        assert len(library.names) == len(set(library.names))
        for row in library.values:
            assert row.name in library.names
            re.compile(row.pattern)
