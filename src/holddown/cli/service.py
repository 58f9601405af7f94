"""`holddown service`: a released deployment under systemd."""

import os
import re

import click

from holddown import wiring
from holddown.app import serve as serving
from holddown.app import service as app
from holddown.app.service import Installed, Removed
from holddown.base.errors import UsageError
from holddown.cli.deployments import attended, named
from holddown.cli.output import answer, findings_text, json_option, progress
from holddown.cli.supervise import to_its_end
from holddown.cli.views import failed_text
from holddown.launch.lifecycle import State
from holddown.remember.record import Birth

_MEANT_TO_STOP = ("success", "timeout")
system_option = click.option("--system", is_flag=True, help="A unit of the system, not of your own service manager.")


@click.group(no_args_is_help=True)
def command() -> None:
    """A released deployment as a systemd service: started with the machine, and again after a failure, each time with
    the same checks before it counts as started.

    \b
    holddown service install chat       for your own service manager; --system for the machine's
    holddown service remove chat
    """


@command.command("install")
@click.argument("name")
@system_option
@click.option("--print", "only_print", is_flag=True, help="Print the unit, and install nothing.")
@json_option
@click.pass_context
def install(ctx: click.Context, name: str, system: bool, only_print: bool, as_json: bool) -> None:
    """Write and enable a systemd unit that runs the deployment NAME again, from its record.

    It is not started by this: a deployment that is up goes on undisturbed. Exit code 1 when nothing was installed:
    where no systemd runs, the unit is printed with what to do.
    """
    doors = attended()
    deployment = named(name, doors.store)
    manager = wiring.service_manager(system=system)
    wanted = app.described(
        deployment, wiring.service_ground(deployment.birth.name, system=system), doors.store, manager
    )
    if only_print:
        _say_findings(wanted)
        answer(wanted, wanted.text.rstrip("\n"), as_json=as_json)
        return
    done = app.install(wanted, manager)
    _say_findings(done)
    if done.written:
        answer(done, _installed_text(done), as_json=as_json)
        return
    if not any(each.blocks for each in done.findings):
        progress(_elsewhere_text(done))
    answer(done, done.text.rstrip("\n"), as_json=as_json)
    ctx.exit(1)


@command.command("remove")
@click.argument("name")
@system_option
@json_option
def remove(name: str, system: bool, as_json: bool) -> None:
    """Stop the service of NAME, and take its unit away. The record stays. A second time there is nothing to do."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise UsageError(f"{name!r} is no name for a deployment", code="usage.name", do="holddown list")
    removed = app.remove(name, wiring.service_manager(system=system))
    answer(removed, _removed_text(name, removed), as_json=as_json)


@command.command("run", hidden=True)
@click.argument("deployment_id")
def run(deployment_id: str) -> None:
    """What the unit starts. Not for people."""
    to_its_end(lambda: _run(deployment_id))


@command.command("settle", hidden=True)
@click.argument("deployment_id")
def settle(deployment_id: str) -> None:
    """What the unit runs after the service has ended. Not for people."""
    to_its_end(lambda: _settle(deployment_id))


def _run(deployment_id: str) -> int:
    notify = wiring.notify()
    doors = wiring.serve_doors(notify, progress)
    ended = serving.serve(_birth(deployment_id, doors), doors)
    stopped = ended.status.state is State.STOPPED
    progress(f"{ended.birth.name} was stopped: {ended.status.why}" if stopped else failed_text(ended))
    return serving.exit_code(ended)


def _settle(deployment_id: str) -> int:
    # Source: systemd.exec(5), SERVICE_RESULT. After anything else the next start takes over what it finds.
    if os.environ.get("SERVICE_RESULT", "success") not in _MEANT_TO_STOP:
        return 0
    doors = wiring.serve_doors(wiring.notify(), progress)
    serving.settle(_birth(deployment_id, doors), doors)
    return 0


def _birth(deployment_id: str, doors: serving.Doors) -> Birth:
    """Raises: UsageError."""
    deployment = doors.deployments.store.get(deployment_id)
    if deployment is None:
        what = f"no deployment {deployment_id} is on record: this service is of one that is forgotten"
        raise UsageError(what, code="usage.no-deployment", do="holddown service install NAME    of one that is there")
    return deployment.birth


# --- words ------------------------------------------------------------------------------------------------------


def _say_findings(installed: Installed) -> None:
    if installed.findings:
        progress(findings_text(installed.findings))


def _installed_text(done: Installed) -> str:
    to = "sudo systemctl" if done.system else "systemctl --user"
    journal = "journalctl" if done.system else "journalctl --user"
    lines = [
        f"{done.unit} is {'replaced' if done.replaced else 'installed'}, and enabled",
        f"  unit      {done.path}",
        f"  start     {to} start {done.unit}    one that is up already is taken over as it is",
        f"  stop      {to} stop {done.unit}    or holddown down {done.name}",
        f"  journal   {journal} -u {done.unit}",
        f"  undo      holddown service remove {done.name}{' --system' if done.system else ''}",
    ]
    if done.until_logout:
        lines.append("  note      it ends with your last session; to keep it: loginctl enable-linger")
    return "\n".join(lines)


def _elsewhere_text(done: Installed) -> str:
    to = "sudo systemctl" if done.system else "systemctl --user"
    whose = "systemd does not run here" if done.system else "no systemd of your own runs here, or it cannot be asked"
    return "\n".join(
        [
            f"not installed: {whose}. This is the unit. Where it runs,",
            f"  holddown service install {done.name}{' --system' if done.system else ''}",
            "does it all; or by hand:",
            f"  write it to {done.path}",
            f"  {to} daemon-reload",
            f"  {to} enable --now {done.unit}",
        ]
    )


def _removed_text(name: str, removed: Removed) -> str:
    if not removed.was_there:
        return f"there is no service of {name}"
    if removed.stopped:
        return f"{removed.unit} is stopped, disabled and removed"
    return f"{removed.unit} is removed; no systemd runs here that could have run it"
