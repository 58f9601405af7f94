"""How every verb speaks: the answer on stdout, progress and obstacles on stderr."""

import json
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from holddown.base.errors import FactError, HolddownError
from holddown.base.evidence import Fact, Known
from holddown.base.finding import Finding, Severity
from holddown.explain.drawing import wrapped

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
Command = TypeVar("Command", bound="Callable[..., Any]")

_UNWRITABLE = "output.unwritable"
_COLOURS = {Severity.NOTE: "blue", Severity.WARN: "yellow", Severity.BLOCK: "red"}


def json_option(command: Command) -> Command:
    """`--json`: the same answer as one JSON document on stdout."""
    return click.option("--json", "as_json", is_flag=True, help="The answer as JSON on stdout.")(command)


def answer(value: object, text: str, *, as_json: bool) -> None:
    """Prints the verb's answer: `text`, or `value` as JSON. A dict is a document that is JSON-ready as it is."""
    if not as_json:
        _write(text)
        return
    from holddown.base.codec import dump

    _write(json.dumps(value if isinstance(value, dict) else dump(value), indent=2, ensure_ascii=False))


def _write(text: str) -> None:
    """On stdout. Raises: FactError where the file or disk behind it takes no more."""
    try:
        click.echo(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        what = f"the answer could not be written: {error.strerror}"
        raise FactError(what, code=_UNWRITABLE, seen=str(error), do="free space there, or write elsewhere") from error


def progress(line: str) -> None:
    """One line about what a long step is doing, on stderr."""
    click.echo(line, err=True)


def fact_text(fact: Fact[T], show: "Callable[[T], str]" = str) -> str:
    """The value, or `unknown: why`."""
    if isinstance(fact, Known):
        return show(fact.value)
    return f"unknown: {fact.why}"


def bold(text: str, colour: str | None = None) -> str:
    """Bold on a terminal; as it is where NO_COLOR is set. Source: no-color.org."""
    return text if os.environ.get("NO_COLOR") else click.style(text, fg=colour, bold=True)


def finding_text(finding: Finding) -> str:
    """Severity, code and sentence; then evidence and remedy, each on one line, however long: they are copied."""
    head = f"{finding.severity}[{finding.code}]"
    first, *further = wrapped(f"{head}: ", finding.what, hang=2)
    lines = [first.replace(head, bold(head, _COLOURS[finding.severity]), 1), *further]
    if finding.seen:
        lines.append(f"  seen: {finding.seen}")
    if finding.do:
        lines.append(f"  do:   {finding.do}")
    return "\n".join(lines)


def findings_text(findings: Iterable[Finding]) -> str:
    return "\n".join(finding_text(finding) for finding in findings)


def error_json(code: str, what: str, *, seen: str = "", do: str = "") -> None:
    """An obstacle as the one document on stdout, so that a script sees it."""
    click.echo(json.dumps({"error": {"code": code, "what": what, "seen": seen, "do": do}}, ensure_ascii=False))


def show_error(error: HolddownError, *, as_json: bool) -> None:
    """An obstacle: what, seen, do. With `--json` also as an object on stdout, so that a script sees it."""
    if as_json and error.code != _UNWRITABLE:
        error_json(error.code, error.what, seen=error.seen, do=error.do)
    head = bold(f"error[{error.code}]", "red")
    click.echo(f"{head}: {error.what}", err=True)
    if error.seen:
        click.echo(f"  seen: {error.seen}", err=True)
    if error.do:
        click.echo(f"  do:   {error.do}", err=True)
    sys.stderr.flush()
