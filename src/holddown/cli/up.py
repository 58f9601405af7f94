"""`holddown up`: from a checkpoint to a released deployment."""

from typing import Any

import click

from holddown import wiring
from holddown.app import prepare as preparing
from holddown.app import up as launching
from holddown.app.down import down
from holddown.app.prepare import Request
from holddown.base.finding import blocking
from holddown.cli.deployments import attended
from holddown.cli.output import answer, findings_text, json_option, progress
from holddown.cli.start import Words, come_up, exit_code, request_of, start_options, taken
from holddown.cli.views import released_text
from holddown.cli.workload import workload_of
from holddown.explain.plan_text import no_plan_text, plan_text
from holddown.plan.plan import NoPlan


@click.command(name="up")
@click.argument("path")
@start_options
@click.option("--replace", is_flag=True, help="Stop the deployment that is up under this name first.")
@json_option
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Plan, launch, verify, measure and release a deployment of the checkpoint at PATH.

    PATH is a checkpoint directory, a GGUF file, a repository id in the local hub cache, `demo` or `demo-gguf`.
    """
    stop = bool(options.pop("replace"))
    words = Words(workload=workload_of(options), **options)
    as_json = words.as_json
    request = request_of(words)
    doors = attended()
    preparing.check_words(request)
    if not words.dry_run:
        _make_way(ctx, request, doors, stop=stop)
    prepared = preparing.prepare(request, wiring.written_folders(), wiring.prepare_doors(doors, progress))
    if isinstance(prepared, NoPlan):
        answer(prepared, no_plan_text(prepared), as_json=as_json)
        ctx.exit(1)
    if words.dry_run:
        text = "\n".join(filter(None, [plan_text(prepared.plan, prepared.spec), findings_text(prepared.findings)]))
        answer(prepared, text, as_json=as_json)
        ctx.exit(1 if prepared.blocked else 0)
    if prepared.findings:
        progress(findings_text(prepared.findings))
    if prepared.blocked:
        answer(prepared, "not started", as_json=as_json)
        ctx.exit(1)
    deployment = come_up(prepared, request, words, doors)
    answer(deployment, released_text(deployment), as_json=as_json)
    ctx.exit(exit_code(deployment))


def _make_way(ctx: click.Context, request: Request, doors: launching.Doors, *, stop: bool) -> None:
    """The one that is up under this name is stopped before the plan is made: its port and GPUs are free then.

    Nothing is stopped for a checkpoint that cannot be served. Raises: UsageError when there is one and it is not to be
    replaced.
    """
    there = doors.store.latest(request.name)
    if there is None or there.status.state.over or there.birth.name != request.name:
        return
    if not stop:
        raise taken(there)
    faults = blocking(wiring.checkpoints().inspect(request.path).findings)
    if faults:
        progress(findings_text(faults))
        progress(f"{there.birth.name} was left as it is: {there.label}")
        ctx.exit(1)
    progress(f"stopping {there.birth.name}, which is {there.label}")
    down(there, doors)
