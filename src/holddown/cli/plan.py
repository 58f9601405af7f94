"""`holddown plan`."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from holddown import wiring
from holddown.app.plan import plan
from holddown.app.prepare import check_settings
from holddown.base.codec import load
from holddown.base.errors import MachineError, UsageError
from holddown.base.evidence import Known, Source, SourceKind
from holddown.base.finding import blocking
from holddown.cli.output import answer, findings_text, json_option, progress
from holddown.cli.settings import gpu_indices, settings_of
from holddown.cli.workload import workload_of, workload_options
from holddown.explain.plan_document import plan_document
from holddown.explain.plan_text import no_plan_text, plan_text
from holddown.facts.machine import MachineFacts
from holddown.launch.spec import Binding
from holddown.plan.fabric import named_fabric, usual_fabric
from holddown.plan.named_machine import named_gpus, named_machine
from holddown.plan.plan import NoPlan
from holddown.plan.site import Site
from holddown.plan.wishes import Wishes
from holddown.remember.calibrate import calibrations
from holddown.remember.record import gpu_claims
from holddown.tables.gpu import FabricRow, GpuRow
from holddown.tables.load import gpu_row


@click.command(short_help="How a checkpoint should run on a machine, and how fast.")
@click.argument("path")
@click.option("--node", "node_file", metavar="FILE", help="Plan for the machine that `node --json` wrote down.")
@click.option("--gpus", metavar="GPUS", help="Plan for these, `8x H200 SXM`; or indices of a machine's, `0,1`.")
@click.option("--fabric", metavar="NAME", help="What connects them: nvlink, pcie-switch, pcie-dual-socket, ...")
@click.option("--engine", default="", metavar="NAME[@VERSION]", help="Which build; also one not installed here.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of the engine that is fixed.")
@click.option("--name", "name", default="", help="What clients will call the model.")
@workload_options
@json_option
@click.pass_context
def command(ctx: click.Context, /, **words: Any) -> None:
    """How the checkpoint at PATH should run, from its headers alone: split, memory, context, speed, and
    the exact command with a because for every flag.

    PATH is what `inspect` takes, or a directory that holds only config.json. Without --node and --gpus the plan is
    for this machine. Nothing is started. Exit code 1 when there is no plan.
    """
    workload = workload_of(words)
    settings = settings_of(words["settings"])
    # a plan is copied and run by hand: it may hold no more than `up` would start
    check_settings(settings)
    as_json, path = words["as_json"], wiring.checkpoint_path(words["path"])
    site, indices = _site(words["node_file"], words["gpus"], words["fabric"])
    wishes = Wishes(
        served_model_name=words["name"] or Path(path).resolve().name.removesuffix(".gguf"),
        engine=words["engine"],
        gpus=indices,
        settings=settings,
        workload=workload,
    )
    records = wiring.existing_store() if site.here else None
    planned = plan(path, site, wishes, wiring.plan_doors(_quiet), records.trusted() if records else ())
    if isinstance(planned, NoPlan):
        answer(plan_document(planned), no_plan_text(planned), as_json=as_json)
        ctx.exit(1)
    spec = planned.command(Binding())
    document = plan_document(replace(planned.plan, findings=planned.findings), spec)
    texts = [plan_text(planned.plan, spec), findings_text(planned.findings)]
    if blocking(planned.findings):
        texts.reverse()  # what forbids it comes before a command that could be pasted
    answer(document, "\n\n".join(filter(None, texts)), as_json=as_json)
    if blocking(planned.findings):
        ctx.exit(1)


def _quiet(line: str) -> None:
    """A plan takes less than a second: only what takes longer, asking a build for the first time, is said."""
    if not line.startswith("inspecting"):
        progress(line)


def _site(node_file: str | None, gpus: str | None, fabric: str | None) -> tuple[Site, tuple[int, ...] | None]:
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
