"""`holddown clean`."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import click

from holddown import wiring
from holddown.app.clean import Survey, Suspect, Swept, known_engines, survey, sweep
from holddown.base.units import size_text
from holddown.cli.output import answer, fact_text, json_option, progress
from holddown.facts.leftovers import Ended, FoundFile, Kept, Kind, KnownEngine
from holddown.launch.leftovers import Standing
from holddown.ports import Host, Leftovers

_TITLE = 100
_STAYING = 5


@click.command(short_help="What dead engines left behind, and removing it.")
@click.option("--yes", is_flag=True, help="Do it without asking.")
@click.option("--pid", "pids", type=int, multiple=True, metavar="N", help="End this process too, whoever started it.")
@click.option("--dry-run", is_flag=True, help="Only show.")
@json_option
@click.pass_context
def command(ctx: click.Context, yes: bool, pids: tuple[int, ...], dry_run: bool, as_json: bool) -> None:
    """What dead engines left behind: orphaned processes, shared memory, sockets. Shows each with
    its proof, asks, and removes what is provably nobody's.

    A file goes only when it is yours, older than five minutes and used by no process that is or
    could be there. Processes that holddown started and lost are ended; anybody else's only when
    named with --pid. With no terminal to ask on, nothing is done without --yes.

    Exit code 1: something was found and is still there.
    """
    ctx.exit(clean(wiring.host(), wiring.leftovers(), _known_engines(), Wish(yes, pids, dry_run, as_json)))


@dataclass(frozen=True, slots=True)
class Wish:
    """The command line. pids: those to end whoever started them."""

    yes: bool = False
    pids: tuple[int, ...] = ()
    dry_run: bool = False
    as_json: bool = False


def clean(host: Host, leftovers: Leftovers, known: tuple[KnownEngine, ...], wish: Wish) -> int:
    """Shows, asks, does, says what is left. Gives the exit code."""
    shown = survey(host, leftovers, known, wish.pids)
    text = "\n".join(_survey_text(shown))
    if wish.dry_run or not (shown.ending or shown.removable):
        answer(shown, text, as_json=wish.as_json)
        return 0 if shown.clean else 1
    if not wish.as_json:
        click.echo(text)
    if not wish.yes and not _agreed(shown, as_json=wish.as_json):
        if wish.as_json:
            answer(shown, text, as_json=True)
        progress("nothing was done")
        return 1
    swept = sweep(host, leftovers, known, shown, wish.pids)
    answer(swept, "\n".join(_swept_text(swept)), as_json=wish.as_json)
    return 0 if swept.left.clean else 1


def _known_engines() -> tuple[KnownEngine, ...]:
    """Every engine on record. Raises: StoreError: without the record nothing is judged."""
    return known_engines(wiring.store().all())


def _agreed(shown: Survey, *, as_json: bool) -> bool:
    """Asks; where nobody can answer, the answer is no."""
    # stdin is None where it was closed, as under some service managers
    if as_json or sys.stdin is None or not sys.stdin.isatty():
        progress("there is no terminal to ask on; --yes does it without asking")
        return False
    counts = ((len(shown.ending), "end {} process(es)"), (len(shown.removable), "remove {} file(s)"))
    question = " and ".join(text.format(count) for count, text in counts if count)
    return click.confirm(question.capitalize() + "?")


# --- text ---------------------------------------------------------------------------------------------------


def _survey_text(shown: Survey) -> Iterator[str]:
    if shown.suspects:
        yield "processes"
    for suspect in shown.suspects:
        yield from _suspect_text(suspect)
    yield from _files_text(shown)
    if shown.in_use:
        yield f"{shown.in_use} process(es) of deployments on record as up: left to holddown status and down"
    if shown.clean:
        yield "nothing is left of dead engines"


def _suspect_text(suspect: Suspect) -> Iterator[str]:
    process = suspect.verdict.process
    since = datetime.fromtimestamp(process.started_unix).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    fate = "to end" if suspect.may_end else "left"
    yield f"  {fate:<10} pid {process.pid} of {process.user} since {since}: {_short(process.title)}"
    yield f"             {suspect.verdict.because}"
    held = [f"{size_text(process.rss_bytes)} of memory"]
    held += [f"{fact_text(share.holder.used_bytes, size_text)} of GPU {share.gpu}" for share in suspect.gpus]
    held += suspect.held.shm
    held += [f"port {port}" for port in suspect.held.ports]
    yield f"             holds {', '.join(held)}"
    if not suspect.may_end:
        yield f"             do: holddown clean --pid {process.pid}"


def _short(title: str) -> str:
    return title if len(title) <= _TITLE else title[: _TITLE - 1] + "…"


def _files_text(shown: Survey) -> Iterator[str]:
    """By standing and reason: an engine leaves eight sockets at once, all for one reason."""
    held = {suspect.verdict.process.pid for suspect in shown.suspects}
    used = [one for one in shown.files if one.standing is Standing.IN_USE and held.isdisjoint(one.holders)]
    told = [one for one in shown.files if one not in used]
    reasons = dict.fromkeys((one.standing, one.because) for one in told)
    for standing, because in sorted(reasons, key=lambda reason: list(Standing).index(reason[0])):
        yield f"{standing}: {because}"
        lines = [_file_text(one.file) for one in told if (one.standing, one.because) == (standing, because)]
        # what will go is named to the last; of what stays, enough to know it by
        count = len(lines) if standing is Standing.DEAD or len(lines) <= _STAYING + 1 else _STAYING
        yield from lines[:count]
        if lines[count:]:
            yield f"  ... and {len(lines) - count} more (--json names them)"
    if used:
        yield f"{len(used)} file(s) in use by live processes: no leftovers (--json names them)"


def _file_text(file: FoundFile) -> str:
    what = file.form if file.kind is Kind.SOCKET else file.kind
    return f"  {file.path}  {what}, {size_text(file.size_bytes)}, {file.owner}"


def _swept_text(swept: Swept) -> Iterator[str]:
    for result in swept.ended:
        if isinstance(result, Ended):
            yield f"ended      pid {result.pid} ({result.signal})"
        else:
            yield f"not ended  pid {result.pid}: {result.why}"
    for outcome in swept.files:
        if isinstance(outcome, Kept):
            yield f"kept       {outcome.path}: {outcome.why}"
        else:
            yield f"removed    {outcome.path}"
    if swept.left.clean:
        yield "nothing is left of dead engines"
        return
    yield "still there"
    yield from _survey_text(swept.left)
