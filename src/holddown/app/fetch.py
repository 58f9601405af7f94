"""Getting the small demo chat model."""

from dataclasses import dataclass

from holddown.facts.fetched import FetchedModel
from holddown.facts.model import Inspection
from holddown.ports import Checkpoints, DemoModel, Progress


@dataclass(frozen=True, slots=True)
class Fetch:
    """What came, and what it is as `inspect` sees it."""

    fetched: FetchedModel
    inspection: Inspection


def fetch(demo: DemoModel, checkpoints: Checkpoints, progress: Progress) -> Fetch:
    """Raises: UsageError when the `demo` extra is missing, FactError when the model cannot be had."""
    fetched = demo.fetch(progress)
    return Fetch(fetched, checkpoints.inspect(fetched.path))
