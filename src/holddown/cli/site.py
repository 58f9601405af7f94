"""`--node`, `--gpus` and `--fabric`: the machine that a verb speaks of."""

import json
import re
from dataclasses import replace
from pathlib import Path

from holddown import wiring
from holddown.base.codec import load
from holddown.base.errors import MachineError, UsageError
from holddown.base.evidence import Known, Source, SourceKind
from holddown.cli.settings import gpu_indices
from holddown.facts.machine import MachineFacts
from holddown.plan.fabric import named_fabric, usual_fabric
from holddown.plan.named_machine import named_gpus, named_machine
from holddown.plan.site import Site
from holddown.remember.calibrate import calibrations
from holddown.remember.record import gpu_claims
from holddown.tables.gpu import FabricRow, GpuRow
from holddown.tables.load import gpu_row


def site_of(node_file: str | None, gpus: str | None, fabric: str | None) -> tuple[Site, tuple[int, ...] | None]:
    """Where to plan for, and which of its GPUs the user named. Raises: UsageError, MachineError."""
    if gpus is not None and not re.fullmatch(r"[\d,\s]+", gpus):
        if node_file is not None:
            what = "--node names a machine and --gpus another"
            raise UsageError(what, code="usage.gpus", do="leave one out, or --gpus 0,1 for some of the machine's")
        count, row = named_gpus(gpus)
        usual = Known(usual_fabric(row), Source(SourceKind.TABLE, f"usual for {row.name}"))
        between = _between(fabric, row) if fabric else usual
        return Site(named_machine(count, row, between.value), fabric=between, here=False), None
    machine = _snapshot(node_file) if node_file else wiring.host().facts()
    store = None if node_file else wiring.existing_store()
    records = store.all() if store else ()
    claims = gpu_claims(each for each in records if not each.status.state.over)
    site = Site(machine, claims, here=node_file is None, calibrations=calibrations(records))
    if fabric is not None:
        if not machine.gpus:
            raise UsageError(f"--fabric {fabric}: there are no GPUs", code="usage.fabric", seen=machine.gpus_because)
        site = replace(site, fabric=_between(fabric, gpu_row(machine.gpus[0].name)))
    return site, None if gpus is None else gpu_indices(gpus)


def _between(fabric: str, row: GpuRow) -> Known[FabricRow]:
    return Known(named_fabric(fabric, row), Source(SourceKind.USER, f"--fabric {fabric}"))


def _snapshot(file: str) -> MachineFacts:
    do = "holddown node --json > FILE   on that machine"
    try:
        return load(MachineFacts, json.loads(Path(file).read_text(encoding="utf-8")))
    except OSError as error:
        raise UsageError(f"{file} cannot be read", code="usage.node", seen=str(error), do=do) from error
    except (ValueError, RecursionError) as error:
        what = f"{file} is no description of a machine"
        raise MachineError(what, code="machine.snapshot", seen=str(error)[:300], do=do) from error
