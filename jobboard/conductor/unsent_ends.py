"""Ends of claims that did not get through although the store answers: each is sent again by itself, at its own pace."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from jobboard.backends.thread_end import wait_for_thread
from jobboard.backends.timelimit import lock_wait
from jobboard.conductor.execution import Execution
from jobboard.conductor.log import logger
from jobboard.conductor.slots import Slots
from jobboard.errors import BoardUnavailable
from jobboard.text import in_one_line

#: Seconds until an end is sent again: at first, and at most.
MIN_PAUSE, MAX_PAUSE = 0.1, 5.0
#: Refusals after which an end is shown to operators, and the most ends that are shown.
TOLD_AFTER, MAX_TOLD = 3, 20


class _UnsentEnd:
    def __init__(self, execution: Execution, error: BoardUnavailable) -> None:
        self.execution = execution
        self.error = error
        self.refusals = 1
        self.pause = MIN_PAUSE
        self.began_at = time.monotonic()
        self.due_at = self.began_at + MIN_PAUSE

    def put_off(self, error: BoardUnavailable, *, is_refused: bool) -> None:
        self.error = error
        self.refusals += is_refused
        self.pause = min(self.pause * 2, MAX_PAUSE)
        self.due_at = time.monotonic() + self.pause

    def view(self) -> dict[str, Any]:
        job = self.execution.snapshot
        seconds = round(time.monotonic() - self.began_at, 1)
        return {"uuid": job.uuid, "name": job.name, "seconds": seconds, "error": in_one_line(str(self.error))}


class UnsentEnds:
    """Sends such ends from one thread of its own, so that they delay no others.

    :param send: sends one end; raises :class:`~jobboard.BoardUnavailable` if it did not get through.
    :param is_away: whether the store answers nothing at all, after a request failed by this error.
    :param on_change: is called when the ends that operators see have changed.
    """

    def __init__(
        self,
        who: str,
        slots: Slots,
        send: Callable[[Execution], object],
        is_away: Callable[[BoardUnavailable], bool],
        on_change: Callable[[], None],
    ) -> None:
        self._who = who
        self._slots = slots
        self._send = send
        self._is_away = is_away
        self._on_change = on_change
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._ends: list[_UnsentEnd] = []
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="jobboard-unsent-ends", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def add(self, execution: Execution, error: BoardUnavailable) -> None:
        """Send this end, which was refused by this error, again and again; returns at once."""
        with self._lock:
            self._ends.append(_UnsentEnd(execution, error))
            self._slots.set_unsent(len(self._ends))
            self._changed.notify()

    def reported(self) -> list[dict[str, Any]]:
        """Return those that operators are told of, for how long each could not be sent, and why; the oldest first."""
        with self._lock:
            return [end.view() for end in self._ends if end.refusals >= TOLD_AFTER][:MAX_TOLD]

    def request_stop(self) -> None:
        """Send no more; returns at once."""
        with self._lock:
            self._stopped = True
            self._changed.notify()

    def stop(self, timeout: float) -> None:
        """Send no more, and wait up to ``timeout`` seconds for a request that is under way."""
        self.request_stop()
        wait_for_thread(self._thread, timeout)

    def _run(self) -> None:
        with lock_wait(0.0):
            while (end := self._next()) is not None:
                self._try(end)

    def _next(self) -> _UnsentEnd | None:
        """Wait for the end that is due next; None when this thread is to end."""
        with self._lock:
            while not self._stopped:
                end = min(self._ends, key=lambda end: end.due_at, default=None)
                left = None if end is None else end.due_at - time.monotonic()
                if left is not None and left <= 0:
                    return end
                self._changed.wait(left)
            return None

    def _try(self, end: _UnsentEnd) -> None:
        try:
            self._send(end.execution)
        except BoardUnavailable as error:
            is_refused = not self._is_away(error)
            with self._lock:
                end.put_off(error, is_refused=is_refused)
            if is_refused and end.refusals == TOLD_AFTER:
                logger.warning(
                    "conductor %s can't end its claim of job %s, though the store answers others; it tries on: %s",
                    *(self._who, end.execution.job.uuid, error),
                )
                self._on_change()
            return
        with self._lock:
            self._ends.remove(end)
            self._slots.set_unsent(len(self._ends))
        if end.refusals >= TOLD_AFTER:
            logger.info("conductor %s: the end of job %s got through", self._who, end.execution.job.uuid)
            self._on_change()
