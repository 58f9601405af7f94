"""`holddown logs [-f] NAME`."""

from pathlib import Path

import click

from holddown import wiring
from holddown.base.errors import UsageError
from holddown.cli.deployments import attended, named
from holddown.cli.output import answer, json_option, progress


@click.command(name="logs")
@click.argument("name")
@click.option("-f", "--follow", is_flag=True, help="Go on until the deployment is over, or Ctrl-C.")
@click.option(
    "-n", "--lines", default=200, show_default=True, type=click.IntRange(0), help="How many of the last lines."
)
@json_option
def command(name: str, follow: bool, lines: int, as_json: bool) -> None:
    """The log of the engine behind the deployment NAME, as the engine wrote it."""
    if follow and as_json:
        raise UsageError(
            "--json is one document, and --follow has lines as they come",
            code="usage.follow-json",
            do=f"holddown logs {name} -f    or    holddown logs {name} --json",
        )
    doors = attended()
    deployment = named(name, doors.store)
    path = deployment.birth.log_path
    if not Path(path).exists():
        progress(f"no log yet: {path}")
    log = wiring.log(path, from_end=True)
    tail = log.tail(lines)
    if tail or as_json:  # no line is no empty line
        answer(tail, "\n".join(tail), as_json=as_json)
    while follow and not deployment.status.state.over:
        deployment = named(deployment.birth.id, doors.store)
        for line in log.new():
            click.echo(line)
        doors.clock.sleep(0.3)
