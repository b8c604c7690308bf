"""The subscriptions of one board object: one thread calls them, so that no callback can hold up a store."""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable

from jobboard.backends.thread_end import wait_for_thread
from jobboard.events import JobEvent

logger = logging.getLogger("jobboard.board")

Callback = Callable[[JobEvent], None]

#: Events are hints: when a callback is this far behind, further ones are dropped.
_MAX_QUEUED = 10_000
_STOP_TIMEOUT = 5.0


class Subscriptions:
    """Calls every callback from one thread, which lives from the first subscription to ``close``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: One item for each event that waits for a callback.
        self._calls: queue.SimpleQueue[tuple[Callback, deque[JobEvent]] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._dropped = 0

    def queued(self, callback: Callback) -> Callback:
        """Return a function that hands an event over to the thread, which calls ``callback``; it returns at once."""
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="jobboard-events", daemon=True)
                thread.start()
                self._thread = thread

        # Its own, so that no subscription drops events since there are many others.
        waiting: deque[JobEvent] = deque()

        def enqueue(event: JobEvent) -> None:
            if len(waiting) < _MAX_QUEUED:
                waiting.append(event)
                self._calls.put((callback, waiting))
            else:
                self._warn_of_drop()

        return enqueue

    def _warn_of_drop(self) -> None:
        self._dropped += 1
        if self._dropped == 1:
            logger.warning("an event callback is %d events behind; further events are dropped", _MAX_QUEUED)

    def close(self) -> None:
        """End the thread; events that wait in the queue are dropped."""
        with self._lock:
            thread, self._thread = self._thread, None
        self._calls.put(None)
        wait_for_thread(thread, _STOP_TIMEOUT)

    def _run(self) -> None:
        while (item := self._calls.get()) is not None:
            callback, waiting = item
            event = waiting.popleft()
            try:
                callback(event)
            except Exception:
                logger.exception("an event callback failed on %s", event.kind)


class Interruption:
    """Interrupts what blocks, now or later; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._interrupt: Callable[[], None] | None = None
        self.has_come = False

    def will_call(self, interrupt: Callable[[], None]) -> None:
        """Name what ends the wait; it is called at once if the interruption has come before."""
        with self._lock:
            self._interrupt = interrupt
            if self.has_come:
                interrupt()

    def come(self) -> None:
        """End the wait."""
        with self._lock:
            self.has_come = True
            if self._interrupt is not None:
                self._interrupt()
