"""What a report is made of: the newest runs with figures, and the starts before it."""

from dataclasses import replace

from fakes.clock import FakeClock
from fakes.reports import a_deployment, a_failed_start, a_sweep, a_verification
from fakes.store import FakeStore
from holddown.app.report import told


def test_the_newest_run_with_figures_counts() -> None:
    """One that was cut before its first load has none; a verification is found among load runs."""
    there = a_deployment()
    store = FakeStore(
        kept_runs=[replace(a_sweep("be0c0003"), phases=()), a_verification(), a_sweep("be0c0002"), a_sweep()]
    )
    of = told(there, store, FakeClock())
    assert of.bench is not None and of.bench.id == "be0c0002"
    assert of.verify is not None and of.verify.id == "ce000001"
    assert of.starts == (there,)


def test_the_starts_before_it_come_along() -> None:
    """The first one first."""
    failed = a_failed_start()
    there = a_deployment()
    there = replace(there, birth=replace(there.birth, after=failed.birth.id))
    store = FakeStore(births={failed.birth.id: failed.birth}, statuses={failed.birth.id: failed.status})
    of = told(there, store, FakeClock())
    assert of.starts == (failed, there)
    assert (of.bench, of.verify) == (None, None)
