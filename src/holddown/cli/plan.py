"""`holddown plan`."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from holddown import wiring
from holddown.app.plan import plan
from holddown.app.prepare import check_settings
from holddown.base.finding import blocking
from holddown.cli.output import answer, findings_text, json_option, progress
from holddown.cli.settings import settings_of
from holddown.cli.site import site_of
from holddown.cli.workload import workload_of, workload_options
from holddown.explain.plan_document import plan_document
from holddown.explain.plan_text import no_plan_text, plan_text
from holddown.launch.spec import Binding
from holddown.plan.plan import NoPlan
from holddown.plan.wishes import Wishes


@click.command(short_help="How a checkpoint should run on a machine, and how fast.")
@click.argument("path")
@click.option("--node", "node_file", metavar="FILE", help="Plan for the machine that `node --json` wrote down.")
@click.option("--gpus", metavar="GPUS", help="Plan for these, `8x H200 SXM`; or indices of a machine's, `0,1`.")
@click.option("--fabric", metavar="NAME", help="What connects them: nvlink, pcie-switch, pcie-dual-socket, ...")
@click.option("--engine", default="", metavar="NAME[@VERSION]", help="Which build; also one not installed here.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of the engine that is fixed.")
@click.option("--ask-engine", is_flag=True, help="Ask the build's own selectors; about 20 s, once per question.")
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
    site, indices = site_of(words["node_file"], words["gpus"], words["fabric"])
    wishes = Wishes(
        served_model_name=words["name"] or Path(path).resolve().name.removesuffix(".gguf"),
        engine=words["engine"],
        gpus=indices,
        settings=settings,
        workload=workload,
    )
    records = wiring.existing_store() if site.here else None
    trusted = records.trusted() if records else ()
    planned = plan(path, site, wishes, wiring.plan_doors(_quiet), trusted, ask=words["ask_engine"])
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
