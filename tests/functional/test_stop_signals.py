"""What wakes a supervisor, and what runs beside it."""

import signal
import subprocess
import sys
import threading

import pytest

from holddown.edges.process.background import Threaded

WAITING = """
from holddown.edges.process.local import StopSignals
signals = StopSignals()
print("ready", flush=True)
while (asked := signals.wait(0.1)) is None:
    pass
print(asked, flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_signal_is_a_value_and_a_hangup_is_nothing(number: signal.Signals) -> None:
    """The terminal may close; SIGTERM and Ctrl-C are asked for and end no program by themselves."""
    with subprocess.Popen([sys.executable, "-c", WAITING], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGHUP)
        process.send_signal(number)
        assert process.stdout.readline() == f"{number.name}\n"
    assert process.returncode == 0


BEFORE = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
for number in (signal.SIGINT, signal.SIGHUP):
    os.kill(os.getpid(), number)
from holddown.edges.process.local import StopSignals
print(StopSignals().wait(0.1), flush=True)
"""


def test_a_ctrl_c_from_before_it_had_a_session_is_not_for_it() -> None:
    """It was meant for `up`, whose process group the supervisor was born into."""
    done = subprocess.run([sys.executable, "-c", BEFORE], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "None\n"), done.stderr


def test_a_job_runs_beside_and_what_it_raises_is_raised_once() -> None:
    """A bug in it must not be silent, and must not be reported for ever."""
    background, goes_on = Threaded(), threading.Event()

    def job() -> None:
        goes_on.wait(10)
        raise ZeroDivisionError("ours")

    assert not background.running()
    background.start(job)
    assert background.running()
    goes_on.set()
    with pytest.raises(ZeroDivisionError):
        while background.running():
            pass
    assert not background.running()
