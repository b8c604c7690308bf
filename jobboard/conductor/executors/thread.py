"""Handlers in threads: cheap, and right for work that waits. A thread can't be killed; see the process executor."""

from __future__ import annotations

import itertools
import queue
import sys
import threading
import time
import traceback

from jobboard.conductor.executors.base import Executor
from jobboard.conductor.outcome import Dropped, outcome_of_call
from jobboard.conductor.task import Task

#: The innermost calls say where a handler is.
_MOST_FRAMES = 30


class ThreadExecutor(Executor):
    """One thread a slot, all fed by one queue. An ``async`` handler gets an event loop of its own.

    A handler that timed out or lost its claim sees ``job.lost``. If it does not return, another thread takes its
    place. The threads are daemons: a handler that never returns can't keep the process from its end.
    """

    def start(self) -> None:
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        #: What each thread runs.
        self._threads: dict[threading.Thread, Task | None] = {}
        self._replaced: set[Task] = set()
        for _ in range(self._slots):
            self._start_thread()

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._run, name=f"jobboard-slot-{next(self._numbers)}", daemon=True)
        self._threads[thread] = None
        thread.start()

    def submit(self, task: Task) -> None:
        self._tasks.put(task)

    def ask_to_end(self, task: Task) -> None:
        """The handler sees ``job.cancelled``."""

    def interrupt(self, task: Task) -> None:
        """The handler sees ``job.lost``."""

    def replace(self, task: Task) -> bool:
        with self._lock:
            if task in self._replaced or task not in self._threads.values():
                return False
            try:
                self._start_thread()
            except RuntimeError:
                return False
            self._replaced.add(task)
            return True

    def stack_of(self, task: Task) -> str:
        with self._lock:
            thread = next((thread for thread, running in self._threads.items() if running is task), None)
        return "(not begun)" if thread is None else stack_of_thread(thread)

    def stop(self, timeout: float) -> None:
        with self._lock:
            threads = dict(self._threads)
        for _ in threads:
            self._tasks.put(None)
        deadline = time.monotonic() + timeout
        for thread, task in threads.items():
            if task is None or not task.stuck:
                thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self) -> None:
        thread = threading.current_thread()
        is_wanted = True
        while is_wanted and (task := self._tasks.get()) is not None:
            with self._lock:
                self._threads[thread] = task
            self._finish(task, Dropped() if task.outcome is not None else outcome_of_call(task.call))
            with self._lock:
                self._threads[thread] = None
                is_wanted = task not in self._replaced
                self._replaced.discard(task)
        with self._lock:
            del self._threads[thread]


def stack_of_thread(thread: threading.Thread) -> str:
    """Return where a thread is now."""
    frame = sys._current_frames().get(thread.ident or 0)
    return "".join(traceback.format_stack(frame)[-_MOST_FRAMES:]).rstrip() if frame else "(no frame)"
