"""Handlers in threads: cheap, and right for work that waits. A thread can't be killed; see the process executor."""

from __future__ import annotations

import queue
import threading
import time

from jobboard.conductor.executors.base import Executor
from jobboard.conductor.outcome import Dropped, outcome_of_call
from jobboard.conductor.task import Task


class ThreadExecutor(Executor):
    """One thread a slot, all fed by one queue. An ``async`` handler gets an event loop of its own.

    A handler that timed out or lost its claim sees ``job.lost``, and keeps its slot until it returns. The threads are
    daemons: a handler that never returns can't keep the process from its end.
    """

    def start(self) -> None:
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._run, name=f"jobboard-slot-{number}", daemon=True)
            for number in range(self._slots)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, task: Task) -> None:
        self._tasks.put(task)

    def ask_to_end(self, task: Task) -> None:
        """The handler sees ``job.cancelled``."""

    def interrupt(self, task: Task) -> None:
        """The handler sees ``job.lost``."""

    def stop(self, timeout: float) -> None:
        for _ in self._threads:
            self._tasks.put(None)
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            if task.outcome is not None:
                self._finish(task, Dropped())
            else:
                self._finish(task, outcome_of_call(task.call))
