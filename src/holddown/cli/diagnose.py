"""`holddown diagnose`."""

import gzip
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import click

from holddown.app.diagnose import Diagnosed, diagnose
from holddown.base.errors import HolddownError, UsageError
from holddown.base.units import size_text
from holddown.cli.deployments import attended, named
from holddown.cli.output import answer, bold, json_option, progress
from holddown.explain.diagnosis_text import diagnosis_text, headline, remedy
from holddown.launch.lifecycle import State
from holddown.launch.restart import MARK
from holddown.remember.record import Deployment, Status
from holddown.tables.load import engine_tables
from holddown.verify.log_line import LogLine

_BLOCK_BYTES = 256 * 1024
_TOLD_EVERY_BYTES = 256 * 1024**2
_GZIP = b"\x1f\x8b"


@click.command(short_help="Why an engine failed, from its log.")
@click.argument("log", metavar="LOG")
@click.option("--exit", "exit_code", type=int, help="The exit status; minus the signal, or 128 and the signal.")
@click.option("--engine", default="", metavar="KIND", help="vllm, sglang or llamacpp, where that is known.")
@json_option
@click.pass_context
def command(ctx: click.Context, log: str, exit_code: int | None, engine: str, as_json: bool) -> None:
    """Why an engine failed: what failed first among all that is printed after it, what that is, and what to do.

    \b
    holddown diagnose server.log
    docker logs vllm 2>&1 | holddown diagnose -
    journalctl -u vllm -b | holddown diagnose -
    holddown diagnose NAME          # a deployment of ours

    LOG may be of any engine and any length, with the prefixes of a container's runtime and progress bars. Exit code 0:
    it is known, or nothing failed; 1: what failed first is shown, and holddown does not know what it is.
    """
    kinds = [table.kind for table in engine_tables()]
    if engine and engine not in kinds:
        raise UsageError(f"no engine {engine} is known", code="usage.engine", seen=f"known: {', '.join(kinds)}")
    deployment = _deployment(log)
    if deployment is not None:
        log, engine = deployment.birth.log_path, deployment.birth.engine.kind
        exit_code = exit_code if exit_code is not None else _exit(deployment.status)
    with _opened(log) as file:
        blocks = _blocks(file) if deployment is None else _of_last_failed(deployment, file)
        found = diagnose(blocks, exit_code, engine, _Told())
    text = f"{bold(headline(found.report))}\n{diagnosis_text(found.report, ours=deployment is not None)}"
    answer(_document(found, ours=deployment is not None), text, as_json=as_json)
    if found.report.diagnosis is None and not found.report.healthy:
        ctx.exit(1)


def _deployment(log: str) -> Deployment | None:
    """Where no file is called so."""
    if log == "-" or Path(log).exists():
        return None
    try:
        return named(log, attended().store)
    except HolddownError as error:
        raise UsageError(
            f"there is neither a file nor a deployment {log}",
            code="usage.log",
            seen=error.what,
            do="holddown diagnose FILE, or - for what comes through a pipe; holddown list has the deployments",
        ) from error


def _last_start_failed(status: Status) -> bool:
    """Rather than one before it, after which this one was started."""
    return not status.failures or status.state.over


def _exit(status: Status) -> int | None:
    end = status.exit if _last_start_failed(status) else status.failures[-1].exit
    return end.code if end else None


def _opened(log: str) -> IO[bytes]:
    """Raises: UsageError where it cannot be read."""
    if log == "-":
        return sys.stdin.buffer
    try:
        file = Path(log).open("rb")  # noqa: SIM115 - the caller closes it
    except OSError as error:
        raise UsageError(f"{log} cannot be read", code="usage.log", seen=str(error)) from error
    packed = file.read(2) == _GZIP
    file.seek(0)
    return gzip.open(file) if packed else file  # type: ignore[return-value]


def _of_last_failed(deployment: Deployment, file: IO[bytes]) -> Iterator[bytes]:
    """All starts of a deployment write one log: of it what the last one wrote that failed, or the only one."""
    starts = f"\n{file.read().decode(errors='surrogateescape')}".split(f"\n{MARK}")
    waits = deployment.status.state is State.WAITING  # the next one has no log yet
    yield starts[-1 if _last_start_failed(deployment.status) or waits else -2].encode(errors="surrogateescape")


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    while block := file.read(_BLOCK_BYTES):
        yield block


class _Told:
    """Progress, for a log that takes seconds."""

    def __init__(self) -> None:
        self._next = _TOLD_EVERY_BYTES

    def __call__(self, size_bytes: int) -> None:
        if size_bytes >= self._next:
            self._next = size_bytes + _TOLD_EVERY_BYTES
            progress(f"{size_text(size_bytes)} read")


def _document(found: Diagnosed, *, ours: bool) -> dict[str, Any]:
    report = found.report
    known = report.diagnosis
    diagnosis = None
    if known is not None:
        diagnosis = {
            "id": known.id,
            "cause": known.cause,
            "remedy": remedy(known, ours=ours),
            "edits": dict(known.edits),
            "never": known.never,
            "sure": known.sure.value,
            "lines": _lines(known.lines),
            "source": known.source,
        }
    return {"diagnosis": diagnosis, "root": _lines(report.root), "last": _lines(report.last), "healthy": report.healthy}


def _lines(lines: tuple[LogLine, ...]) -> list[dict[str, Any]]:
    return [{"number": line.number, "process": line.process, "text": line.text} for line in lines]
