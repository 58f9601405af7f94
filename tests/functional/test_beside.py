"""A second process for half of a long reading: its answer, its failures, and nothing left behind."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from holddown.edges.checkpoints.beside import beside

HERE = os.getpid()
two_cores = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core: nothing is started beside")


def no_children() -> bool:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return True
    return False


PROGRAM = """
import os
from holddown.edges.checkpoints.beside import beside
with beside(lambda: (os.getpid(), b"x" * 10**6)) as answer:
    pid, text = answer()
print(pid != os.getpid(), len(text))
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("gone")
"""


@two_cores
def test_the_answer_comes_from_another_process() -> None:
    """Of any size, and the child is gone afterwards.

    Asked in a program of its own: servers of other tests may have left threads in this one.
    """
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["True", str(10**6), "gone"]


def test_a_child_that_fails() -> None:
    """The job is done here: its own error, if any, is raised where it can be seen."""

    def only_here() -> int:
        if os.getpid() != HERE:
            os._exit(7)
        return 5

    with beside(only_here) as answer:
        assert answer() == 5
    assert no_children()


def test_an_answer_that_nobody_asks_for() -> None:
    """The block is left early: the child is ended and waited for."""
    with pytest.raises(KeyError), beside(lambda: b"x" * 10**6):
        raise KeyError
    assert no_children()


def test_no_fork_beside_a_thread() -> None:
    """A fork would copy the lock that another thread holds: the job is done here."""
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    job: Callable[[], int] = os.getpid
    with beside(job) as answer:
        assert answer() == HERE
    stop.set()
    thread.join()
