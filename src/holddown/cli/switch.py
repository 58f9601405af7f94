"""`holddown switch`."""

from dataclasses import replace
from typing import Any

import click

from holddown import wiring
from holddown.app import prepare as preparing
from holddown.app import up as launching
from holddown.app.prepare import Prepared, Request
from holddown.app.switch import Starts, Switched, drain, put_back, switch
from holddown.base.errors import HolddownError, LaunchError, UsageError
from holddown.cli.deployments import attended, named
from holddown.cli.output import answer, findings_text, json_option, progress
from holddown.cli.start import Words, come_up, request_of, start_options, watch
from holddown.cli.views import released_text
from holddown.cli.workload import workload_of
from holddown.explain.plan_text import no_plan_text, plan_text
from holddown.launch.lifecycle import State
from holddown.plan.plan import NoPlan
from holddown.remember.record import Deployment


@click.command(short_help="One deployment in another's place.")
@click.argument("before", metavar="NAME")
@click.argument("path")
@start_options
@click.option(
    "--drain",
    "drain_s",
    default=30.0,
    show_default=True,
    type=click.FloatRange(0),
    help="Seconds that running requests have to end.",
)
@json_option
@click.pass_context
def command(ctx: click.Context, /, before: str, drain_s: float, **options: Any) -> None:
    """Stop the deployment NAME and bring up the checkpoint at PATH in its place, on its port.

    All that can be asked of the new one is asked while NAME serves: checkpoint, plan, and this machine as it will be
    without NAME. If the new one fails, at whatever point, NAME is started again from its record, with its checks.

    Exit codes as of `up`; 1 also where nothing was stopped because the new one cannot run here.
    """
    words = Words(workload=workload_of(options), **options)
    doors = attended()
    there = _serving(before, doors)
    request = replace(request_of(words), in_place_of=there.birth.id)
    preparing.check_words(request)
    prepared = _prepared(ctx, request, words, there, doors)
    if words.dry_run:
        answer(prepared, plan_text(prepared.plan, prepared.spec), as_json=words.as_json)
        return
    birth = there.birth
    drain(wiring.endpoint(birth), birth.engine.kind, doors.clock, drain_s, progress)
    done = switch(there, request.name, _starts(request, words, there, doors), doors, progress)
    answer(_document(done), _text(done, there), as_json=words.as_json)
    ctx.exit(0 if done.done else 4)


def _serving(name: str, doors: launching.Doors) -> Deployment:
    """Raises: UsageError where there is nothing to take the place of."""
    there = named(name, doors.store)
    if there.status.state is State.RELEASED:
        return there
    raise UsageError(
        f"{name} is {there.label}: there is nothing that serves in whose place to start another",
        code="usage.not-released",
        seen=f"id {there.birth.id}",
        do="holddown up PATH",
    )


def _prepared(
    ctx: click.Context, request: Request, words: Words, there: Deployment, doors: launching.Doors
) -> Prepared:
    """While the other one serves."""
    found = preparing.prepare(request, wiring.written_folders(), wiring.prepare_doors(doors, progress))
    if isinstance(found, NoPlan):
        answer(found, no_plan_text(found), as_json=words.as_json)
    elif found.findings:
        progress(findings_text(found.findings))
    if isinstance(found, NoPlan) or found.blocked:
        progress(f"{there.birth.name} was left as it is: {there.label}")
        ctx.exit(1)
    return found


def _starts(request: Request, words: Words, there: Deployment, doors: launching.Doors) -> Starts:
    def after(hear: Any) -> Deployment:
        """Planned once more, on the machine as it is now. Raises: HolddownError."""
        found = preparing.prepare(request, wiring.written_folders(), wiring.prepare_doors(doors, progress))
        if isinstance(found, NoPlan):
            raise LaunchError("there is no plan for it any more", code="switch.no-plan", seen=found.what)
        if found.blocked:
            first = found.blocked[0]
            raise LaunchError(first.what, code=first.code, seen=first.seen, do=first.do)
        return come_up(found, request, words, doors, hear)

    def back() -> Deployment:
        return watch(put_back(there, wiring.once_more(doors), wiring.supervisor_log, doors), doors)

    return Starts(after, back)


def _text(done: Switched, there: Deployment) -> str:
    if done.done:
        return f"{released_text(done.deployment)}\n  outage    {done.outage_s:.1f} s"
    parts = [released_text(done.failed) if done.failed else "", _obstacle(done.obstacle) if done.obstacle else ""]
    back = done.deployment
    again = back.status.state is State.RELEASED
    said = f"{there.birth.name} serves again" if again else f"{there.birth.name} did not come back: it is {back.label}"
    parts += [f"{said}, id {back.birth.id}, after {done.outage_s:.1f} s without"]
    parts += [] if again else [released_text(back)]
    return "\n\n".join(filter(None, parts))


def _obstacle(error: HolddownError) -> str:
    return f"not started: {error.what}" + (f"\n  seen: {error.seen}" if error.seen else "")


def _document(done: Switched) -> dict[str, Any]:
    from holddown.base.codec import dump

    return {
        "switched": done.done,
        "outage_s": round(done.outage_s, 1),
        "deployment": dump(done.deployment),
        "failed": dump(done.failed) if done.failed else None,
        "obstacle": done.obstacle.what if done.obstacle else None,
    }
