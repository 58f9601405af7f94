"""`holddown verify`."""

from dataclasses import replace
from typing import Any

import click

from holddown import wiring
from holddown.app.verify_target import Wanted, verify_target
from holddown.base.errors import UsageError
from holddown.cli.output import answer, json_option, progress
from holddown.cli.reference import reference, write
from holddown.cli.target import asked, target_options
from holddown.explain.happening import verdict_text
from holddown.explain.verify_text import run_text
from holddown.verify.quality import NAME
from holddown.verify.suite import NAMES
from holddown.verify.verdict import Outcome, Verdict

_CHECK = click.Choice(NAMES)


@click.command(short_help="Whether a server is right: a suite of checks, whoever started it.")
@click.argument("target", metavar="TARGET")
@click.option("--check", type=_CHECK, metavar="NAME", multiple=True, help="Only this check.")
@click.option("--skip-check", type=_CHECK, metavar="NAME", multiple=True, help="Not this check.")
@click.option("--quick", is_flag=True, help="Only checks that take seconds on a small machine.")
@click.option("--intrusive", is_flag=True, help="Checks that load or abuse a server, on one that is not ours, too.")
@click.option("--against", default="", metavar="WHAT", help="A reference: a name, a URL, a file, or a run's id.")
@click.option("--save-reference", default="", metavar="FILE", help="Keep what it thinks of fixed passages, to compare.")
@target_options
@json_option
@click.pass_context
def command(ctx: click.Context, /, target: str, model: str, api_key_file: str | None, **words: Any) -> None:
    """Whether a server is right. TARGET is a deployment's name, or the URL of any OpenAI-compatible server.

    \b
    holddown verify demo
    holddown verify http://10.0.0.7:8000 --quick
    holddown verify demo --check tool-call --check tool-stream
    holddown verify demo --save-reference good.json
    holddown verify demo --check quality --against good.json

    Which checks fit is told by the model and by the engine; a model too small for one makes it `inconclusive`, which is
    not `passed`. Exit code 1 when a check fails.
    """
    only, save = frozenset(words["check"]), words["save_reference"]
    if only == {NAME} and not (words["against"] or save):
        what = f"the check {NAME} compares, and nothing is named to compare with"
        raise UsageError(what, code="usage.against", do="--against NAME, URL, FILE or a run's id")
    server = asked(target, model, api_key_file)
    wanted = Wanted(
        only=only,
        skip=frozenset(words["skip_check"]),
        quick=words["quick"],
        intrusive=words["intrusive"],
        against=reference(words["against"], api_key_file) if words["against"] else None,
        keep=bool(save),
    )
    run = verify_target(server, wanted, wiring.verify_doors(_begins), _say)
    if save and run.reference is not None:
        write(run.reference, save)
    shown = replace(run, reference=None)
    answer(shown, run_text(run), as_json=words["as_json"])
    if run.cut:
        ctx.exit(130)
    not_kept = bool(save) and run.reference is None
    ctx.exit(1 if not_kept or any(verdict.outcome is Outcome.FAILED for verdict in run.verdicts) else 0)


def _begins(check: str) -> None:
    progress(f"asking  {check} ...")


def _say(verdict: Verdict) -> None:
    progress(verdict_text(verdict))
