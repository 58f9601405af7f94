"""`holddown list`."""

import click

from holddown.cli.deployments import attended
from holddown.cli.output import answer, json_option
from holddown.cli.views import table_text


@click.command(name="list")
@json_option
def command(as_json: bool) -> None:
    """Every deployment on record, oldest first."""
    deployments = attended().store.all()
    answer(deployments, table_text(deployments), as_json=as_json)
