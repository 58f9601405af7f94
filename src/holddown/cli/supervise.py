"""`holddown supervise ID`: the supervisor's own program, started by `up` and by whatever finds one missing."""

import os
import sys
import traceback
from collections.abc import Callable

import click

from holddown import wiring
from holddown.app import supervise as supervising
from holddown.base.errors import HolddownError, UsageError
from holddown.cli.output import show_error


@click.command(name="supervise", hidden=True)
@click.argument("deployment_id")
def command(deployment_id: str) -> None:
    """Runs until the deployment is over. Not for people."""
    to_its_end(lambda: _supervise(deployment_id))


def to_its_end(job: Callable[[], int]) -> None:
    """Runs it, says what went wrong in its own log, and ends this program with its exit code. Not by the interpreter's
    end, which waits for every thread: a request that an engine never answers would keep a supervisor that has nothing
    left to supervise."""
    code = 70
    try:
        code = job()
    except HolddownError as error:
        show_error(error, as_json=False)
        code = error.exit_code
    finally:
        if code == 70:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _supervise(deployment_id: str) -> int:
    store = wiring.store()
    if store.get(deployment_id) is None:
        raise UsageError(f"no deployment {deployment_id}", code="usage.no-deployment")
    with wiring.only_one(deployment_id) as first:
        deployment = store.get(deployment_id)
        if first and deployment is not None:  # else another took over in the same instant
            doors = wiring.supervisor_doors(deployment.birth, store)
            supervising.supervise(deployment.birth, deployment.status, doors)
    return 0
