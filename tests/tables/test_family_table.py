"""The table of families: parsers and what architectures imply."""

import pytest

from holddown.base.evidence import Known
from holddown.tables.family import Family
from holddown.tables.load import families, families_of, recorded_engine, recorded_versions

ROWS = pytest.mark.parametrize("row", families(), ids=lambda row: row.name)
NEWEST = recorded_engine("vllm", recorded_versions("vllm")[-1])[1]


@ROWS
def test_every_row_names_its_source(row: Family) -> None:
    """And an architecture to be found by."""
    assert row.source.strip()
    assert row.architectures


@ROWS
def test_parsers_exist_in_the_newest_recorded_release(row: Family) -> None:
    """A misspelt parser would stop the engine; parsers do not vanish."""
    assert isinstance(NEWEST.tool_parsers, Known)
    assert isinstance(NEWEST.reasoning_parsers, Known)
    assert row.tool_parser in ("", *NEWEST.tool_parsers.value)
    assert row.reasoning_parser in ("", *NEWEST.reasoning_parsers.value)


@ROWS
def test_an_architecture_of_each_row_exists_in_some_recorded_release(row: Family) -> None:
    """A misspelt one would never be found; others of the row may be names that only configs have."""
    releases = [recorded_engine("vllm", version)[1] for version in recorded_versions("vllm")]

    assert set(row.architectures) & {name for release in releases for name in release.architectures}


@ROWS
def test_rows_of_one_architecture_are_told_apart(row: Family) -> None:
    """By the model type, or by what the template has or lacks: not two rows for one checkpoint."""
    model_type = row.model_types[0] if row.model_types else ""
    for architecture in row.architectures:
        others = [other for other in families_of((architecture,), model_type) if other.name != row.name]
        for other in others:
            apart = {row.template_has} & {other.template_lacks} | {row.template_lacks} & {other.template_has}
            assert apart - {""}, (row.name, other.name)
