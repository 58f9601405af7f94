"""One job beside the loop, in a thread."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class Threaded:
    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="holddown")
        self._future: Future[None] | None = None

    def start(self, job: Callable[[], None]) -> None:
        self._future = self._pool.submit(job)

    def running(self) -> bool:
        if self._future is None:
            return False
        if not self._future.done():
            return True
        future, self._future = self._future, None
        future.result()
        return False
