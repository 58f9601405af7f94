"""Our tables of failures: each row can be used, and says where it is from."""

import re
from collections import Counter

import pytest

from holddown.tables.failure import Failure, Form
from holddown.tables.load import consequences, failures
from holddown.verify.signs import DERIVED, signs

STAGES = frozenset({"command", "load", "memory", "kv-cache", "attention", "compile", "distributed", "ready", "serve"})
STAGES |= {"answers", "system", "install"}
ROWS = pytest.mark.parametrize("row", failures(), ids=lambda row: row.id)


def test_no_two_rows_have_one_name() -> None:
    """A diagnosis is matched on by its id."""
    assert [name for name, count in Counter(row.id for row in failures()).items() if count > 1] == []


@ROWS
def test_a_row_is_whole(row: Failure) -> None:
    """A source, a stage that is known, at least one form, a remedy of some kind in each."""
    assert row.source and row.source != "TODO"
    assert row.stage in STAGES
    assert row.forms
    for form in row.forms:
        assert form.remedy or row.remedy or form.edits or row.edits


@ROWS
def test_every_template_can_be_filled(row: Failure) -> None:
    """A name that the pattern does not give would be a KeyError at 2 am."""
    for form in row.forms:
        names = dict.fromkeys(re.compile(form.pattern).groupindex, "1")
        names |= DERIVED[form.derive](names) if form.derive else {}
        for text in (*_texts(row, form), *(form.edits or row.edits)):
            assert text.format_map(names)


def _texts(row: Failure, form: Form) -> list[str]:
    return [text for text in (form.cause or row.cause, form.remedy or row.remedy) if text]


@ROWS
def test_an_edit_is_of_one_setting(row: Failure) -> None:
    """`name=value`, as `--set` takes it."""
    for edit in (*row.edits, *(each for form in row.forms for each in form.edits)):
        assert re.fullmatch(r"[\w{}.-]+=[^=]+", edit)


def test_what_tells_of_another_failure_has_a_source() -> None:
    """And is no pattern of everything."""
    for row in consequences():
        assert row.source
        assert not re.search(row.pattern, "ValueError: the reason")


def test_no_row_fits_an_empty_or_an_ordinary_line() -> None:
    """A pattern with a stray `|` would fit every log."""
    for line in ("", "ValueError: the reason", "INFO ready", "Traceback (most recent call last):"):
        assert list(signs(line)) == []


@pytest.mark.parametrize("piece", ["x", "x.", " ", "Error: ", "1", "'", "CUDA out of memory ", "{"])
def test_a_long_line_is_read_in_time(piece: str) -> None:
    """A pattern that looks from each character to the end takes minutes for a line like this one."""
    assert len(list(signs(piece * (8192 // len(piece))))) <= 4
