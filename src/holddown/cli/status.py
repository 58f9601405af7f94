"""`holddown status [NAME]`."""

import click

from holddown import wiring
from holddown.app.watch import load_of
from holddown.base.errors import UsageError
from holddown.cli.deployments import attended, named
from holddown.cli.output import answer, json_option
from holddown.cli.views import load_lines, status_text, table_text
from holddown.cli.watching import watch
from holddown.launch.lifecycle import State


@click.command(name="status")
@click.argument("name", required=False)
@click.option("--watch", "is_watched", is_flag=True, help="Keep looking at NAME until it is over or Ctrl-C.")
@json_option
@click.pass_context
def command(ctx: click.Context, name: str | None, is_watched: bool, as_json: bool) -> None:
    """How the deployment NAME is, or a line for each that is up. Exit code 1 when NAME is not up."""
    doors = attended()
    if is_watched:
        if name is None:
            raise UsageError("--watch looks at one deployment", code="usage.watch", do="holddown status NAME --watch")
        last = watch(named(name, doors.store), doors, as_json=as_json)
        ctx.exit(1 if last.is_over else 0)
    if name is None:
        active = doors.store.all(active_only=True)
        answer(active, table_text(active) if active else "nothing is up", as_json=as_json)
        return
    deployment = named(name, doors.store)
    text = status_text(deployment, wiring.clock().now())
    if deployment.status.state in (State.RELEASED, State.STUCK) and not as_json:
        load = load_of(wiring.endpoint(deployment.birth), deployment.birth.engine.kind)
        text = "\n".join([text, *load_lines(load)])
    answer(deployment, text, as_json=as_json)
    ctx.exit(1 if deployment.status.state.over else 0)
