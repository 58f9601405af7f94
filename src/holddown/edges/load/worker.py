"""`python -m holddown.edges.load.worker`: one process of the load client. Orders on stdin, frames on stdout; it stops
when stdin is closed, which it also is when the program that started it is gone."""

import contextlib
import gc
import resource
import signal
import sys

from holddown.edges.load.endpoint import endpoint
from holddown.edges.load.loop import Loop
from holddown.edges.load.wire import Frame, Harvest, frame_bytes, read_order


def _tell(frame: Frame) -> None:
    sys.stdout.buffer.write(frame_bytes(frame))
    sys.stdout.buffer.flush()


def main() -> None:
    # Ctrl-C in a terminal goes to every process of the group; ours is stopped by its stdin
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard > 0 else soft, hard))
    order = read_order(sys.stdin.buffer)
    try:
        to = endpoint(order.base_url, order.api_key, chat=order.drive.language.chat)
    except OSError as error:
        row = (0.0, 0.0, None, None, 0.0, 0, 0, 0, f"no connection: {error}")
        _tell(Harvest((row,), b"", 0, b"", 0.0, 0.0, 0.0, 0))
        return
    gc.freeze()
    gc.disable()  # nothing here makes cycles; a collection over all reads kept would look like a slow server
    _tell(Loop(order, to, _tell, sys.stdin.fileno()).run())


if __name__ == "__main__":
    main()
