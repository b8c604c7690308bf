"""Watches the clock for all executions: timeouts, silence, ignored cancels, claims not renewed, waits for a slot."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from jobboard.backends.thread_end import wait_for_thread
from jobboard.conductor.execution import Execution
from jobboard.conductor.log import logger
from jobboard.conductor.outcome import Dropped, Failed, Outcome, Returned

_MAX_SLEEP = 1.0


class Deadlines:
    """One thread that wakes when the next deadline of any execution is due; it sends no requests.

    :param executions: returns the executions to watch.
    :param on_due: is called with each execution that is past one of its deadlines, and the monotonic time.
    """

    def __init__(self, executions: Callable[[], list[Execution]], on_due: Callable[[Execution, float], None]) -> None:
        self._executions = executions
        self._on_due = on_due
        self._lock = threading.Condition()
        self._wake_at = time.monotonic() + _MAX_SLEEP
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="jobboard-deadlines", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            self._lock.notify_all()
        wait_for_thread(self._thread, _MAX_SLEEP + 10.0)

    def watch(self, execution: Execution) -> None:
        """Wake up in time for this execution; takes the lock only if its deadline is the next."""
        soonest = next_deadline(execution)
        if soonest < self._wake_at:
            with self._lock:
                self._wake_at = min(self._wake_at, soonest)
                self._lock.notify_all()

    def _run(self) -> None:
        while True:
            now = time.monotonic()
            with self._lock:
                self._wake_at = now + _MAX_SLEEP
            for execution in self._executions():
                if next_deadline(execution) <= now:
                    self._report(execution, now)
                self.watch(execution)
            with self._lock:
                while not self._stopped and (left := self._wake_at - time.monotonic()) > 0:
                    self._lock.wait(left)
                if self._stopped:
                    return

    def _report(self, execution: Execution, now: float) -> None:
        try:
            self._on_due(execution, now)
        except Exception:
            # A fault of one execution must not delay the deadlines of the others.
            logger.exception("the conductor could not act on a deadline of job %s", execution.job.uuid)


def next_deadline(execution: Execution) -> float:
    """Return the earliest of an execution's deadlines that still matter."""
    if execution.outcome is not None:
        return execution.stuck_at
    return min(execution.held_until, execution.deadline, execution.silent_at, execution.kill_at, execution.start_by)


def outcome_when_due(execution: Execution, now: float) -> Outcome | None:
    """Return what becomes of an execution whose handler runs, if one of its deadlines is over."""
    if execution.kill_at <= now:
        return Returned("it was cancelled, and its handler ignored that")
    if execution.deadline <= now:
        return Failed(f"timed out after {execution.handler.timeout:g} s")
    if execution.held_until <= now:
        # No renewal got through in time. The store may still keep the claim, but that is not certain.
        return Dropped()
    if execution.silent_at <= now:
        return Failed(f"silent for {execution.handler.silent_for:g} s: no progress, step or checkpoint")
    return None
