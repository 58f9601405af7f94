"""`python -m holddown.edges.load.worker`: one process of the load client. Orders on stdin, frames on stdout; it stops
when stdin is closed, which it also is when the program that started it is gone."""

import contextlib
import gc
import os
import resource

from holddown.edges.load.endpoint import endpoint
from holddown.edges.load.loop import Loop
from holddown.edges.load.wire import Beat, Harvest, frame_bytes, read_order, read_start

_STDIN, _STDOUT = 0, 1


def main() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard > 0 else soft, hard))
    with (
        open(_STDIN, "rb", buffering=0, closefd=False) as orders,
        open(_STDOUT, "wb", buffering=0, closefd=False) as out,
    ):

        def tell(frame: Beat | Harvest) -> None:
            data = memoryview(frame_bytes(frame))
            while data:
                data = data[out.write(data) :]

        # the program that listens may be gone
        with contextlib.suppress(EOFError, BrokenPipeError):
            order = read_order(orders)
            try:
                to = endpoint(order.base_url, order.api_key, chat=order.drive.language.chat)
            except OSError as error:
                tell(Harvest(((0.0, 0.0, None, None, 0.0, 0, 0, 0, f"no connection: {error}"),)))
                return
            loop = Loop(order, to, tell, _STDIN)
            loop.prepare()
            tell(Beat(0, 0, 0, 0, ()))
            begin_at = read_start(orders)
            gc.freeze()
            gc.disable()  # nothing here makes cycles; a collection over all reads kept would look like a slow server
            tell(loop.run(begin_at))
    os._exit(0)  # at once: freeing what was kept takes longer than the rest


if __name__ == "__main__":
    main()
