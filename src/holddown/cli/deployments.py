"""What every verb about deployments does first."""

from holddown import ports, wiring
from holddown.app.attend import attend
from holddown.app.switch import cut_short, put_back
from holddown.app.up import Doors
from holddown.base.errors import HolddownError, UsageError
from holddown.cli.output import finding_text, progress
from holddown.remember.record import Deployment


def attended() -> Doors:
    """Looks after deployments that lost their supervisor, and says so."""
    doors = wiring.up_doors()
    for finding in attend(doors, wiring.boot_id(), wiring.supervisor_log).findings:
        progress(finding_text(finding))
    for before in cut_short(doors):
        _put_back(before, doors)
    return doors


def _put_back(before: Deployment, doors: Doors) -> None:
    """Of a `switch` that was killed after it had stopped this one, and before the other served."""
    progress(f"a switch from {before.birth.name} was cut short: it is started again")
    try:
        put_back(before, wiring.once_more(doors), wiring.supervisor_log, doors)
    except HolddownError as error:
        progress(f"{error.what}; {before.birth.up_again}")
    doors.store.end_switching(before.birth.id)


def named(name: str, store: ports.Store) -> Deployment:
    """Raises: UsageError naming what there is."""
    deployment = store.latest(name)
    if deployment is None:
        known = sorted({each.birth.name for each in store.all()})
        raise UsageError(
            f"no deployment is called {name}",
            code="usage.no-deployment",
            seen=f"on record: {', '.join(known)}" if known else "nothing is on record",
            do="holddown list",
        )
    return deployment
