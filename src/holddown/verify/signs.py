"""Which known failures a line shows."""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from holddown.base.units import size_text
from holddown.tables.failure import Failure, Form, Sure
from holddown.tables.load import failures

Groups = Mapping[str, str]
# an engine's longest message, its list of all architectures, has 12,000 characters and says first what is wrong
_LOOKED_AT_CHARACTERS = 8192


@dataclass(frozen=True, slots=True)
class Sign:
    """A line that shows a failure, in words. edits: (setting, value); none without a value."""

    failure: Failure
    form: Form
    cause: str
    remedy: str
    edits: tuple[tuple[str, str], ...]

    @property
    def sure(self) -> Sure:
        return self.form.sure


def signs(text: str, engine: str = "") -> Iterator[Sign]:
    """engine: that wrote the log, empty where that is not known."""
    for failure, form, pattern in _forms():
        if form.engine and engine and form.engine != engine:
            continue
        match = pattern.search(text, 0, _LOOKED_AT_CHARACTERS)
        if match is not None:
            yield _sign(failure, form, match)


@cache
def _forms() -> tuple[tuple[Failure, Form, re.Pattern[str]], ...]:
    return tuple((failure, form, re.compile(form.pattern)) for failure in failures() for form in failure.forms)


def _sign(failure: Failure, form: Form, match: re.Match[str]) -> Sign:
    groups = {name: value or "" for name, value in match.groupdict().items()}
    names = {**groups, **(DERIVED[form.derive](groups) if form.derive else {})}
    edits = [edit.format_map(names).partition("=") for edit in form.edits or failure.edits]
    return Sign(
        failure,
        form,
        (form.cause or failure.cause).format_map(names),
        (form.remedy or failure.remedy).format_map(names),
        tuple((name, value) for name, _, value in edits if value),
    )


# --- names that a form's texts may use beside its groups ------------------------------------------------------------


def _fitting_utilization(groups: Groups) -> Groups:
    """free, total -> fits: the share that is free, rounded down."""
    share = float(groups["free"]) / float(groups["total"])
    return {"fits": f"{int(share * 100) / 100:.2f}"}


def _dividing_size(groups: Groups) -> Groups:
    """heads, size -> fits: the next smaller size that divides."""
    heads, size = int(groups["heads"]), int(groups["size"])
    return {"fits": str(next(fewer for fewer in range(max(size - 1, 1), 0, -1) if heads % fewer == 0))}


def _parser(groups: Groups) -> Groups:
    """kind, name, known -> flag, fits (empty where none is near), count."""
    flag = groups["kind"].replace(" ", "-") + "-parser"
    known = [name.strip(" '\"") for name in groups["known"].rstrip(" })'\"").split(",")]
    close = difflib.get_close_matches(groups["name"], known, n=1)
    return {"flag": flag, "fits": close[0] if close else "", "count": str(len(known))}


def _half(groups: Groups) -> Groups:
    """seqs -> half."""
    return {"half": str(max(int(groups["seqs"]) // 2, 1))}


def _lower(groups: Groups) -> Groups:
    return {name: value.lower() for name, value in groups.items()}


def _size(groups: Groups) -> Groups:
    """bytes -> size."""
    return {"size": size_text(int(groups["bytes"]))}


DERIVED: Mapping[str, Callable[[Groups], Groups]] = {
    "utilization": _fitting_utilization,
    "divisor": _dividing_size,
    "parser": _parser,
    "half": _half,
    "lower": _lower,
    "size": _size,
}
