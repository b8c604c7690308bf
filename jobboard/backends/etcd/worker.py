"""One thread for what a client does in the background: it renews leases and ends claims whose lease is gone."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable

from jobboard.backends.thread_end import wait_for_thread

#: For how many seconds a client that closes waits for each of its threads.
STOP_TIMEOUT = 1.0

logger = logging.getLogger("jobboard.etcd")


class Worker:
    """Runs tasks, each at its moment; the thread starts with the first task."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._numbers = itertools.count()
        self._planned: list[tuple[float, int, Callable[[], None]]] = []
        self._thread: threading.Thread | None = None
        self._closed = False

    def at(self, moment: float, task: Callable[[], None]) -> None:
        """Run ``task`` at this moment of the monotonic clock."""
        with self._lock:
            if self._closed:
                return
            heapq.heappush(self._planned, (moment, next(self._numbers), task))
            if self._thread is None:
                # Where no thread can be started now, the next task tries again.
                thread = threading.Thread(target=self._run, name="jobboard-etcd-worker", daemon=True)
                thread.start()
                self._thread = thread
            self._changed.notify_all()

    def soon(self, task: Callable[[], None]) -> None:
        self.at(time.monotonic(), task)

    def close(self, timeout: float) -> None:
        """End the thread; planned tasks are dropped."""
        with self._lock:
            self._closed = True
            self._planned.clear()
            self._changed.notify_all()
            thread = self._thread
        wait_for_thread(thread, timeout)

    def _run(self) -> None:
        while (task := self._next()) is not None:
            try:
                task()
            except Exception as error:
                # The board may have been closed meanwhile; the next task runs all the same.
                logger.debug("in the background: %s", error, exc_info=not self._closed)

    def _next(self) -> Callable[[], None] | None:
        with self._lock:
            while not self._closed:
                wait = self._planned[0][0] - time.monotonic() if self._planned else None
                if wait is not None and wait <= 0:
                    return heapq.heappop(self._planned)[2]
                self._changed.wait(wait)
        return None
