"""How fast a long log is read, how much memory that takes, and which log is taken for what.

    python bench/diagnose.py [--size 1.0]

Writes a log of that many GB (vLLM's and SGLang's lines of a serving day, an access log, progress bars, warnings, and at
its end a failure) to the temporary folder, reads it as `holddown diagnose` does, and removes it. Then every log of
tests/captures through every signature: what it is declared to show, and what is found.
"""

import argparse
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from fakes.failing_logs import FailingLog, failing_logs
from holddown.tables.load import failures
from holddown.verify.scan import scan

BLOCK_BYTES = 256 * 1024
CHUNK_LINES = 20_000
WARNING = (
    "(APIServer pid=4101) WARNING 05-04 10:00:03 [system_utils.py:299] Found ulimit of 20000 and failed to "
    "automatically increase with error current limit exceeds maximum limit. This can cause fd limit errors like "
    "`OSError: [Errno 24] Too many open files`. Consider increasing with ulimit -n"
)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")


def line(dice: random.Random) -> str:
    """One of a serving day, each kind as often as it is."""
    hour, minute, second = dice.randrange(24), dice.randrange(60), dice.randrange(60)
    clock = f"{hour:02}:{minute:02}:{second:02}"
    port, rate, share = dice.randrange(30000, 60000), dice.random() * 900, dice.random() * 100
    kind = dice.random()
    if kind < 0.5:
        return f'(APIServer pid=4101) INFO:     10.0.0.{port % 256}:{port} - "POST /v1/completions HTTP/1.1" 200 OK'
    if kind < 0.7:
        return (
            f"(APIServer pid=4101) INFO 05-04 {clock} [loggers.py:310] Engine 000: Avg prompt throughput: {rate:.1f} "
            f"tokens/s, Avg generation throughput: {rate:.1f} tokens/s, Running: {port % 64} reqs, Waiting: {port % 7} "
            f"reqs, GPU KV cache usage: {share:.1f}%, Prefix cache hit rate: {share:.1f}%"
        )
    if kind < 0.9:
        return (
            f"[2026-05-04 {clock} TP{port % 8}] Decode batch. #running-req: {port % 64}, #token: {port}, token usage: "
            f"{share / 100:.2f}, cuda graph: True, gen throughput (token/s): {rate:.2f}, #queue-req: {port % 7}, "
        )
    if kind < 0.93:
        done = dice.randrange(101)
        return f"Capturing CUDA graphs:  {done}%|{'#' * (done // 10):10}| {done}/100 [00:{second:02}<00:09, 5.33it/s]"
    if kind < 0.99:
        return (
            f"(APIServer pid=4101) INFO 05-04 {clock} [logger.py:42] Received request cmpl-{dice.getrandbits(128):032x}"
        )
    return WARNING


def write_log(path: Path, size_bytes: int, end: FailingLog) -> None:
    dice = random.Random(5)
    chunks = ["\n".join(line(dice) for _ in range(CHUNK_LINES)).encode() + b"\n" for _ in range(8)]
    with path.open("wb") as file:
        while file.tell() < size_bytes:
            file.write(dice.choice(chunks))
        file.write(end.log.encode())


def blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            yield block


def read_a_long_log(size_bytes: int, end: FailingLog) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.log"
        write_log(path, size_bytes, end)
        scan([end.log.encode()]).report(end.exit)  # the tables are read once
        start = time.perf_counter()
        found = scan(blocks(path)).report(end.exit).diagnosis
        seconds, size_gb = time.perf_counter() - start, path.stat().st_size / 1e9
    say(f"{size_gb:.2f} GB in {seconds:.1f} s: {size_gb / seconds:.2f} GB/s")
    say(f"peak memory of the process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
    say(f"found: {found.id if found else 'nothing'}; declared: {end.diagnosis}\n")


def confusion(logs: list[FailingLog]) -> None:
    """Declared against found, those that agree as one figure each."""
    pairs = Counter[tuple[str, str]]()
    signs = 0
    for log in logs:
        reading = scan([log.log.encode()])
        found = reading.report(log.exit).diagnosis
        pairs[log.diagnosis, found.id if found else "nothing"] += 1
        signs += reading.signs == log.signs
    say(f"{'declared':32} {'found':32} logs")
    for (declared, found_id), count in sorted(pairs.items()):
        say(f"{declared:32} {'the same' if declared == found_id else found_id:32} {count:4}")
    right = sum(count for (declared, found_id), count in pairs.items() if declared == found_id)
    say(f"\n{right} of {len(logs)} logs have their own diagnosis, {signs} of {len(logs)} their own signs in order")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=float, default=1.0, help="of the long log, in GB")
    size_gb = parser.parse_args().size
    logs = failing_logs()
    forms = sum(len(row.forms) for row in failures())
    real = sum(bool(log.run) for log in logs)
    say(f"{len(failures())} signatures of {forms} forms; {real} real logs, {len(logs) - real} composed ones\n")
    read_a_long_log(int(size_gb * 1e9), next(log for log in logs if log.name == "kv-too-small"))
    confusion(logs)


if __name__ == "__main__":
    main()
