"""`holddown down NAME`."""

import click

from holddown.app.down import down
from holddown.base.units import duration_text
from holddown.cli.deployments import attended, named
from holddown.cli.output import answer, json_option, progress
from holddown.launch.lifecycle import State


@click.command(name="down")
@click.argument("name")
@json_option
def command(name: str, as_json: bool) -> None:
    """Stop the deployment NAME: its engine, and every process and shared memory segment of it."""
    doors = attended()
    deployment = named(name, doors.store)
    if not deployment.status.state.over:
        progress(f"stopping {deployment.birth.name}, which is {deployment.label}")
    begun = doors.clock.monotonic()
    stopped = down(deployment, doors)
    status = stopped.deployment.status
    if stopped.was_over:
        text = f"{name} is not up: it {'failed' if status.state is State.FAILED else 'was stopped'} before"
    else:
        text = f"{name} is {status.state} after {duration_text(doors.clock.monotonic() - begun)}"
    answer(stopped, text, as_json=as_json)
