"""Watches the clock for all tasks: time-outs, kills, and claims that can't have been renewed in time."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from jobboard.conductor.log import logger
from jobboard.conductor.task import Task

_LONGEST_SLEEP = 1.0


class Deadlines:
    """One thread that looks at the tasks when the next of their deadlines is due, and never talks to the store.

    :param tasks: returns the tasks at hand.
    :param on_due: is called for each task that is past a deadline of its.
    """

    def __init__(self, tasks: Callable[[], list[Task]], on_due: Callable[[Task, float], None]) -> None:
        self._tasks = tasks
        self._on_due = on_due
        self._lock = threading.Condition()
        self._wake_at = time.monotonic() + _LONGEST_SLEEP
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="jobboard-deadlines", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            self._lock.notify_all()
        self._thread.join(_LONGEST_SLEEP + 10.0)

    def watch(self, task: Task) -> None:
        """Wake up in time for this task; costs nothing unless it is the next."""
        soonest = next_deadline(task)
        if soonest < self._wake_at:
            with self._lock:
                self._wake_at = min(self._wake_at, soonest)
                self._lock.notify_all()

    def _run(self) -> None:
        while True:
            now = time.monotonic()
            with self._lock:
                self._wake_at = now + _LONGEST_SLEEP
            for task in self._tasks():
                if next_deadline(task) <= now:
                    self._tell(task, now)
                self.watch(task)
            with self._lock:
                while not self._stopped and (left := self._wake_at - time.monotonic()) > 0:
                    self._lock.wait(left)
                if self._stopped:
                    return

    def _tell(self, task: Task, now: float) -> None:
        try:
            self._on_due(task, now)
        except Exception:
            # One executor's fault must not keep the other tasks from their time.
            logger.exception("a deadline of job %s could not be acted upon", task.job.uuid)


def next_deadline(task: Task) -> float:
    """Return the soonest of a task's deadlines that still matter."""
    if task.outcome is not None:
        return math.inf if task.stuck_at is None else task.stuck_at
    soonest = task.held_until
    if task.deadline is not None and task.deadline < soonest:
        soonest = task.deadline
    if task.kill_at is not None and task.kill_at < soonest:
        soonest = task.kill_at
    return soonest
