"""Starting a deployment from a command line: its words, the plan, the launch, what is seen, and another try."""

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from holddown import wiring
from holddown.app import prepare as preparing
from holddown.app import up as launching
from holddown.app.down import down
from holddown.app.prepare import Prepared, Request
from holddown.base.errors import UsageError
from holddown.cli.key_file import checked
from holddown.cli.output import findings_text, progress
from holddown.cli.settings import gpu_indices, settings_of
from holddown.cli.workload import workload_options
from holddown.explain.plan_text import no_plan_text
from holddown.facts.workload import Workload
from holddown.launch.lifecycle import State
from holddown.launch.restart import Restart
from holddown.plan.plan import NoPlan
from holddown.plan.wishes import Edit, Wishes
from holddown.remember.estimate import start_seconds
from holddown.remember.record import Deployment
from holddown.remember.retry import Refused, next_edits
from holddown.tables.load import engine_tables
from holddown.verify.expect import CHECK_NAMES

_SETTLED = frozenset({State.RELEASED, State.STOPPED, State.FAILED})
_OPTIONS = (
    click.option("--name", help="What to call the deployment and the model it serves. Default: the checkpoint's name."),
    click.option("--engine", default="", metavar="NAME[@VERSION]", help="Default: the newest that can run it here."),
    click.option("--gpus", metavar="0,1,...", help="These GPUs, also where somebody uses them."),
    click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on."),
    click.option("--port", type=click.IntRange(1, 65535), help="Default: the first free one from 8000 on."),
    click.option("--api-key-file", type=click.Path(), help="File that holds the API key."),
    click.option("--insecure", is_flag=True, help="Listen beyond loopback without an API key."),
    click.option("--skip-check", multiple=True, type=click.Choice(CHECK_NAMES), help="Release without this check."),
    click.option(
        "--set", "settings", multiple=True, metavar="NAME[=VALUE]", help="An engine setting of yours; it wins."
    ),
    click.option(
        "--trust-remote-code", is_flag=True, help="Run the checkpoint's own Python code; remembered by its hash."
    ),
    click.option("--despite", multiple=True, metavar="CODE", help="Start although this finding forbids it."),
    click.option(
        "--ask-engine/--no-ask-engine",
        default=None,
        help="Whether the build's own selectors are asked first which kernels they would take. Default: on GPUs.",
    ),
    workload_options,
    click.option("--detach/--no-detach", default=True, help="Whether Ctrl-C leaves it coming up, or stops it."),
    click.option(
        "--retry/--no-retry", default=True, help="Whether a start that fails of a known cause is mended and tried."
    ),
    click.option(
        "--restart",
        type=click.Choice([each.value for each in Restart]),
        default=Restart.NEVER.value,
        show_default=True,
        help="Whether its engine is started again when it fails after its release, with the same checks.",
    ),
    click.option("--retry-user-settings", is_flag=True, help="Mend also what you --set."),
    click.option("--dry-run", is_flag=True, help="Print the plan and the exact command, and start nothing."),
)


def start_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every verb that starts one."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class Words:
    """The command line, as click gives it."""

    path: str
    name: str | None
    engine: str
    gpus: str | None
    host: str
    port: int | None
    api_key_file: str | None
    insecure: bool
    skip_check: tuple[str, ...]
    settings: tuple[str, ...]
    trust_remote_code: bool
    despite: tuple[str, ...]
    ask_engine: bool | None
    workload: Workload
    detach: bool
    retry: bool
    restart: str
    retry_user_settings: bool
    dry_run: bool
    as_json: bool


def request_of(words: Words) -> Request:
    if any(0xD800 <= ord(letter) <= 0xDFFF for letter in words.path):  # how Python holds bytes that are not UTF-8
        what = "the path is not UTF-8, and a record holds only that"
        raise UsageError(what, code="usage.path", seen=ascii(words.path), do="give the checkpoint another name")
    path = wiring.checkpoint_path(words.path)
    name = words.name or (words.path if words.path in (wiring.DEMO, wiring.DEMO_GGUF) else _name_of(path))
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise UsageError(
            f"{name!r} is no name for a deployment", code="usage.name", do="--name with letters, digits, '.', '_', '-'"
        )
    return Request(
        path=path,
        name=name,
        wishes=Wishes(
            served_model_name=name,
            engine=words.engine,
            gpus=None if words.gpus is None else gpu_indices(words.gpus),
            settings=settings_of(words.settings),
            workload=words.workload,
        ),
        host=words.host,
        port=words.port,
        api_key_file=_key_file(words.api_key_file),
        insecure=words.insecure,
        skip_checks=words.skip_check,
        trust_remote_code=words.trust_remote_code,
        despite=words.despite,
        ask_engine=False if words.dry_run and words.ask_engine is None else words.ask_engine,
        restart=Restart(words.restart),
    )


def _name_of(path: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", Path(path).resolve().name.removesuffix(".gguf")).strip("-._") or "model"


def _key_file(path: str | None) -> str:
    if path is None:
        for variable in filter(os.environ.get, (table.key_variable for table in engine_tables())):
            # the engine would inherit it and refuse our own checks; leaving it out would open what is meant to be shut
            raise UsageError(
                f"{variable} is set, and holddown needs the key in a file to ask the engine itself",
                code="usage.api-key-variable",
                do=f"umask 077; printenv {variable} > key; then --api-key-file key, or unset {variable}",
            )
        return ""
    return checked(path).path


def come_up(
    prepared: Prepared,
    request: Request,
    words: Words,
    doors: launching.Doors,
    hear: Callable[[str], None] = lambda _: None,
) -> Deployment:
    """Starts it; and again with what its failure teaches, where that may be changed. Each start has a record. hear: is
    told the id of each."""
    while True:
        place = wiring.new_place()
        deployment = _launch_and_watch(prepared, request, place, doors, hear, detach=words.detach)
        if deployment.status.state is not State.FAILED or not words.retry:
            return deployment
        edits = _learned(deployment, request, words)
        if not edits:
            return deployment
        said = " ".join(f"--set {each.name}={each.value}" for each in edits)
        progress(f"{deployment.birth.name} ({deployment.birth.id}) failed: {edits[0].because}")
        progress(f"trying again with {said}")
        request = replace(request, wishes=request.wishes.edited(edits), after=deployment.birth.id)
        again = preparing.prepare(request, wiring.written_folders(), wiring.prepare_doors(doors, progress))
        if isinstance(again, NoPlan) or again.blocked:
            progress(no_plan_text(again) if isinstance(again, NoPlan) else findings_text(again.blocked))
            return deployment
        prepared = again


def _learned(deployment: Deployment, request: Request, words: Words) -> tuple[Edit, ...]:
    """None where nothing may be changed; why is said, and what the user set is asked for where somebody can answer."""
    tried = request.wishes.edits
    found = next_edits(deployment, tried, consent=words.retry_user_settings)
    if isinstance(found, Refused) and found.by_user and not words.as_json and sys.stdin.isatty():
        edits = " ".join(f"{name}={value}" for name, value in deployment.status.edits)
        if click.confirm(f"{deployment.status.cause.what if deployment.status.cause else ''}\n{edits}?", err=True):
            found = next_edits(deployment, tried, consent=True)
    if not isinstance(found, Refused):
        return found
    if found.why:
        more = "; --retry-user-settings lets it" if found.by_user else ""
        progress(f"not tried again: {found.why}{more}")
    return ()


def _launch_and_watch(
    prepared: Prepared,
    request: Request,
    place: launching.Place,
    doors: launching.Doors,
    hear: Callable[[str], None],
    *,
    detach: bool,
) -> Deployment:
    """Ctrl-C at any moment of it: what is on record by then goes on coming up, or is stopped; and that is said."""
    try:
        _launch(prepared, request, place, doors)
        hear(place.id)
        return watch(place.id, doors)
    except KeyboardInterrupt:
        # not only while watching: it may have come between the record and the first look at it
        deployment = doors.store.get(place.id)
        if deployment is None:
            progress("\nnothing was started")
        elif detach:
            progress(f"\ndetached; {request.name} goes on coming up.")
            progress(f"  holddown status {request.name}    shows how far it is")
            progress(f"  holddown down {request.name}      stops it")
        else:
            progress(f"\nstopping {request.name}")
            down(deployment, doors)
        raise


def _launch(prepared: Prepared, request: Request, place: launching.Place, doors: launching.Doors) -> None:
    with _uninterrupted():
        there = launching.launch(prepared, request, place, os.environ.items(), doors)
    if there is not None:
        Path(place.log_path).parent.rmdir()  # made for this one, and empty
        raise taken(there) if there.birth.name == request.name else _in_the_way(there)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits: what is on record has a supervisor, or `down` would find nobody to ask."""
    asked: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: asked.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if asked:
        raise KeyboardInterrupt


def _in_the_way(there: Deployment) -> UsageError:
    """Another `up` was first in the instant between this one's plan and its record."""
    plan, spec = there.birth.plan, there.birth.spec
    return UsageError(
        f"the deployment {there.birth.name} has just taken a port or GPU of this plan",
        code="usage.taken-meanwhile",
        seen=f"port {spec.port}" + (f", GPU {','.join(map(str, plan.gpus))}" if plan.gpus else ""),
        do="run the same command again: it plans around it",
    )


def watch(deployment_id: str, doors: launching.Doors) -> Deployment:
    from holddown.cli.progress import Display  # the terminal library loads while the engine already starts

    deployment = doors.store.get(deployment_id)
    assert deployment is not None
    estimate = start_seconds(doors.store.all(), deployment.birth.plan)
    with Display(deployment, estimate) as display:
        for entry in launching.follow(deployment_id, doors, _SETTLED):
            display.show(entry, doors.clock.now())
    return doors.store.get(deployment_id) or deployment


def taken(there: Deployment) -> UsageError:
    name = there.birth.name
    return UsageError(
        f"a deployment named {name} is {there.status.state} already",
        code="usage.name-taken",
        seen=f"id {there.birth.id}, {there.birth.spec.base_url}",
        do=f"holddown down {name}    or --replace, or another --name",
    )


def exit_code(deployment: Deployment) -> int:
    if deployment.status.state is State.RELEASED:
        return 0
    if deployment.status.state is State.STOPPED:
        return 1
    # it came up and was refused: the answer is no; it did not come up: the launch failed
    verified = any(verdict.outcome == "failed" for verdict in deployment.status.verdicts)
    return 1 if verified and deployment.status.cause is None else 4
