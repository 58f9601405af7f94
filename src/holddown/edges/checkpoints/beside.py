"""Part of a long computation in a forked child, on another core: parsing holds the interpreter's lock."""

import os
import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def beside(job: Callable[[], T]) -> Iterator[Callable[[], T]]:
    """Starts the job and gives a function that waits for its value. Where there is one core, or other threads run (of
    which a fork would make a torn copy), or the child fails, that function does the job itself.

    The child only reads files and computes; it ends without running anything of this program's own ending.
    """
    if len(os.sched_getaffinity(0)) < 2 or threading.active_count() > 1:
        yield job
        return
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receive)
        _work(job, send)
    os.close(send)
    with open(receive, "rb") as pipe:
        waited = False

        def value() -> T:
            nonlocal waited
            answer = pipe.read()
            waited = True
            return pickle.loads(answer) if os.waitpid(child, 0)[1] == 0 else job()

        try:
            yield value
        finally:
            # left early: the pipe is closed first, so a child that still writes ends
            pipe.close()
            if not waited:
                os.waitpid(child, 0)


def _work(job: Callable[[], T], send: int) -> None:
    status = 1
    try:
        answer = pickle.dumps(job(), protocol=pickle.HIGHEST_PROTOCOL)
        with open(send, "wb") as pipe:
            pipe.write(answer)
        status = 0
    finally:
        # not `sys.exit`: buffers, hooks and locks here are copies of the parent's
        os._exit(status)
