"""A deployment's record as one page of HTML."""

from holddown import __version__, ports
from holddown.explain.report.page import page
from holddown.explain.report.told import Told
from holddown.explain.starts import starts_of
from holddown.remember.record import Deployment
from holddown.remember.run import BenchRun, VerifyRun


def told(deployment: Deployment, store: ports.Store, clock: ports.Clock) -> Told:
    """What is on record of it: the newest load run with figures, and the newest verification."""
    runs = store.runs(deployment.birth.id)
    bench = next((run for run in runs if isinstance(run, BenchRun) and run.phases), None)
    verify = next((run for run in runs if isinstance(run, VerifyRun)), None)
    return Told(deployment, starts_of(deployment, store.get), bench, verify, clock.now(), __version__)


def report(of: Told, charts: ports.Charts) -> str:
    return page(of, charts.draw)
