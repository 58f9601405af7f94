"""What does the same where a build does not have an option, by the engine's table."""

import re
import shlex

from holddown.lint.argv import Given
from holddown.lint.case import Case
from holddown.lint.options import Options
from holddown.tables.engine import GoneFlag


def gone_flag(case: Case, name: str) -> GoneFlag | None:
    rows = case.engine.gone_flags if case.engine else ()
    return next((row for row in rows if row.name == name), None)


def in_options(instead: str) -> str:
    """The table's words are settings; on a command line they have dashes."""
    first = instead.partition(" ")[0]
    return f"--{instead}" if (first.islower() and "-" in first) or ("=" in first and first[0].islower()) else instead


def becomes(gone: GoneFlag, given: Given, options: Options) -> tuple[str, ...]:
    """The row's replacement where this build has it."""
    value = given.value.text if given.value else ""
    becomes = gone.becomes
    if not becomes and re.fullmatch(r"[a-z][\w.-]*", gone.instead):
        becomes = f"--{gone.instead} {{}}" if value else f"--{gone.instead}"  # only its name changed
    words = tuple(value if part == "{}" else part for part in shlex.split(becomes))
    named = [word for word in words if word.startswith("--")]
    return words if named and all(options.find(name.partition("=")[0]) for name in named) else ()
