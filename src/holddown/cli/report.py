"""`holddown report NAME`."""

from pathlib import Path

import click

from holddown import wiring
from holddown.app.report import report, told
from holddown.base.errors import FactError
from holddown.base.units import size_text
from holddown.cli.deployments import attended, named
from holddown.cli.output import answer, json_option


@click.command(name="report")
@click.argument("name")
@click.option("--out", "path", metavar="FILE", type=click.Path(dir_okay=False), help="Default: NAME-report.html here.")
@json_option
def command(name: str, path: str | None, as_json: bool) -> None:
    """Put all that is on record of the deployment NAME into one HTML file, which needs no network to be read."""
    doors = attended()
    of = told(named(name, doors.store), doors.store, doors.clock)
    out = Path(path or f"{of.deployment.birth.name.replace('/', '-')}-report.html")
    text = report(of, wiring.charts())
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        what = f"the report could not be written: {error.strerror}"
        raise FactError(what, code="report.unwritable", seen=str(out), do="--out FILE, where there is room") from error
    document = {
        "file": str(out.absolute()),
        "bytes": len(text.encode()),
        "deployment": of.deployment.birth.id,
        "bench_run": of.bench.id if of.bench else None,
        "verify_run": of.verify.id if of.verify else None,
    }
    answer(document, f"{out} ({size_text(len(text.encode()))})", as_json=as_json)
