"""How long it takes to read what an engine build takes, against asking the engine itself.

    python bench/probe.py [--runs N] [PYTHON ...]

PYTHON: interpreters of engine environments; by default those that are registered. Each figure is the median over the
runs, the fastest in brackets, of a new process less its start and imports: `cold` with an empty cache, `cached` with
it full, `again` in a process that has read it before. `--help=all` is the engine's own answer to which options there
are, run once.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from holddown import wiring
from holddown.base.codec import dumps
from holddown.edges.engines import EngineFolders
from holddown.facts.engine import Engine

ONE = """
import json, sys, time
from holddown import wiring
from holddown.base.codec import loads
from holddown.facts.engine import Engine, EngineFacts
engine, probe = loads(Engine, sys.argv[1]), wiring.engine_probe()
began, used = time.perf_counter(), time.process_time()
facts = probe.read(engine)
wall, cpu = time.perf_counter() - began, time.process_time() - used
began = time.perf_counter()
probe.read(engine)
print(json.dumps([1000 * wall, 1000 * cpu, 1000 * (time.perf_counter() - began), len(facts.flags)]))
"""


def one(engine: Engine, cache: str) -> tuple[float, float, float, int]:
    """Milliseconds: wall, CPU, wall of the same once more; and how many options were read."""
    env = {**os.environ, "XDG_CACHE_HOME": cache}
    command = [sys.executable, "-c", ONE, dumps(engine)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    wall, cpu, again, options = json.loads(done.stdout.splitlines()[-1])
    return wall, cpu, again, options


def help_seconds(engine: Engine) -> float | None:
    """The engine's own help, where its kind has one that lists all."""
    module = {"vllm": "vllm.entrypoints.openai.api_server", "sglang": "sglang.launch_server"}.get(engine.kind)
    if module is None or not engine.python:
        return None
    env = {**os.environ, "VLLM_TARGET_DEVICE": "cpu"}
    began = time.perf_counter()
    command = [engine.python, "-m", module, "--help=all" if engine.kind == "vllm" else "--help"]
    done = subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, check=False)
    return time.perf_counter() - began if done.returncode == 0 else None


def text(values: list[float]) -> str:
    return f"{statistics.median(values):.0f} ({min(values):.0f})"


def row(engine: Engine, runs: int) -> str:
    cold, cached = [], []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(one(engine, cache))
            cached.append(one(engine, cache))
    own = help_seconds(engine)
    asked = f"{own:.1f} s" if own is not None else "-"
    columns = ([each[0] for each in cold], [each[1] for each in cold], [each[0] for each in cached])
    cells = "".join(f"{text(values):>16}" for values in (*columns, [each[2] for each in cached]))
    return f"{engine.ref:<20} {cold[0][3]:>7}{cells} {asked:>10}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("python", nargs="*")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folders = EngineFolders(Path(folder))
        engines = [folders.add(None, python, "") for python in words.python] or list(wiring.engines().all())
        sys.stdout.write(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {words.runs} runs; ms\n\n")
        head = "".join(f"{name:>16}" for name in ("cold, wall", "cold, CPU", "cached", "again"))
        sys.stdout.write(f"{'engine':<20} {'options':>7}{head} {'--help=all':>10}\n")
        for engine in engines:
            sys.stdout.write(row(engine, words.runs) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
