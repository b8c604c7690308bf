"""Handlers in threads: cheap, and right for work that waits. A thread can't be killed; see the process executor."""

from __future__ import annotations

import asyncio
import inspect
import queue
import threading
import time
from typing import Any

from jobboard.conductor.executors.base import Executor
from jobboard.conductor.outcome import Dropped, outcome_of_call
from jobboard.conductor.task import Task


class ThreadExecutor(Executor):
    """One thread a slot, all fed by one queue. An ``async`` handler gets an event loop of its own.

    A handler that timed out or lost its claim sees ``job.lost``, and keeps its slot until it returns.
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
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            ended_before = task.outcome is not None
            self._finish(task, Dropped() if ended_before else outcome_of_call(lambda: call(task)))


def call(task: Task) -> Any:
    """Call a task's handler; an ``async`` one to its end, on a loop of its own."""
    result = task.handler.function(task.running)
    if inspect.iscoroutine(result):
        return asyncio.run(result)
    return result
