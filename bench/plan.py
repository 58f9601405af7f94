"""Wall and CPU time of `inspect` and `plan` on checkpoints of full size whose weights are holes in sparse files.

    python bench/plan.py [--runs N] [--keep DIR]

Each figure is the median over the runs, the fastest in brackets. `command` is the whole program, from its start to its
last byte of JSON; CPU counts its child too. `in process` leaves out the interpreter's start and the imports.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sparse_checkpoint import write_sparse_checkpoint

from holddown.app.inspect import inspect
from holddown.app.plan import recorded_candidates
from holddown.base.units import count_text
from holddown.edges.checkpoints.local import LocalCheckpoints
from holddown.plan.choose import plan
from holddown.plan.fabric import usual_fabric
from holddown.plan.named_machine import named_gpus, named_machine
from holddown.plan.site import Site
from holddown.plan.wishes import Wishes

# config, and how many shards its publisher made
CHECKPOINTS = (("kimi-k2.5", 64), ("deepseek-v3", 163), ("minimax-m2.5", 125))
GPUS = "8x H200 SXM"
CONFIGS = Path(__file__).resolve().parents[1] / "tests" / "captures" / "configs"


@dataclass(frozen=True, slots=True)
class Times:
    """One figure per run."""

    wall_ms: list[float]
    cpu_ms: list[float]

    def text(self) -> str:
        wall, cpu = (f"{statistics.median(each):.0f} ({min(each):.0f})" for each in (self.wall_ms, self.cpu_ms))
        return f"{wall:>12} {cpu:>12}"


def timed(job: Callable[[], object], runs: int) -> Times:
    """The job's times after one run that fills caches."""
    job()
    wall, cpu = [], []
    for _ in range(runs):
        started, used = time.perf_counter(), cpu_seconds()
        job()
        wall.append(1000 * (time.perf_counter() - started))
        cpu.append(1000 * (cpu_seconds() - used))
    return Times(wall, cpu)


def cpu_seconds() -> float:
    """Of this process and of children that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def command(*words: str) -> Callable[[], object]:
    """The whole program as a user starts it. Its answer may be no (exit 1); anything else is a fault of the bench."""

    def run() -> None:
        ended = subprocess.run([sys.executable, "-m", "holddown", *words], stdout=subprocess.PIPE, check=False)
        if ended.returncode not in (0, 1):
            raise SystemExit(f"holddown {' '.join(words)}: exit {ended.returncode}")
        json.loads(ended.stdout)

    return run


def jobs(folder: str) -> dict[str, Callable[[], object]]:
    """What is measured on one checkpoint."""
    return {
        "inspect, command": command("inspect", folder, "--json"),
        "inspect, in process": lambda: inspect(LocalCheckpoints(), folder),
        "plan, command": command("plan", folder, "--gpus", GPUS, "--json"),
        "plan, in process": planning(folder),
    }


def planning(folder: str) -> Callable[[], object]:
    """The search alone, with the checkpoint's facts at hand."""
    model = LocalCheckpoints().inspect(folder).model
    count, row = named_gpus(GPUS)
    site = Site(named_machine(count, row, usual_fabric(row)), here=False)
    builds = recorded_candidates("")
    return lambda: plan(model, site, builds, Wishes("m"))


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--keep", type=Path, help="write the checkpoints here, and leave them")
    words = parser.parse_args()
    say(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {words.runs} runs; ms, median (fastest)\n")
    say(f"{'checkpoint':<14} {'tensors':>8} {'GB':>6} {'shards':>6}  {'':<20} {'wall':>12} {'CPU':>12}")
    with tempfile.TemporaryDirectory() as temporary:
        for name, shards in CHECKPOINTS:
            folder = (words.keep or Path(temporary)) / name
            tensors, size = write_sparse_checkpoint(folder, CONFIGS / f"{name}.json", shards)
            row = f"{name:<14} {count_text(tensors):>8} {size / 10**9:>6.0f} {shards:>6}"
            for job_name, job in jobs(str(folder)).items():
                say(f"{row}  {job_name:<20} {timed(job, words.runs).text()}")
                row = " " * len(row)


if __name__ == "__main__":
    main()
