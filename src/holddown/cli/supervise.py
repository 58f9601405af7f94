"""`holddown supervise ID`: the supervisor's own program, started by `up` and by whatever finds one missing."""

import sys
import time

import click

from holddown import wiring
from holddown.app import supervise as supervising
from holddown.base.errors import HolddownError, UsageError
from holddown.base.finding import Finding, Severity


@click.command(name="supervise", hidden=True)
@click.argument("deployment_id")
def command(deployment_id: str) -> None:
    """Runs until the deployment is over. Not for people."""
    store = wiring.store()
    deployment = store.get(deployment_id)
    if deployment is None:
        raise UsageError(f"no deployment {deployment_id}", code="usage.no-deployment")
    with wiring.only_one(deployment_id) as first:
        if not first:
            return  # another took over in the same instant
        deployment = store.get(deployment_id) or deployment
        doors = wiring.supervisor_doors(deployment.birth, store)
        try:
            supervising.supervise(deployment.birth, deployment.status, doors)
        except HolddownError as error:
            cause = Finding(error.code, Severity.BLOCK, deployment.birth.name, error.what, error.seen, error.do)
            supervising.record_failure(deployment.birth, deployment.status, cause, store, time.time())
            print(error.what, file=sys.stderr)  # noqa: T201 - its own log
