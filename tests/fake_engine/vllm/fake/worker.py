"""A worker process: maps the segment and lives until its EngineCore is gone.

Run as `python -S -m vllm.fake.worker TITLE SEGMENT READY_FD`; standard input is the death pipe.
"""

import mmap
import os
import signal
import sys
from pathlib import Path

from vllm.fake import cues as cues_module
from vllm.fake.log import Log
from vllm.fake.title import set_title


def main() -> None:
    title, segment = sys.argv[1], Path(sys.argv[2])
    set_title(title)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    if cues_module.read().ignore_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with segment.open("r+b") as file:
        mapping = mmap.mmap(file.fileno(), 0)
    os.write(int(sys.argv[3]), b"r")
    os.close(int(sys.argv[3]))
    sys.stdin.buffer.read()
    Log("Worker").info("multiproc_executor.py:843", "Parent process exited, terminating worker queues")
    mapping.close()


if __name__ == "__main__":
    main()
